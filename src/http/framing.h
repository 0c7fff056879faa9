/* framing.h - bytes of a connection in, the parts of one request after the other out
 *
 * llhttp does the parsing. Around it stands what it leaves open or takes too lightly: a first look
 * at the raw bytes of the head, limits, and the rules that decide where a message ends. Two readers
 * of one request who differ about its end are how requests are smuggled, so whatever could be read
 * in two ways is refused, and after a refusal nothing more is read.
 *
 * Pure: no I/O, no clock. Pull, not push: each call answers one step, so the caller may stop at
 * any of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/method.h"
#include "http/refusal.h"

#define FRAMING_HEADER_MAX             100
#define FRAMING_HEAD_MAX_BYTES         (16 * 1024) /* request line and headers */
#define FRAMING_TARGET_MAX_BYTES       (8 * 1024)
#define FRAMING_NO_LENGTH              UINT64_MAX
#define FRAMING_LENGTH_MAX_DIGITS      15
#define FRAMING_CHUNK_SLACK_BYTES      4096 /* of extensions and leading zeros in one message... */
#define FRAMING_CHUNK_SLACK_EACH_BYTES 32   /* ...and beside them, for each chunk */

struct framing_header {
    const char *name; /* lower case */
    const char *value;
};

/* A request without its body. All text is NUL-terminated, owned by the framing, and lives until
 * framing_again() or framing_release(). */
struct framing_head {
    enum method method; /* METHOD_COUNT: another one, which only a proxy takes */
    const char *verb;   /* the method, as sent */
    char *target;       /* as sent; may be overwritten, in its length */
    struct framing_header headers[FRAMING_HEADER_MAX];
    size_t header_count;
    uint64_t content_length; /* FRAMING_NO_LENGTH: chunked, or no body */
    bool is_chunked;
    bool is_http_1_0;
    bool is_kept_alive;    /* another request may follow on this connection */
    bool expects_continue; /* the client waits for 100 before it sends the body */
    bool is_upgrade;       /* Connection: upgrade and an Upgrade header */
    const char *host;      /* of the one Host header; a proxy does without: NULL */
};

enum framing_step {
    FRAMING_MORE, /* all bytes were used: come again with the next */
    FRAMING_HEAD, /* framing->head is complete */
    FRAMING_BODY, /* *body and *body_len are a piece of the body, borrowed from the bytes given */
    FRAMING_END,  /* the message is complete; framing_again() before the next call */
    FRAMING_BAD,  /* framing->refusal says why; the only call that may follow is _release() */
};

struct framing {
    struct framing_head head;
    bool is_proxy; /* see framing_init_proxy() */
    enum refusal refusal;
    /* private */
    llhttp_t parser;
    char *bytes; /* of the head; grows with need up to FRAMING_HEAD_MAX_BYTES */
    size_t len, cap;
    size_t line;         /* where in bytes[] the line begins that is not complete */
    size_t line_count;   /* complete ones, the request line included */
    bool has_blank_line; /* before the request line: one is forgiven */
    uint64_t body_bytes; /* seen in a chunked message */
    uint64_t body_fed;   /* given to the parser after the head */
    uint64_t chunks;
    char tail[2];     /* the last bytes given to the parser */
    const char *body; /* piece that llhttp has told and nobody has taken */
    size_t body_len;
    bool has_head, has_end, is_told; /* is_told: FRAMING_HEAD was answered */
};

void framing_init(struct framing *framing);
/* For requests that are passed on: any method that llhttp knows, any form of target, any encoding
 * of the body. Where a message ends is judged as strictly as ever. */
void framing_init_proxy(struct framing *framing);
void framing_release(struct framing *framing);
void framing_again(struct framing *framing); /* for the next request; keeps memory */

/* Takes up to `len` bytes and answers the next step; *used says how many were taken, also when the
 * step is not FRAMING_MORE. With len 0 it answers what is already known, FRAMING_END included. */
enum framing_step framing_next(struct framing *framing, const char *data, size_t len, size_t *used,
                               const char **body, size_t *body_len);

/* Whether part of a request has been seen, so that silence is not mere idleness. */
bool framing_is_begun(const struct framing *framing);

/* The value of a header by its lower-case name: the first one, or NULL. */
const char *framing_find(const struct framing_head *head, const char *name);

/* Whether a comma-separated list has this token, in any case. */
bool framing_list_has(const char *list, const char *token);
