/* check.h - cmocka with tables: each row of cases is one test, named by its first member */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/macros.h"

#define CHECK_MAX 512 /* tests of one program */

struct check {
    struct CMUnitTest tests[CHECK_MAX];
    size_t count;
};

/* Adds one test; `name` is a sentence ("refuses a body longer than the limit"). */
void check_one(struct check *check, const char *name, void (*test)(void **state));

/* Adds one test per row; *state is the row, whose first member is `const char *name`. */
#define check_rows(check, rows, test)                                                              \
    check_table(check, rows, ARRAY_LEN(rows), sizeof((rows)[0]), test)
void check_table(struct check *check, const void *rows, size_t count, size_t size,
                 void (*test)(void **state));

/* Runs them, with TAP on stdout; answers main()'s status. */
int check_run(struct check *check, const char *module);

/* Ends the running test as skipped; `why` is printed. */
void check_skip(const char *why);

/* What a test needs of the world outside; each fails the test when it does not work. */
char *check_temp_dir(void);                                  /* owned path of a new folder */
void check_remove_dir(char *path);                           /* with all in it; takes `path` */
char *check_temp_file(const char *dir, const char *content); /* owned path */
void check_put_file(const char *dir, const char *name, const char *content);
char *check_read_file(const char *path); /* owned text */

unsigned check_count_fds(void); /* that are open, of the first 256 */

/* That so many are open; what other threads close may take them a while. */
#define check_fds(expected) check_fds_at(expected, __FILE__, __LINE__)
void check_fds_at(unsigned expected, const char *file, int line);
