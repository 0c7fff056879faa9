/* sse.h - server-sent events: a stream of text events that a client can take up again
 *
 * Built on http_stream_*(): the rules of http.h hold. The stream owns the request's on_gone;
 * whoever opens it is told through its own function. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_request;
struct loop;
struct sse;
struct strbuf;

struct sse_event {
    const char *id;   /* what a client names to go on behind it; NULL: none */
    const char *name; /* NULL: "message" */
    const char *data; /* UTF-8; line ends of any kind begin a new line of it */
    size_t len;
};

/* The text of one event. `id` and `name` must have no line end; one is a bug of the caller. */
void sse_add(struct strbuf *out, const struct sse_event *event);

/* The number in a Last-Event-ID header: false unless it is one. NULL is none. */
bool sse_parse_id(const char *text, uint64_t *out);

/* Begins the answer. Every `heartbeat_ms` (0: never) a comment is sent, so that proxies see life.
 * When the peer leaves, `on_gone` is called and the stream is freed. */
struct sse *sse_open(struct http_request *r, struct loop *loop, uint32_t heartbeat_ms,
                     void (*on_gone)(void *ctx), void *ctx);

/* Called with the same ctx in place of each of these comments: to send an event. */
void sse_on_beat(struct sse *sse, void (*on_beat)(void *ctx));

/* False: wait for the call of http_on_drain(). */
bool sse_send(struct sse *sse, const struct sse_event *event);
void sse_close(struct sse *sse); /* ends the answer and frees */
