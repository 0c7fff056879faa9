/* event_stream.h - reads text/event-stream as it comes: bytes in, events out
 *
 * As browsers read it (HTML, section 9.2): lines end in any of the three ways, a comment or an
 * unknown field is passed over, an event without data is none. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/scoped.h"

/* Borrowed for the call. */
struct stream_event {
    const char *name; /* "message" when it had none */
    const char *id;   /* the last one that was told, maybe with an earlier event; "": none */
    const char *data; /* a NUL follows */
    size_t len;
};

/* False: no more is wanted; the rest is passed over. */
typedef bool (*event_stream_fn)(void *ctx, const struct stream_event *event);

struct event_stream;

/* One line, and the data of one event, may have `max_bytes`. */
struct event_stream *event_stream_new(size_t max_bytes, event_stream_fn fn, void *ctx);
void event_stream_free(struct event_stream *stream);
SCOPED_DEFINE(event_stream)

/* The next bytes, cut anywhere. ERROR_TOO_LARGE for good when there is too much of something. */
MUST_CHECK int event_stream_add(struct event_stream *stream, const char *bytes, size_t len,
                                struct error *err);
bool event_stream_is_over(const struct event_stream *stream); /* its reader has answered false */
