/* sse.c - events as text, and a heartbeat */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/sse.h"

#include <string.h>

#include "base/memory.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "event/loop.h"
#include "http/http.h"

struct sse {
    struct http_request *request;
    struct loop *loop;
    struct loop_timer *timer;
    uint32_t heartbeat_ms;
    void (*on_gone)(void *ctx);
    void *ctx;
    void (*on_beat)(void *ctx);
};

static void add_field(struct strbuf *out, const char *name, const char *value)
{
    BUG_ON(strpbrk(value, "\r\n"));
    strbuf_add_str(out, name);
    strbuf_add_str(out, value);
    strbuf_add_char(out, '\n');
}

/* The length of the line at `at`; *skip is that of its end. */
static size_t line_of(const char *at, const char *end, size_t *skip)
{
    const char *stop = at;
    while (stop < end && *stop != '\n' && *stop != '\r')
        stop++;
    *skip = stop == end ? 0 : stop + 1 < end && stop[0] == '\r' && stop[1] == '\n' ? 2 : 1;
    return (size_t)(stop - at);
}

void sse_add(struct strbuf *out, const struct sse_event *event)
{
    const char *at = event->data, *end = at + event->len;
    size_t skip;
    if (event->id)
        add_field(out, "id: ", event->id);
    if (event->name)
        add_field(out, "event: ", event->name);
    do {
        size_t len = line_of(at, end, &skip);
        strbuf_add_str(out, "data: ");
        strbuf_add(out, at, len);
        strbuf_add_char(out, '\n');
        at += len + skip;
    } while (skip > 0); /* text that ends with a line end has an empty line after it */
    strbuf_add_char(out, '\n');
}

bool sse_parse_id(const char *text, uint64_t *out)
{
    return text && parse_u64(text, out);
}

static void on_timer(void *ctx)
{
    static const char beat[] = ": heartbeat\n\n";
    struct sse *sse = ctx;
    loop_timer_free(sse->timer);
    sse->timer = loop_timer_new(sse->loop, sse->heartbeat_ms, on_timer, sse);
    if (http_stream_waiting(sse->request) > 0)
        return; /* there is life enough, or none at all */
    if (sse->on_beat)
        sse->on_beat(sse->ctx);
    else
        http_stream_write(sse->request, beat, sizeof(beat) - 1);
}

static void free_sse(struct sse *sse)
{
    loop_timer_free(sse->timer);
    free(sse);
}

static void on_gone(void *ctx)
{
    struct sse *sse = ctx;
    if (sse->on_gone)
        sse->on_gone(sse->ctx);
    free_sse(sse);
}

struct sse *sse_open(struct http_request *r, struct loop *loop, uint32_t heartbeat_ms,
                     void (*gone)(void *ctx), void *ctx)
{
    struct sse *sse = xcalloc(1, sizeof(*sse));
    *sse = (struct sse){r, loop, NULL, heartbeat_ms, gone, ctx, NULL};
    http_on_gone(r, on_gone, sse);
    http_add_header(r, "Cache-Control", "no-store");
    http_add_header(r, "X-Accel-Buffering", "no"); /* nginx would hold events back */
    http_stream_begin(r, 200, "text/event-stream", HTTP_LENGTH_UNKNOWN);
    if (heartbeat_ms)
        sse->timer = loop_timer_new(loop, heartbeat_ms, on_timer, sse);
    return sse;
}

void sse_on_beat(struct sse *sse, void (*fn)(void *ctx))
{
    sse->on_beat = fn;
}

bool sse_send(struct sse *sse, const struct sse_event *event)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 8 * event->len + 4096); /* each line end becomes seven bytes at most */
    sse_add(&text, event);
    return http_stream_write(sse->request, text.data, text.len);
}

void sse_close(struct sse *sse)
{
    http_stream_end(sse->request);
    free_sse(sse);
}
