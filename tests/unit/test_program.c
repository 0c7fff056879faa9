/* test_program.c - the strings of a start: taken apart only when they are exactly as announced */
/* SPDX-License-Identifier: Apache-2.0 */
#include "init/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

struct program_case {
    const char *name;
    uint32_t argc, envc;
    const char *strings;
    size_t len;
    bool is_good;
};

#define STRINGS(text) text, sizeof(text) - 1

static const struct program_case cases[] = {
    {"one argument, no variables", 1, 0, STRINGS("/w\0/bin/true\0"), true},
    {"arguments and variables", 2, 1, STRINGS("/w\0/bin/echo\0hi\0A=b\0"), true},
    {"empty strings", 1, 2, STRINGS("\0\0\0\0"), true},
    {"no argument at all", 0, 1, STRINGS("/w\0A=b\0"), false},
    {"no strings", 1, 0, STRINGS(""), false},
    {"a directory only", 1, 0, STRINGS("/w\0"), false},
    {"a last string without its end", 1, 0, STRINGS("/w\0/bin/true"), false},
    {"an argument too few", 2, 0, STRINGS("/w\0/bin/true\0"), false},
    {"a string too many", 1, 0, STRINGS("/w\0/bin/true\0more\0"), false},
    {"a byte too many", 1, 0, STRINGS("/w\0/bin/true\0x"), false},
    {"a variable too few", 1, 2, STRINGS("/w\0/bin/true\0A=b\0"), false},
    {"more arguments than allowed", GUEST_ARGS_MAX + 1, 0, STRINGS("/w\0x\0"), false},
    {"more variables than allowed", 1, GUEST_ARGS_MAX + 1, STRINGS("/w\0x\0"), false},
    {"as many arguments as can be said", UINT32_MAX, 0, STRINGS("/w\0x\0"), false},
    {"as many variables as can be said", 1, UINT32_MAX, STRINGS("/w\0x\0"), false},
};

static size_t list_len(char **list)
{
    size_t n = 0;
    while (list[n])
        n++;
    return n;
}

static void test_case(void **state)
{
    const struct program_case *row = *state;
    static struct program program;
    const struct guest_message m = {
        .argc = row->argc, .envc = row->envc, .strings_len = (uint32_t)row->len};
    scoped_free char *copy = xmalloc(row->len + (row->len == 0));
    memcpy(copy, row->strings, row->len);
    assert_int_equal(program_parse(&program, &m, copy), row->is_good);
    if (!row->is_good)
        return;
    assert_ptr_equal(program.directory, copy);
    assert_int_equal(list_len(program.argv), row->argc);
    assert_int_equal(list_len(program.envp), row->envc);
}

static void test_content(void **state)
{
    (void)state;
    static struct program program;
    char strings[] = "/w\0/bin/echo\0\0hi there\0A=b\0PATH=/bin";
    const struct guest_message m = {.argc = 3, .envc = 2, .strings_len = sizeof(strings)};
    assert_true(program_parse(&program, &m, strings));
    assert_string_equal(program.directory, "/w");
    assert_string_equal(program.argv[0], "/bin/echo");
    assert_string_equal(program.argv[1], "");
    assert_string_equal(program.argv[2], "hi there");
    assert_null(program.argv[3]);
    assert_string_equal(program.envp[0], "A=b");
    assert_string_equal(program.envp[1], "PATH=/bin");
    assert_null(program.envp[2]);
}

static void test_most(void **state)
{
    (void)state;
    static struct program program;
    static char strings[1 + 2 * GUEST_ARGS_MAX]; /* so many empty strings */
    const struct guest_message m = {
        .argc = GUEST_ARGS_MAX, .envc = GUEST_ARGS_MAX, .strings_len = sizeof(strings)};
    assert_true(program_parse(&program, &m, strings));
    assert_int_equal(list_len(program.argv), GUEST_ARGS_MAX);
    assert_int_equal(list_len(program.envp), GUEST_ARGS_MAX);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_case);
    check_one(&check, "each string is where it belongs", test_content);
    check_one(&check, "as many strings as allowed fit", test_most);
    return check_run(&check, "program");
}
