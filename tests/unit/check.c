/* check.c - the part of the unit tests that all of them share */
/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"

#define FILE_MAX_BYTES (1 * MIB)
#define PATIENCE_MS    10000

void check_one(struct check *check, const char *name, void (*test)(void **state))
{
    BUG_ON(check->count == CHECK_MAX);
    check->tests[check->count++] = (struct CMUnitTest){.name = name, .test_func = test};
}

void check_table(struct check *check, const void *rows, size_t count, size_t size,
                 void (*test)(void **state))
{
    for (size_t i = 0; i < count; i++) {
        const char *row = (const char *)rows + i * size;
        check_one(check, *(const char *const *)row, test);
        check->tests[check->count - 1].initial_state = (void *)row;
    }
}

void check_skip(const char *why)
{
    print_message("# skipped: %s\n", why);
    skip();
}

/* cmocka calls a skipped test "not ok ... # SKIP", which TAP readers count as a failure. */
static ssize_t write_line(void *cookie, const char *line, size_t len)
{
    (void)cookie;
    struct error err;
    bool is_skipped = memmem(line, len, " # SKIP ", strlen(" # SKIP ")) != NULL;
    size_t cut = is_skipped && strncmp(line, "not ok ", MIN(len, 7)) == 0 ? strlen("not ") : 0;
    return fd_write_all(STDOUT_FILENO, line + cut, len - cut, &err) < 0 ? -1 : (ssize_t)len;
}

int check_run(struct check *check, const char *module)
{
    const cookie_io_functions_t functions = {.write = write_line};
    FILE *lines = fopencookie(NULL, "w", functions);
    BUG_ON(!lines || setvbuf(lines, NULL, _IOLBF, BUFSIZ) != 0);
    stdout = lines;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return _cmocka_run_group_tests(module, check->tests, check->count, NULL, NULL);
}

char *check_temp_dir(void)
{
    const char *base = getenv("TMPDIR");
    char *path = xasprintf("%s/cove-test-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    return path;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void check_remove_dir(char *path)
{
    assert_int_equal(nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(path);
}

char *check_temp_file(const char *dir, const char *content)
{
    struct error err;
    char *path = xasprintf("%s/file-XXXXXX", dir);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, content, strlen(content), &err), 0);
    close(fd);
    return path;
}

void check_put_file(const char *dir, const char *name, const char *content)
{
    struct error err;
    scoped_free char *path = xasprintf("%s/%s", dir, name);
    scoped_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, content, strlen(content), &err), 0);
}

char *check_read_file(const char *path)
{
    struct error err;
    char *text = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fd_read_text(fd, &text, FILE_MAX_BYTES, &err), 0);
    close(fd);
    return text;
}

unsigned check_count_fds(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

void check_fds_at(unsigned expected, const char *file, int line)
{
    unsigned count = check_count_fds();
    for (int waited_ms = 0; count != expected && waited_ms < PATIENCE_MS; waited_ms++) {
        poll(NULL, 0, 1);
        count = check_count_fds();
    }
    _assert_int_equal(count, expected, file, line);
}
