/* test_repl_complete.c - what a kernel's answer does to the text that was asked about */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/repl_complete.h"

#include <string.h>

#include "check.h"
#include "codec/json.h"

struct complete_case {
    const char *name;
    const char *text; /* with the cursor at its end */
    const char *answer;
    const char *after;
    size_t listed; /* matches that are to be listed */
};

static const struct complete_case cases[] = {
    {"one match is put in", "os.pat", "{'matches': ['path'], 'start': 3, 'end': 6}", "os.path", 0},
    {"what all have in common is put in", "x.s",
     "{'matches': ['some_a', 'some_b'], 'start': 2, 'end': 3}", "x.some_", 0},
    {"then they are listed", "x.some_", "{'matches': ['some_a', 'some_b'], 'start': 2, 'end': 7}",
     "x.some_", 2},
    {"one that is there already changes nothing", "abs",
     "{'matches': ['abs'], 'start': 0, 'end': 3}", "abs", 0},
    {"positions count characters", "'漢é'.up", "{'matches': ['upper'], 'start': 5, 'end': 7}",
     "'漢é'.upper", 0},
    {"a character is not halved", "x", "{'matches': ['xé', 'xè'], 'start': 0, 'end': 1}", "x", 2},
    {"no match changes nothing", "zz", "{'matches': [], 'start': 0, 'end': 2}", "zz", 0},
    {"a match that steers the terminal is none", "e",
     "{'matches': ['e\\u001b[2J', 'eb'], 'start': 0, 'end': 1}", "eb", 0},
    {"a newline is no part of a name", "e", "{'matches': ['e\\nimport os'], 'start': 0, 'end': 1}",
     "e", 0},
    {"positions beyond the text are its end", "ab",
     "{'matches': ['abc'], 'start': 0, 'end': 99999999999}", "abc", 0},
    {"positions that cannot be are refused", "ab", "{'matches': ['abc'], 'start': 2, 'end': 1}",
     "ab", 0},
    {"negative ones as well", "ab", "{'matches': ['abc'], 'start': -5, 'end': 1}", "ab", 0},
    {"matches that are no strings are none", "ab",
     "{'matches': [1, null, {}], 'start': 0, 'end': 2}", "ab", 0},
    {"an answer of another kind is none", "ab", "{'matches': 'abc'}", "ab", 0},
};

/* Single quotes stand for double ones. */
static json_t *parse(const char *text)
{
    struct error err;
    json_t *value = NULL;
    char buffer[256];
    const struct json_limits limits = {.max_bytes = sizeof(buffer)};
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        buffer[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    assert_int_equal(json_parse(&value, buffer, len, &limits, &err), 0);
    return value;
}

static void test_take(void **state)
{
    const struct complete_case *row = *state;
    struct line_edit e;
    line_edit_init(&e, 4);
    line_edit_set(&e, row->text, strlen(row->text));
    scoped_json json_t *answer = parse(row->answer);
    scoped_json json_t *listed = repl_complete_take(&e, answer);
    assert_string_equal(strbuf_str(&e.text), row->after);
    assert_int_equal(json_array_size(listed), row->listed);
    line_edit_release(&e);
}

static void test_ask(void **state)
{
    (void)state;
    struct line_edit e;
    scoped_strbuf struct strbuf body;
    strbuf_init(&body, 100);
    line_edit_init(&e, 4);
    line_edit_set(&e, "漢é.x", strlen("漢é.x"));
    e.cursor = strlen("漢é.");
    repl_complete_ask(&body, &e);
    assert_int_equal(body.len, 2 + strlen("漢é.x"));
    assert_memory_equal(body.data, "3\0漢é.x", body.len);
    line_edit_release(&e);
}

static void test_none(void **state)
{
    (void)state;
    struct line_edit e;
    line_edit_init(&e, 4);
    assert_null(repl_complete_take(&e, NULL));
    line_edit_release(&e);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_take);
    check_one(&check, "asks with the cursor in characters", test_ask);
    check_one(&check, "no answer is nothing", test_none);
    return check_run(&check, "repl_complete");
}
