/* events.c - reads a journal at the peer's pace
 *
 * The id of an event is the number that its execution was given by this process in the upper bits,
 * and the number of the event in the lower ones. After a restart the journal begins anew: who comes
 * with an id of before gets `started` again, and everything after it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/events.h"

#include <inttypes.h>
#include <stdlib.h>

#include "api/auth.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "http/sse.h"

#define HEARTBEAT_MS 15000
#define EVENT_MAX    (64 * MIB)
#define EPOCH_SHIFT  40

struct stream {
    struct sse *sse;
    struct journal_reader *reader;
    struct auth_watch *watch; /* of who listens */
    uint64_t first;           /* of the ids of this process */
    bool is_full;             /* the peer has to take something first */
};

static void free_stream(struct stream *s)
{
    journal_reader_free(s->reader);
    auth_watch_free(s->watch);
    free(s);
}

static void on_gone(void *ctx)
{
    free_stream(ctx);
}

static void on_revoked(void *ctx)
{
    struct stream *s = ctx;
    sse_close(s->sse);
    free_stream(s);
}

/* Output is text in a JSON string: SSE has lines of UTF-8, and a program writes anything. */
static bool send(struct stream *s, const struct journal_event *e)
{
    scoped_strbuf struct strbuf data;
    char id[FORMAT_BYTES];
    strbuf_init(&data, EVENT_MAX);
    format_u64(s->first + e->number, id);
    if (e->kind == JOURNAL_STDOUT || e->kind == JOURNAL_STDERR) {
        scoped_json json_t *object = json_pack("{s:o}", "text", json_text(e->data, e->len));
        json_add(&data, object, JSON_STYLE_COMPACT);
    } else {
        strbuf_add(&data, e->data, e->len);
    }
    return sse_send(s->sse, &(struct sse_event){.id = id,
                                                .name = journal_kind_name(e->kind),
                                                .data = strbuf_str(&data),
                                                .len = data.len});
}

static void tell_missed(struct stream *s, uint64_t missed)
{
    char text[64];
    int len = snprintf(text, sizeof(text), "{\"events\":%" PRIu64 "}", missed);
    sse_send(s->sse, &(struct sse_event){.name = "missed", .data = text, .len = (size_t)len});
}

/* For who counts the time since he heard the last: browsers show no comments. It has no id, for
 * nobody goes on behind it. */
static void on_beat(void *ctx)
{
    struct stream *s = ctx;
    char at[CLOCK_TEXT_BYTES], text[CLOCK_TEXT_BYTES + 16];
    clock_format(clock_wall_ns(), at);
    int len = snprintf(text, sizeof(text), "{\"at\":\"%s\"}", at);
    sse_send(s->sse, &(struct sse_event){.name = "heartbeat", .data = text, .len = (size_t)len});
}

static void pump(struct stream *s)
{
    struct journal_event event;
    uint64_t missed;
    while (!s->is_full && journal_read(s->reader, &event, &missed)) {
        bool is_last = event.kind == JOURNAL_ENDED;
        if (missed > 0)
            tell_missed(s, missed);
        s->is_full = !send(s, &event);
        if (is_last) {
            sse_close(s->sse);
            free_stream(s);
            return;
        }
    }
}

static void on_more(void *ctx)
{
    struct stream *s = ctx;
    if (!s->is_full)
        pump(s);
}

static void on_drain(void *ctx)
{
    struct stream *s = ctx;
    s->is_full = false;
    pump(s);
}

uint64_t events_find_start(const char *last_event_id, uint64_t first)
{
    uint64_t id;
    if (!sse_parse_id(last_event_id, &id) || id < first)
        return 0;
    return id - first < (uint64_t)1 << EPOCH_SHIFT ? id - first : 0;
}

static void begin(struct api_call *call, struct journal *journal, uint64_t first)
{
    const struct api *api = api_of(call);
    const struct http_request *asked = api_request(call);
    uint64_t start = events_find_start(asked ? http_header(asked, "last-event-id") : NULL, first);
    if (journal_has_ended(journal) && start >= journal_last(journal)) {
        api_answer_empty(call, 204); /* he has all of it; browsers come back until they hear this */
        return;
    }
    struct stream *s = xcalloc(1, sizeof(*s));
    s->watch = auth_watch_new(api->auth, api_caller(call)->owner, on_revoked, s);
    struct http_request *r = api_take(call);
    if (!r) {
        free_stream(s);
        return;
    }
    s->first = first;
    s->reader = journal_listen(journal, start, on_more, s);
    s->sse = sse_open(r, api->loop, HEARTBEAT_MS, on_gone, s);
    sse_on_beat(s->sse, on_beat);
    http_on_drain(r, on_drain, s);
    pump(s);
}

/* Its journal is gone: only how it ended is known. */
static void on_document(void *ctx, const char *text, size_t len, const struct error *err)
{
    struct api_call *call = ctx;
    if (err) {
        api_fail(call, err);
        return;
    }
    struct journal *journal = journal_new(0);
    journal_add(journal, JOURNAL_ENDED, text, len);
    begin(call, journal, (uint64_t)UINT16_MAX << EPOCH_SHIFT);
    journal_drop(journal);
}

void events_stream(struct api_call *call, const char *execution)
{
    struct plane *plane = api_of(call)->plane;
    uint64_t first;
    struct journal *journal = plane_listen(plane, api_caller(call), execution, &first);
    if (journal)
        begin(call, journal, first);
    else
        plane_get_execution(plane, api_caller(call), execution, on_document, call);
}
