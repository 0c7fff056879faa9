/* link.h - the server: a request there, a document or a stream of events back (libcurl)
 *
 * One request at a time. Nothing that a server sends is trusted: answers have a largest size, are
 * read strictly, and what is no answer of Cove's is told as that. Redirects are not followed: they
 * would take the token to who knows whom. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "codec/event_stream.h"
#include "core/config.h"

struct link;

/* Reads where the server is, and which token to show it; nothing is sent yet. */
MUST_CHECK int link_open(struct link **out, const struct config *config, struct error *err);
void link_free(struct link *link);
SCOPED_DEFINE(link)

/* Bytes that go up: answers how many were put into `out`, 0 at the end, or -1 with *err. */
typedef ssize_t (*link_give_fn)(void *ctx, char *out, size_t size, struct error *err);
/* Bytes that came down: answers 0, or -1 with *err. */
typedef int (*link_take_fn)(void *ctx, const void *data, size_t len, struct error *err);

struct link_request {
    const char *method;
    const char *path;        /* below /api/v1, with its query, encoded */
    const json_t *body;      /* NULL: none */
    const char *after_event; /* Last-Event-ID; NULL: none */

    /* For files; NULL: none. They must go on, and may take as long as they need. */
    link_give_fn give;
    int64_t give_size; /* -1: not known */
    link_take_fn take; /* gets what the server answers with, when it is no error */
    void *ctx;
};

/* The document that the server answers with, as a new value; null where it has none. An error of
 * the server is its code, message and hint; see link_problem(). */
MUST_CHECK int link_ask(struct link *link, const struct link_request *request, json_t **out,
                        struct error *err);

/* How a stream came to its end. */
enum link_end {
    LINK_OVER,   /* its reader has answered false */
    LINK_WOKEN,  /* wake_fd became readable */
    LINK_QUIET,  /* it began, and then nothing came for too long */
    LINK_BROKEN, /* in the middle, or there was no answer at all: *err says why */
    LINK_FAILED, /* the server has refused: *err says why */
};

enum link_end link_stream(struct link *link, const struct link_request *request, event_stream_fn fn,
                          void *ctx, int wake_fd, struct error *err);

/* --- a connection that goes on in another protocol ---------------------------------------------
 */

#define LINK_AGAIN  (-1) /* not now */
#define LINK_NO_END (-2) /* broken */

/* Asks for `path` (not below /api/v1) with an upgrade to `protocol`; from then on the connection
 * carries bytes, and the link nothing else. An error of the server is as in link_ask(). */
MUST_CHECK int link_upgrade(struct link *link, const char *path, const char *protocol,
                            struct error *err);
int link_fd(const struct link *link); /* to be watched; what TLS has read already does not show */
ssize_t link_read(void *link, void *data, size_t len); /* neither waits; 0: it has ended */
ssize_t link_write(void *link, const void *data, size_t len);
bool link_finish(void *link); /* nothing more will be written; false: TLS has no word for it */

/* The document of the last error, {"error": {...}}, and the id of the last request ("": unknown).
 * Borrowed until the next request; NULL: the server has sent none. */
const json_t *link_problem(const struct link *link);
const char *link_request_id(const struct link *link);
const char *link_address(const struct link *link); /* of the server, for people */

/* Adds a word to a path or a query, with everything else than letters, digits and "-._~" encoded.
 */
void link_add_word(struct strbuf *path, const char *word);
/* Adds ?key=value, or &key=value; nothing for NULL. */
void link_add_query(struct strbuf *path, const char *key, const char *value);
