/* event_stream.c - lines, then fields, then events */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/event_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"

#define WORD_MAX_BYTES 1024 /* of a name or an id */

struct event_stream {
    event_stream_fn fn;
    void *ctx;
    struct strbuf line, data, name, id;
    bool has_data;
    bool after_cr; /* a line feed that follows belongs to it */
    bool has_begun;
    bool is_over;
};

struct event_stream *event_stream_new(size_t max_bytes, event_stream_fn fn, void *ctx)
{
    struct event_stream *s = xcalloc(1, sizeof(*s));
    s->fn = fn;
    s->ctx = ctx;
    strbuf_init(&s->line, max_bytes);
    strbuf_init(&s->data, max_bytes);
    strbuf_init(&s->name, WORD_MAX_BYTES);
    strbuf_init(&s->id, WORD_MAX_BYTES);
    return s;
}

void event_stream_free(struct event_stream *s)
{
    if (!s)
        return;
    strbuf_release(&s->line);
    strbuf_release(&s->data);
    strbuf_release(&s->name);
    strbuf_release(&s->id);
    free(s);
}

bool event_stream_is_over(const struct event_stream *s)
{
    return s->is_over;
}

static void tell(struct event_stream *s)
{
    const struct stream_event event = {
        .name = s->name.len > 0 ? strbuf_str(&s->name) : "message",
        .id = strbuf_str(&s->id),
        .data = strbuf_str(&s->data),
        .len = s->data.len,
    };
    if (s->has_data && !s->fn(s->ctx, &event))
        s->is_over = true;
    s->has_data = false;
    strbuf_clear(&s->data);
    strbuf_clear(&s->name);
}

static void add_data(struct event_stream *s, const char *value, size_t len)
{
    if (s->has_data)
        strbuf_add_char(&s->data, '\n');
    s->has_data = true;
    strbuf_add(&s->data, value, len);
}

static void set_name(struct event_stream *s, const char *value, size_t len)
{
    strbuf_clear(&s->name);
    strbuf_add(&s->name, value, len);
}

static void set_id(struct event_stream *s, const char *value, size_t len)
{
    if (memchr(value, '\0', len)) /* as the standard says: such an id is not kept */
        return;
    strbuf_clear(&s->id);
    strbuf_add(&s->id, value, len);
}

static const struct {
    const char *name;
    void (*set)(struct event_stream *s, const char *value, size_t len);
} fields[] = {{"data", add_data}, {"event", set_name}, {"id", set_id}};

static void end_line(struct event_stream *s)
{
    const char *line = strbuf_str(&s->line);
    size_t len = s->line.len, name_len;
    const char *colon = len > 0 ? memchr(line, ':', len) : NULL;
    if (len == 0) {
        tell(s);
        return;
    }
    name_len = colon ? (size_t)(colon - line) : len;
    size_t skip = name_len + (colon ? 1 : 0);
    if (skip < len && line[skip] == ' ')
        skip++;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (strlen(fields[i].name) == name_len && memcmp(line, fields[i].name, name_len) == 0)
            fields[i].set(s, line + skip, len - skip);
    }
    strbuf_clear(&s->line);
}

/* A byte order mark at the very beginning is no part of the first line. */
static void end_first_line(struct event_stream *s)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t len = strlen(mark);
    if (!s->has_begun && s->line.len >= len && memcmp(s->line.data, mark, len) == 0) {
        memmove(s->line.data, s->line.data + len, s->line.len - len);
        s->line.len -= len;
        s->line.data[s->line.len] = '\0';
    }
    s->has_begun = true;
    end_line(s);
}

static bool is_too_large(const struct event_stream *s)
{
    return s->line.overflow || s->data.overflow || s->name.overflow || s->id.overflow;
}

int event_stream_add(struct event_stream *s, const char *bytes, size_t len, struct error *err)
{
    size_t i = 0;
    while (i < len && !s->is_over && !is_too_large(s)) {
        if (s->after_cr && bytes[i] == '\n')
            i++;
        s->after_cr = false;
        size_t begin = i;
        while (i < len && bytes[i] != '\n' && bytes[i] != '\r')
            i++;
        strbuf_add(&s->line, bytes + begin, i - begin);
        if (i == len || is_too_large(s))
            break;
        s->after_cr = bytes[i++] == '\r';
        end_first_line(s);
    }
    if (is_too_large(s))
        return error_set(err, ERROR_TOO_LARGE, "an event of the stream is too large");
    return 0;
}
