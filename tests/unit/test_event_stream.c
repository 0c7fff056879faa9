/* test_event_stream.c - events out of bytes, however they are cut */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/event_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "check.h"

#define MAX_BYTES 64

struct row {
    const char *name;
    const char *text;
    const char *want; /* name#id=data; of each event */
};

static const struct row rows[] = {
    {"one event", "event: tick\nid: 7\ndata: a\n\n", "tick#7=a;"},
    {"no name is message", "data: a\n\n", "message#=a;"},
    {"an id stays for those after it", "id: 7\ndata: a\n\ndata: b\n\n", "message#7=a;message#7=b;"},
    {"a name does not", "event: x\ndata: a\n\ndata: b\n\n", "x#=a;message#=b;"},
    {"lines of data are joined", "data: a\ndata: b\n\n", "message#=a\nb;"},
    {"an empty line of data", "data: a\ndata:\n\n", "message#=a\n;"},
    {"data that is empty", "data\n\n", "message#=;"},
    {"no data is no event", "event: x\n\ndata: a\n\n", "message#=a;"},
    {"comments and unknown fields", ": hi\nretry: 5\nwhat: x\ndata: a\n\n", "message#=a;"},
    {"only one blank is taken away", "data:  a\ndata:b\n\n", "message#= a\nb;"},
    {"CR LF", "data: a\r\n\r\ndata: b\r\n\r\n", "message#=a;message#=b;"},
    {"CR", "data: a\r\rdata: b\r\r", "message#=a;message#=b;"},
    {"a mark at the beginning",
     "\xef\xbb\xbf"
     "data: a\n\n",
     "message#=a;"},
    {"a mark elsewhere is a field that nobody knows",
     "data: a\n\xef\xbb\xbf"
     "data: b\n\n",
     "message#=a;"},
    {"one that is not over is not told", "data: a\n\ndata: b\n", "message#=a;"},
    {"nothing after it was enough", "event: last\ndata: a\n\ndata: b\n\n", "last#=a;"},
};

static bool on_event(void *ctx, const struct stream_event *event)
{
    struct strbuf *got = ctx;
    strbuf_add_fmt(got, "%s#%s=", event->name, event->id);
    strbuf_add(got, event->data, event->len);
    strbuf_add_char(got, ';');
    return strcmp(event->name, "last") != 0;
}

static void check_cut(const struct row *row, size_t piece)
{
    struct error err;
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 4096);
    scoped(event_stream) struct event_stream *s = event_stream_new(MAX_BYTES, on_event, &got);
    size_t len = strlen(row->text);
    for (size_t i = 0; i < len; i += piece)
        assert_int_equal(event_stream_add(s, row->text + i, MIN(piece, len - i), &err), 0);
    assert_string_equal(strbuf_str(&got), row->want);
    assert_int_equal(event_stream_is_over(s), strstr(row->want, "last#") != NULL);
}

static void test_row(void **state)
{
    for (size_t piece = 1; piece <= strlen(((const struct row *)*state)->text); piece++)
        check_cut(*state, piece);
}

static const struct row large[] = {
    {"a line that is too long",
     "data: 0123456789012345678901234567890123456789012345678901234567890123456789", ""},
    {"data that is too long",
     "data: 01234567890123456789012345678901234567890\n"
     "data: 01234567890123456789012345678901234567890\n\n",
     ""},
};

static void test_large(void **state)
{
    const struct row *row = *state;
    struct error err;
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 4096);
    scoped(event_stream) struct event_stream *s = event_stream_new(MAX_BYTES, on_event, &got);
    assert_int_equal(event_stream_add(s, row->text, strlen(row->text), &err), -1);
    assert_int_equal(err.code, ERROR_TOO_LARGE);
    assert_int_equal(event_stream_add(s, "\n\ndata: a\n\n", 11, &err), -1);
    assert_string_equal(strbuf_str(&got), "");
}

static void test_nul_in_id(void **state)
{
    (void)state;
    static const char text[] = "id: 1\nid: 2\0003\ndata: a\n\n";
    struct error err;
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 4096);
    scoped(event_stream) struct event_stream *s = event_stream_new(MAX_BYTES, on_event, &got);
    assert_int_equal(event_stream_add(s, text, sizeof(text) - 1, &err), 0);
    assert_string_equal(strbuf_str(&got), "message#1=a;");
}

int main(void)
{
    struct check check = {0};
    check_rows(&check, rows, test_row);
    check_rows(&check, large, test_large);
    check_one(&check, "an id with a NUL is not taken", test_nul_in_id);
    return check_run(&check, "event_stream");
}
