/* test_option.c - one table, four sources */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/option.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"

struct target {
    bool fast;
    bool safe;
    char *text;
    char *token;
    uint64_t number;
    uint64_t size;
    uint64_t time;
    uint64_t cpus;
    struct option_list items;
    unsigned colour;
};

#define AT(field) offsetof(struct target, field)

static const char *const colours[] = {"red", "green", NULL};
static const char *const text_also[] = {"OTHER_TEXT", "THIRD_TEXT", NULL};

enum { FAST, SAFE, TEXT, TOKEN, NUMBER, SIZE, TIME, CPUS, ITEMS, COLOUR, ROWS };

static const struct option_row rows[ROWS] = {
    [FAST] = {.name = "fast",
              .short_name = 'f',
              .type = OPTION_BOOL,
              .flags = OPTION_CONFIG,
              .offset = AT(fast),
              .help = "Go fast"},
    [SAFE] = {.name = "safe",
              .short_name = 's',
              .type = OPTION_BOOL,
              .flags = OPTION_CONFIG,
              .offset = AT(safe),
              .preset = "true",
              .help = "Stay safe"},
    [TEXT] = {.name = "some-text",
              .short_name = 't',
              .type = OPTION_STRING,
              .flags = OPTION_CONFIG,
              .offset = AT(text),
              .min = 1,
              .max = 20,
              .also = text_also,
              .help = "Text"},
    [TOKEN] = {.name = "token",
               .type = OPTION_STRING,
               .flags = OPTION_CONFIG | OPTION_SECRET,
               .offset = AT(token),
               .max = 30,
               .help = "Secret"},
    [NUMBER] = {.name = "number",
                .short_name = 'n',
                .type = OPTION_U64,
                .flags = OPTION_CONFIG,
                .offset = AT(number),
                .preset = "7",
                .min = 2,
                .max = 9,
                .help = "Number"},
    [SIZE] = {.name = "size",
              .type = OPTION_SIZE,
              .flags = OPTION_CONFIG,
              .offset = AT(size),
              .preset = "64K",
              .min = 1024,
              .help = "Size"},
    [TIME] = {.name = "time",
              .type = OPTION_DURATION_MS,
              .flags = OPTION_CONFIG,
              .offset = AT(time),
              .preset = "30s",
              .min = 1,
              .max = 60000,
              .help = "Time"},
    [CPUS] = {.name = "cpus",
              .type = OPTION_MILLI,
              .flags = OPTION_CONFIG,
              .offset = AT(cpus),
              .preset = "0.5",
              .min = 10,
              .max = 4000,
              .help = "Cores"},
    [ITEMS] = {.name = "item",
               .short_name = 'i',
               .type = OPTION_LIST,
               .flags = OPTION_CONFIG,
               .offset = AT(items),
               .help = "Item"},
    [COLOUR] = {.name = "colour",
                .type = OPTION_ENUM,
                .flags = OPTION_ENV,
                .offset = AT(colour),
                .preset = "green",
                .choices = colours,
                .help = "Colour"},
};

struct fixture {
    struct target target;
    struct option_set set;
    struct error err;
};

static void fixture_init(struct fixture *f)
{
    *f = (struct fixture){.err = {.msg = ""}};
    option_set_init(&f->set, rows, ROWS, &f->target);
}

/* "name=value" of every row that has a value of its own, for comparing. */
static void describe(const struct fixture *f, struct strbuf *out)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (!option_is_set(&f->set, i))
            continue;
        strbuf_add_fmt(out, "%s%s=", out->len > 0 ? " " : "", rows[i].name);
        option_add_value(&f->set, i, out);
    }
}

/* --- flags ---------------------------------------------------------------------------------- */

struct flag_case {
    const char *name;
    const char *argv[8];
    bool stop_at_argument;
    const char *values; /* NULL: refused with `error` */
    const char *rest;   /* the other arguments, with a blank after each */
    const char *error, *hint;
};

static const struct flag_case flags[] = {
    {"no flags, no values", {NULL}, false, "", ""},
    {"a value may be the next argument", {"--number", "3"}, false, "number=3", ""},
    {"a value may follow an equals sign", {"--number=3"}, false, "number=3", ""},
    {"a value may follow a short name", {"-n3"}, false, "number=3", ""},
    {"a short name may take the next argument", {"-n", "3"}, false, "number=3", ""},
    {"a value may look like a flag", {"--some-text", "--fast"}, false, "some-text=--fast", ""},
    {"a value may hold an equals sign", {"--some-text=a=b"}, false, "some-text=a=b", ""},
    {"a switch needs no value", {"--fast"}, false, "fast=true", ""},
    {"a switch can be turned off", {"--no-safe"}, false, "safe=false", ""},
    {"a switch can be given a value", {"--safe=no"}, false, "safe=false", ""},
    {"a switch leaves the next argument alone", {"--fast", "no"}, false, "fast=true", "no "},
    {"short switches can be joined", {"-fs"}, false, "fast=true safe=true", ""},
    {"a joined short name takes the rest", {"-fn3"}, false, "fast=true number=3", ""},
    {"the last one wins", {"-n3", "-n4"}, false, "number=4", ""},
    {"a list grows, and keeps commas", {"-i", "a,b", "--item=c"}, false, "item=a,b,c", ""},
    {"every type is read",
     {"--size=1M", "--time=500ms", "--cpus=1.25", "--colour=red"},
     false,
     "size=1M time=500ms cpus=1.25 colour=red",
     ""},
    {"arguments stay in order",
     {"a", "-f", "b", "-n3", "c"},
     false,
     "fast=true number=3",
     "a b c "},
    {"a dash alone is an argument", {"-", "-f"}, false, "fast=true", "- "},
    {"two dashes end the flags", {"-f", "--", "-n3", "--"}, false, "fast=true", "-n3 -- "},
    {"the first argument can end them",
     {"-f", "x", "-n3", "--", "y"},
     true,
     "fast=true",
     "x -n3 -- y "},
    {"an unknown name is refused with the nearest",
     {"--nunber=3"},
     false,
     NULL,
     NULL,
     "unknown option '--nunber'",
     "did you mean '--number'?"},
    {"an unknown name with no neighbour is refused",
     {"--zzz"},
     false,
     NULL,
     NULL,
     "unknown option '--zzz'",
     ""},
    {"an unknown letter is refused", {"-fz"}, false, NULL, NULL, "unknown option '-z'", ""},
    {"the beginning of a name is not the name",
     {"--num=3"},
     false,
     NULL,
     NULL,
     "unknown option '--num'",
     "did you mean '--number'?"},
    {"only a switch can be turned off",
     {"--no-number"},
     false,
     NULL,
     NULL,
     "unknown option '--no-number'",
     "did you mean '--number'?"},
    {"an empty name is refused", {"--=x"}, false, NULL, NULL, "unknown option '--'", ""},
    {"a missing value is told",
     {"--number"},
     false,
     NULL,
     NULL,
     "option '--number' needs a value: --number N",
     ""},
    {"a value below the least is refused",
     {"-n1"},
     false,
     NULL,
     NULL,
     "option 'number' (flag --number): '1' must be a whole number from 2 to 9",
     ""},
    {"a value above the most is refused",
     {"--time=2m"},
     false,
     NULL,
     NULL,
     "option 'time' (flag --time): '2m' must be a duration from 1ms to 1m",
     ""},
    {"a value without an upper end says so",
     {"--size=1"},
     false,
     NULL,
     NULL,
     "option 'size' (flag --size): '1' must be a size of at least 1K",
     ""},
    {"a word that is no choice is refused",
     {"--colour=blue"},
     false,
     NULL,
     NULL,
     "option 'colour' (flag --colour): 'blue' must be one of: red, green",
     ""},
    {"a switch refuses other words",
     {"--fast=maybe"},
     false,
     NULL,
     NULL,
     "option 'fast' (flag --fast): 'maybe' must be true or false",
     ""},
    {"text that is too long is refused",
     {"-t", "123456789012345678901"},
     false,
     NULL,
     NULL,
     "option 'some-text' (flag --some-text): '123456789012345678901' must be text of 1 to 20 bytes",
     ""},
    {"empty text is refused where it means nothing",
     {"-t", ""},
     false,
     NULL,
     NULL,
     "option 'some-text' (flag --some-text): '' must be text of 1 to 20 bytes",
     ""},
    {"a bad secret is not repeated",
     {"--token", "0123456789012345678901234567890"},
     false,
     NULL,
     NULL,
     "option 'token' (flag --token): its value must be text of 0 to 30 bytes",
     ""},
};

static void test_flags(void **state)
{
    const struct flag_case *row = *state;
    struct fixture f;
    fixture_init(&f);
    char *argv[ARRAY_LEN(row->argv) + 1] = {NULL};
    int argc = 0;
    for (; row->argv[argc]; argc++)
        argv[argc] = (char *)row->argv[argc];

    struct option_set *const sets[] = {&f.set};
    int result = option_apply_flags(sets, 1, &argc, argv, row->stop_at_argument, &f.err);
    if (row->values) {
        scoped_strbuf struct strbuf values, rest;
        strbuf_init(&values, 1000);
        strbuf_init(&rest, 1000);
        assert_string_equal(f.err.msg, "");
        assert_int_equal(result, 0);
        describe(&f, &values);
        assert_string_equal(strbuf_str(&values), row->values);
        for (int i = 0; i < argc; i++)
            strbuf_add_fmt(&rest, "%s ", argv[i]);
        assert_string_equal(strbuf_str(&rest), row->rest);
    } else {
        assert_int_equal(result, -1);
        assert_int_equal(f.err.code, ERROR_INVALID);
        assert_string_equal(f.err.msg, row->error);
        assert_string_equal(f.err.hint, row->hint);
    }
    option_set_release(&f.set);
    assert_null(f.target.text);
}

static void test_two_sets(void **state)
{
    (void)state;
    static const struct option_row own[] = {
        {.name = "number", .type = OPTION_U64, .offset = 0, .help = "Ours"}};
    uint64_t number = 0;
    struct option_set set;
    struct fixture f;
    fixture_init(&f);
    option_set_init(&set, own, 1, &number);
    struct option_set *const sets[] = {&set, &f.set};
    char *argv[] = {(char *)"--number=5000", (char *)"--fast"};
    int argc = 2;
    assert_int_equal(option_apply_flags(sets, 2, &argc, argv, false, &f.err), 0);
    assert_int_equal(number, 5000);
    assert_true(f.target.fast);
    assert_false(option_is_set(&f.set, NUMBER));
    option_set_release(&set);
    option_set_release(&f.set);
}

/* --- environment ---------------------------------------------------------------------------- */

struct environment_case {
    const char *name;
    const char *variables[6]; /* name, value, name, value */
    const char *values;       /* NULL: refused with `error` */
    const char *error;
};

static const struct environment_case environments[] = {
    {"a variable sets its option", {"COVE_NUMBER", "3"}, "number=3", NULL},
    {"dashes are underscores", {"COVE_SOME_TEXT", "x"}, "some-text=x", NULL},
    {"another name is read too", {"OTHER_TEXT", "x"}, "some-text=x", NULL},
    {"the own name wins over the other",
     {"OTHER_TEXT", "x", "COVE_SOME_TEXT", "y"},
     "some-text=y",
     NULL},
    {"the first other name wins over the second",
     {"THIRD_TEXT", "x", "OTHER_TEXT", "y"},
     "some-text=y",
     NULL},
    {"an empty variable is not set", {"COVE_NUMBER", ""}, "", NULL},
    {"a list is split at commas", {"COVE_ITEM", "a, b ,,c"}, "item=a,b,c", NULL},
    {"a secret is masked", {"COVE_TOKEN", "hush"}, "token=********", NULL},
    {"a bad value names its variable",
     {"COVE_NUMBER", "x"},
     NULL,
     "option 'number' (environment COVE_NUMBER): 'x' must be a whole number from 2 to 9"},
    {"a bad value of another name names that",
     {"OTHER_TEXT", "123456789012345678901"},
     NULL,
     "option 'some-text' (environment OTHER_TEXT): '123456789012345678901' must be text of 1 to 20 "
     "bytes"},
    {"a secret's file must be there",
     {"COVE_TOKEN_FILE", "/nonexistent/token"},
     NULL,
     "environment COVE_TOKEN_FILE: open '/nonexistent/token': no such file or directory"},
    {"only a secret may be in a file", {"COVE_NUMBER_FILE", "/nonexistent/token"}, "", NULL},
};

static void test_environment(void **state)
{
    const struct environment_case *row = *state;
    struct fixture f;
    fixture_init(&f);
    for (size_t i = 0; row->variables[i]; i += 2)
        setenv(row->variables[i], row->variables[i + 1], 1);
    int result = option_apply_environment(&f.set, &f.err);
    for (size_t i = 0; row->variables[i]; i += 2)
        unsetenv(row->variables[i]);

    scoped_strbuf struct strbuf values;
    strbuf_init(&values, 1000);
    describe(&f, &values);
    assert_int_equal(result, row->values ? 0 : -1);
    assert_string_equal(f.err.msg, row->error ? row->error : "");
    if (row->values)
        assert_string_equal(strbuf_str(&values), row->values);
    option_set_release(&f.set);
}

static void test_secret_file(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    scoped_free char *path = check_temp_file(dir, "hush\n");
    struct fixture f;
    fixture_init(&f);
    setenv("COVE_TOKEN_FILE", path, 1);
    assert_int_equal(option_apply_environment(&f.set, &f.err), 0);
    unsetenv("COVE_TOKEN_FILE");
    assert_string_equal(f.target.token, "hush");
    assert_string_equal(option_origin(&f.set, TOKEN), "environment COVE_TOKEN_FILE");
    option_set_release(&f.set);
    check_remove_dir(dir);
}

/* --- file ----------------------------------------------------------------------------------- */

struct file_case {
    const char *name;
    const char *text;
    const char *values;
    const char *error; /* what follows "FILE:" */
    const char *hint;
};

static const struct file_case files[] = {
    {"keys are option names", "number = 3\nsome-text = a b\n", "some-text=a b number=3", NULL, ""},
    {"lists are split and repeated", "item = a,b\nitem = c\n", "item=a,b,c", NULL, ""},
    {"an unknown key is refused with its line", "\nnumbr = 3", NULL, "2: unknown option 'numbr'",
     "did you mean 'number'?"},
    {"an option that is not for files is unknown", "colour = red", NULL,
     "1: unknown option 'colour'", ""},
    {"a section is refused", "[run]\nnumber = 3", NULL, "2: section '[run]' has no place here", ""},
};

static void test_file(void **state)
{
    const struct file_case *row = *state;
    char *dir = check_temp_dir();
    scoped_free char *path = check_temp_file(dir, row->text);
    struct fixture f;
    fixture_init(&f);
    int result = option_apply_file(&f.set, path, &f.err);
    assert_int_equal(result, row->values ? 0 : -1);
    if (row->values) {
        scoped_strbuf struct strbuf values;
        strbuf_init(&values, 1000);
        describe(&f, &values);
        assert_string_equal(strbuf_str(&values), row->values);
    } else {
        scoped_free char *expected = xasprintf("%s:%s", path, row->error);
        assert_string_equal(f.err.msg, expected);
        assert_string_equal(f.err.hint, row->hint);
    }
    option_set_release(&f.set);
    check_remove_dir(dir);
}

/* --- all of them ---------------------------------------------------------------------------- */

static void test_priority(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    scoped_free char *first =
        check_temp_file(dir, "number = 3\nsome-text = file\nsize = 1K\nitem = a,b\ntime = 1");
    scoped_free char *second = check_temp_file(dir, "number = 4\nitem = c");
    char *argv[] = {(char *)"--size=3K", (char *)"--no-safe"};
    int argc = 2;
    struct fixture f;
    fixture_init(&f);
    struct option_set *const sets[] = {&f.set};
    setenv("COVE_SOME_TEXT", "environment", 1);
    setenv("COVE_SIZE", "2K", 1);
    /* The order in which the sources are read must not matter: flags come first in practice, since
     * --config names the file. */
    assert_int_equal(option_apply_flags(sets, 1, &argc, argv, false, &f.err), 0);
    assert_int_equal(option_apply_environment(&f.set, &f.err), 0);
    assert_int_equal(option_apply_file(&f.set, first, &f.err), 0);
    assert_int_equal(option_apply_file(&f.set, second, &f.err), 0);
    option_apply_presets(&f.set);
    unsetenv("COVE_SOME_TEXT");
    unsetenv("COVE_SIZE");

    scoped_free char *from_second = xasprintf("file %s", second);
    assert_int_equal(f.target.number, 4);
    assert_string_equal(option_origin(&f.set, NUMBER), from_second);
    assert_int_equal(f.target.items.count, 1); /* a later file takes the place of an earlier one */
    assert_string_equal(f.target.text, "environment");
    assert_string_equal(option_origin(&f.set, TEXT), "environment COVE_SOME_TEXT");
    assert_int_equal(f.target.size, 3072);
    assert_string_equal(option_origin(&f.set, SIZE), "flag --size");
    assert_false(f.target.safe);
    assert_int_equal(f.target.time, 1000);
    assert_int_equal(f.target.cpus, 500);
    assert_string_equal(option_origin(&f.set, CPUS), "default");
    assert_int_equal(f.target.colour, 1);
    option_set_release(&f.set);
    check_remove_dir(dir);
}

static void test_hidden_bad_value(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    struct option_set *const sets[] = {&f.set};
    char *argv[] = {(char *)"--number=3"};
    int argc = 1;
    assert_int_equal(option_apply_flags(sets, 1, &argc, argv, false, &f.err), 0);
    setenv("COVE_NUMBER", "many", 1);
    assert_int_equal(option_apply_environment(&f.set, &f.err), -1);
    unsetenv("COVE_NUMBER");
    option_set_release(&f.set);
}

static void test_missing_file(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    assert_int_equal(option_apply_file(&f.set, "/nonexistent/cove.conf", &f.err), -1);
    assert_int_equal(f.err.code, ERROR_NOT_FOUND);
    option_set_release(&f.set);
}

static void test_words(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 100);
    option_add_environment_name(&rows[TEXT], &text);
    assert_string_equal(strbuf_str(&text), "COVE_SOME_TEXT");
    assert_string_equal(option_arg(&rows[SIZE]), "SIZE");
    assert_string_equal(option_arg(&rows[FAST]), "");
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, flags, test_flags);
    check_one(&check, "a command's own options win over the global ones", test_two_sets);
    check_rows(&check, environments, test_environment);
    check_one(&check, "a secret is read from its file, without the line end", test_secret_file);
    check_rows(&check, files, test_file);
    check_one(&check, "a missing file is not found", test_missing_file);
    check_one(&check, "flag beats environment beats file beats preset", test_priority);
    check_one(&check, "a bad value counts although a better source hides it",
              test_hidden_bad_value);
    check_one(&check, "names and ranges have words", test_words);
    return check_run(&check, "option");
}
