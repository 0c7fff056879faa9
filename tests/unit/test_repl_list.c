/* test_repl_list.c - names in columns and the table of variables, at any width */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/repl_list.h"

#include <string.h>

#include "base/strbuf.h"
#include "check.h"
#include "codec/json.h"

struct names_case {
    const char *name;
    const char *names;
    unsigned width, rows;
    const char *out;
};

static const struct names_case names[] = {
    {"names go down, then right", "[\"a\", \"bb\", \"c\", \"dd\"]", 8, 9, "a   c\nbb  dd\n"},
    {"what does not fit has a row of its own", "[\"abcdefgh\", \"ijklmnop\"]", 10, 9,
     "abcdefgh\nijklmnop\n"},
    {"too long a name is cut", "[\"abcdefghijkl\"]", 8, 9, "abcdef…\n"},
    {"more than the rows are counted", "[\"aaaa\", \"bbbb\", \"cccc\"]", 8, 2,
     "aaaa\nbbbb\nand 1 more\n"},
    {"none is nothing", "[]", 20, 9, ""},
    {"control characters are spelled out", "[\"a\\u001b\"]", 20, 9, "a\\x1b\n"},
};

static json_t *parse(const char *text)
{
    struct error err;
    json_t *value = NULL;
    const struct json_limits limits = {.max_bytes = 4096};
    assert_int_equal(json_parse(&value, text, strlen(text), &limits, &err), 0);
    return value;
}

static void test_names(void **state)
{
    const struct names_case *row = *state;
    scoped_strbuf struct strbuf out;
    scoped_json json_t *list = parse(row->names);
    strbuf_init(&out, 10000);
    repl_list_names(&out, list, row->width, row->rows);
    assert_string_equal(strbuf_str(&out), row->out);
}

#define ANSWER                                                                                     \
    "{\"variables\": [{\"name\": \"x\", \"type\": \"int\", \"size\": 28, \"shape\": null, "        \
    "\"preview\": \"1\"}, {\"name\": \"matrix\", \"type\": \"ndarray\", \"size\": 96, "            \
    "\"shape\": [3, 4], \"preview\": \"array([[0.,\\n 0.]])\"}], \"truncated\": true}"

static const struct names_case variables[] = {
    {"a table", ANSWER, 60, 0,
     "x       int          1\nmatrix  ndarray 3x4  array([[0.,\\n 0.]])\nand more\n"},
    {"previews are cut", ANSWER, 30, 0,
     "x       int          1\nmatrix  ndarray 3x4  array([…\nand more\n"},
    {"without room there are none", ANSWER, 12, 0, "x       int\nmatrix  ndarray 3x4\nand more\n"},
    {"no variables", "{\"variables\": []}", 60, 0, "no variables yet\n"},
    {"rows of another kind", "{\"variables\": [1, {\"name\": 2}]}", 60, 0, "   ?  \n   ?  \n"},
};

static void test_variables(void **state)
{
    const struct names_case *row = *state;
    scoped_strbuf struct strbuf out;
    scoped_json json_t *answer = parse(row->names);
    strbuf_init(&out, 10000);
    repl_list_variables(&out, answer, row->width);
    assert_string_equal(strbuf_str(&out), row->out);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, names, test_names);
    check_rows(&check, variables, test_variables);
    return check_run(&check, "repl_list");
}
