/* test_keepsake.c - texts that are made once and stay */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coved/keepsake.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

static char *path_of(const char *dir, const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static void write_text(const char *dir, const char *name, const char *text)
{
    scoped_free char *path = path_of(dir, name), *file = check_temp_file(dir, text);
    assert_int_equal(rename(file, path), 0);
}

static void test_secret(void **state)
{
    struct error err;
    struct stat st;
    char *dir = check_temp_dir();
    scoped_free char *first = NULL, *again = NULL, *other = NULL, *path = path_of(dir, "token");
    (void)state;
    assert_int_equal(keepsake_get(&first, dir, "token", NULL, &err), 0);
    assert_int_equal(strlen(first), KEEPSAKE_LETTERS);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(keepsake_get(&again, dir, "token", NULL, &err), 0);
    assert_string_equal(again, first);
    assert_int_equal(keepsake_get(&other, dir, "other", NULL, &err), 0);
    assert_string_not_equal(other, first);
    check_remove_dir(dir);
}

static void test_preset(void **state)
{
    struct error err;
    char *dir = check_temp_dir();
    scoped_free char *first = NULL, *again = NULL;
    (void)state;
    assert_int_equal(keepsake_get(&first, dir, "node", "alpha", &err), 0);
    assert_string_equal(first, "alpha");
    assert_int_equal(keepsake_get(&again, dir, "node", "beta", &err), 0);
    assert_string_equal(again, "alpha");
    check_remove_dir(dir);
}

/* Killed between the draft and its move: the half of a secret is nobody's secret. */
static void test_draft(void **state)
{
    struct error err;
    char *dir = check_temp_dir();
    scoped_free char *text = NULL, *draft = path_of(dir, "token.new");
    (void)state;
    write_text(dir, "token.new", "half");
    assert_int_equal(keepsake_get(&text, dir, "token", NULL, &err), 0);
    assert_int_equal(strlen(text), KEEPSAKE_LETTERS);
    assert_int_equal(access(draft, F_OK), -1);
    check_remove_dir(dir);
}

static void test_open_to_others(void **state)
{
    struct error err;
    struct stat st;
    char *dir = check_temp_dir();
    scoped_free char *text = NULL, *path = path_of(dir, "token");
    (void)state;
    write_text(dir, "token", "chosen by hand\r\nand more\n");
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(keepsake_get(&text, dir, "token", NULL, &err), 0);
    assert_string_equal(text, "chosen by hand");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    check_remove_dir(dir);
}

static void test_refusals(void **state)
{
    struct error err;
    char *dir = check_temp_dir(), *text = NULL;
    scoped_free char *link = path_of(dir, "link"), *pipe = path_of(dir, "pipe");
    (void)state;
    write_text(dir, "empty", "\n");
    assert_int_equal(keepsake_get(&text, dir, "empty", NULL, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
    assert_int_equal(symlink("empty", link), 0);
    assert_int_equal(keepsake_get(&text, dir, "link", NULL, &err), -1);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(keepsake_get(&text, dir, "pipe", NULL, &err), -1);
    assert_int_equal(err.code, ERROR_DENIED);
    assert_int_equal(keepsake_get(&text, "/nonexistent", "token", NULL, &err), -1);
    assert_null(text);
    check_remove_dir(dir);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "makes a secret once, for its owner alone", test_secret);
    check_one(&check, "keeps what it was made with", test_preset);
    check_one(&check, "takes no half of a secret for one", test_draft);
    check_one(&check, "closes a file that others could read", test_open_to_others);
    check_one(&check, "refuses empty files, links, pipes and folders that are not there",
              test_refusals);
    return check_run(&check, "keepsake");
}
