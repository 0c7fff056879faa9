/* test_conf.c - files of "key = value" */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"

struct conf_case {
    const char *name;
    const char *text;
    const char *entries; /* "section/key=value;" of each; up to the error */
    const char *error;   /* NULL: none */
};

static const struct conf_case cases[] = {
    {"an empty file has no entries", "", "", NULL},
    {"blank lines and comments have none either", "\n  \n# a = b\n\t# c\n", "", NULL},
    {"blanks around key and value go", "  a\t=  b c \n", "/a=b c;", NULL},
    {"a value may be empty", "a =\n", "/a=;", NULL},
    {"a value may hold an equals sign", "a = b=c", "/a=b=c;", NULL},
    {"a value may hold a number sign", "a = b#c", "/a=b#c;", NULL},
    {"a number sign after a blank begins a comment", "a = b # c", "/a=b;", NULL},
    {"a section holds for what follows", "a=1\n[x]\nb=2\n[ y ]\nc=3", "/a=1;x/b=2;y/c=3;", NULL},
    {"line ends of other systems are fine", "a=1\r\nb=2\r\n", "/a=1;/b=2;", NULL},
    {"a line without an equals sign is refused, with its number", "a=1\nhello\n", "/a=1;",
     "test:2: 'hello' is not 'key = value'"},
    {"a line without a key is refused", "\n\n= 1", "", "test:3: '=' is not 'key = value'"},
    {"a section that is not closed is refused", "[x", "", "test:1: '[x' is not 'key = value'"},
    {"of a bad line only the first word is repeated, since the rest may be secret", "token s3cret",
     "", "test:1: 'token' is not 'key = value'"},
    {"the reader's own error gets file and line", "a=1\nstop=1\nb=2", "/a=1;", "test:2: stop it"},
};

static int collect(void *ctx, const char *section, const char *key, const char *value,
                   struct error *err)
{
    if (strcmp(key, "stop") == 0)
        return error_set(err, ERROR_INVALID, "stop it");
    strbuf_add_fmt(ctx, "%s/%s=%s;", section, key, value);
    return 0;
}

static void test_parse(void **state)
{
    const struct conf_case *row = *state;
    scoped_free char *text = xstrdup(row->text);
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 4096);
    struct error err = {.msg = ""};
    assert_int_equal(conf_parse("test", text, collect, &got, &err), row->error ? -1 : 0);
    assert_string_equal(strbuf_str(&got), row->entries);
    assert_string_equal(err.msg, row->error ? row->error : "");
}

static void test_file(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    scoped_free char *path = check_temp_file(dir, "a = 1\n[s]\nb = 2\n");
    scoped_free char *missing = xasprintf("%s/missing", dir);
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 4096);
    struct error err;
    assert_int_equal(conf_read(AT_FDCWD, path, collect, &got, &err), 0);
    assert_string_equal(strbuf_str(&got), "/a=1;s/b=2;");
    assert_int_equal(conf_read(AT_FDCWD, missing, collect, &got, &err), -1);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    assert_int_equal(conf_read(AT_FDCWD, dir, collect, &got, &err), -1); /* a folder */
    check_remove_dir(dir);
}

static void test_too_large(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    scoped_free char *big = xmalloc(CONF_FILE_MAX_BYTES + 2);
    memset(big, '\n', CONF_FILE_MAX_BYTES + 1);
    big[CONF_FILE_MAX_BYTES + 1] = '\0';
    scoped_free char *path = check_temp_file(dir, big);
    struct error err;
    assert_int_equal(conf_read(AT_FDCWD, path, collect, NULL, &err), -1);
    assert_int_equal(err.code, ERROR_TOO_LARGE);
    check_remove_dir(dir);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_parse);
    check_one(&check, "a file is read, a missing one is not found", test_file);
    check_one(&check, "a file above the limit is refused", test_too_large);
    return check_run(&check, "conf");
}
