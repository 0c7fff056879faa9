/* test_sse.c - the text of events, and ids that come back */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/sse.h"

#include <string.h>

#include "base/strbuf.h"
#include "check.h"

struct row {
    const char *name;
    const char *id, *event, *data;
    const char *want;
};

static const struct row rows[] = {
    {"data alone", NULL, NULL, "a", "data: a\n\n"},
    {"all of it", "7", "tick", "a", "id: 7\nevent: tick\ndata: a\n\n"},
    {"nothing", NULL, NULL, "", "data: \n\n"},
    {"two lines", NULL, NULL, "a\nb", "data: a\ndata: b\n\n"},
    {"a line end at the end", NULL, NULL, "a\n", "data: a\ndata: \n\n"},
    {"an empty line between", NULL, NULL, "a\n\nb", "data: a\ndata: \ndata: b\n\n"},
    {"CR is a line end, too", NULL, NULL, "a\rb", "data: a\ndata: b\n\n"},
    {"CR LF is one", NULL, NULL, "a\r\nb", "data: a\ndata: b\n\n"},
    {"LF CR is two", NULL, NULL, "a\n\rb", "data: a\ndata: \ndata: b\n\n"},
    {"CR at the end", NULL, NULL, "a\r", "data: a\ndata: \n\n"},
    {"what looks like a field", NULL, NULL, "x\nid: 9\n\nevent: y",
     "data: x\ndata: id: 9\ndata: \ndata: event: y\n\n"},
    {"a blank at the start stays", NULL, NULL, " a", "data:  a\n\n"},
};

static void test_row(void **state)
{
    const struct row *row = *state;
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 1024);
    sse_add(&got, &(struct sse_event){row->id, row->event, row->data, strlen(row->data)});
    assert_string_equal(strbuf_str(&got), row->want);
}

struct id {
    const char *name, *text;
    bool is_good;
    uint64_t want;
};

static const struct id ids[] = {
    {"a number", "42", true, 42},
    {"the largest one", "18446744073709551615", true, UINT64_MAX},
    {"no header", NULL, false, 0},
    {"no number", "", false, 0},
    {"a number too large", "18446744073709551616", false, 0},
    {"a sign", "-1", false, 0},
    {"a blank", " 1", false, 0},
    {"letters", "1a", false, 0},
};

static void test_id(void **state)
{
    const struct id *row = *state;
    uint64_t got = 0;
    assert_int_equal(sse_parse_id(row->text, &got), row->is_good);
    assert_true(got == row->want);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_rows(&check, ids, test_id);
    return check_run(&check, "sse");
}
