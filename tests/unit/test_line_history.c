/* test_line_history.c - entries in memory and in a file that several share */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_history.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/memory.h"
#include "check.h"

static char *path_in(const char *dir)
{
    return xasprintf("%s/state/cove/history-python", dir);
}

static void add(struct line_history *h, const char *text)
{
    line_history_add(h, text, strlen(text));
}

static void test_round(void **state)
{
    (void)state;
    static const char *const entries[] = {"x = 1", "def f():\n    return '\\n'", "back\\slash\\",
                                          "漢字"};
    char *dir = check_temp_dir();
    scoped_free char *path = path_in(dir);
    scoped(line_history) struct line_history *first = line_history_new(path);
    for (size_t i = 0; i < ARRAY_LEN(entries); i++)
        add(first, entries[i]);
    add(first, entries[ARRAY_LEN(entries) - 1]); /* again: left out */
    add(first, "");
    scoped(line_history) struct line_history *second = line_history_new(path);
    assert_int_equal(line_history_count(second), ARRAY_LEN(entries));
    for (size_t i = 0; i < ARRAY_LEN(entries); i++)
        assert_string_equal(line_history_get(second, i), entries[i]);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    check_remove_dir(dir);
}

static void test_find(void **state)
{
    (void)state;
    scoped(line_history) struct line_history *h = line_history_new(NULL);
    add(h, "import os");
    add(h, "x = 1");
    add(h, "import sys");
    size_t at = line_history_count(h);
    assert_true(line_history_find_prefix(h, &at, false, "import", NULL));
    assert_int_equal(at, 2);
    assert_true(line_history_find_prefix(h, &at, false, "import", NULL));
    assert_int_equal(at, 0);
    assert_false(line_history_find_prefix(h, &at, false, "import", NULL));
    assert_int_equal(at, 0);
    assert_true(line_history_find_part(h, &at, true, "= 1", NULL));
    assert_int_equal(at, 1);
    at = 3;
    assert_true(line_history_find_prefix(h, &at, false, "", "import sys"));
    assert_int_equal(at, 1);
}

static void test_shared(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    scoped_free char *path = path_in(dir);
    scoped(line_history) struct line_history *ours = line_history_new(path);
    enum { WRITERS = 4, LINES = 400 }; /* together more than the file may hold */
    for (int i = 0; i < WRITERS; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid > 0)
            continue;
        for (int k = 0; k < LINES; k++) {
            char text[48];
            snprintf(text, sizeof(text), "writer %d line %d", i, k);
            scoped(line_history) struct line_history *h = line_history_new(path);
            add(h, text);
        }
        _exit(0);
    }
    for (int i = 0; i < WRITERS; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    add(ours, "the last one");
    scoped(line_history) struct line_history *h = line_history_new(path);
    assert_int_equal(line_history_count(h), LINE_HISTORY_MAX);
    assert_string_equal(line_history_get(h, LINE_HISTORY_MAX - 1), "the last one");
    int last[WRITERS] = {0}, writer, line; /* what is there of each has no holes */
    for (size_t i = 0; i + 1 < line_history_count(h); i++) {
        assert_int_equal(sscanf(line_history_get(h, i), "writer %d line %d", &writer, &line), 2);
        assert_true(last[writer] == 0 || line == last[writer] + 1);
        last[writer] = line;
    }
    check_remove_dir(dir);
}

static void test_hopeless(void **state)
{
    (void)state;
    scoped(line_history) struct line_history *h = line_history_new("/proc/no/such/place");
    add(h, "still here");
    assert_int_equal(line_history_count(h), 1);
    for (int i = 0; i < 2 * LINE_HISTORY_MAX; i++) {
        char text[32];
        snprintf(text, sizeof(text), "%d", i);
        add(h, text);
    }
    assert_int_equal(line_history_count(h), LINE_HISTORY_MAX);
    assert_string_equal(line_history_get(h, LINE_HISTORY_MAX - 1), "1999");
}

static void test_link(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    scoped_free char *target = check_temp_file(dir, "precious");
    scoped_free char *path = xasprintf("%s/history", dir);
    assert_int_equal(symlink(target, path), 0);
    scoped(line_history) struct line_history *h = line_history_new(path);
    add(h, "text");
    scoped_free char *content = check_read_file(target);
    assert_string_equal(content, "precious");
    check_remove_dir(dir);
}

static void test_path(void **state)
{
    (void)state;
    setenv("HOME", "/home/a", 1);
    unsetenv("XDG_STATE_HOME");
    unsetenv("COVE_HISTORY");
    scoped_free char *home = line_history_path("bash");
    assert_string_equal(home, "/home/a/.local/state/cove/history-bash");
    setenv("XDG_STATE_HOME", "/s", 1);
    scoped_free char *xdg = line_history_path("bash");
    assert_string_equal(xdg, "/s/cove/history-bash");
    setenv("COVE_HISTORY", "/f", 1);
    scoped_free char *given = line_history_path("bash");
    assert_string_equal(given, "/f");
    setenv("COVE_HISTORY", "", 1);
    assert_null(line_history_path("bash"));
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "entries of several lines come back as they were", test_round);
    check_one(&check, "finds by beginning and by part, in both directions", test_find);
    check_one(&check, "several writers lose nothing of each other", test_shared);
    check_one(&check, "without a file, memory remembers up to the limit", test_hopeless);
    check_one(&check, "a link in place of the file is not followed", test_link);
    check_one(&check, "the file is where the environment says", test_path);
    return check_run(&check, "line_history");
}
