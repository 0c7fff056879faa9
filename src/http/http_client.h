/* http_client.h - requests of ours to servers of others, many at a time on the loop (libcurl)
 *
 * Callbacks come on the loop's thread and never from inside a call. Answers are streamed: nothing
 * is kept but the head. Redirects are not followed, proxies not used, certificates checked; only
 * http and https are spoken. Nothing is tried again here. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/scoped.h"
#include "event/loop.h"

struct curl_library;
struct http_client;
struct http_exchange;

struct http_client_config {
    const char *ca_file;      /* PEM; NULL: what the system trusts */
    uint64_t connect_ms;      /* 0: 5 s */
    uint64_t stall_s;         /* so long nothing may move; 0: 20 s */
    unsigned connections_max; /* to one host; 0: 16 */
};

/* `library` is borrowed for as long as the client lives, the texts for the call. */
MUST_CHECK int http_client_open(struct http_client **out, struct loop *loop,
                                struct curl_library *library,
                                const struct http_client_config *config, struct error *err);
void http_client_free(struct http_client *client); /* cuts off what is under way, without a call */
SCOPED_DEFINE(http_client)

/* Bytes to send, shared by who sends them and who may have to send them again. */
struct http_body;
struct http_body *http_body_new(char *data, size_t len); /* takes malloc'ed memory */
struct http_body *http_body_ref(struct http_body *body);
void http_body_unref(struct http_body *body); /* NULL is fine */
const void *http_body_data(const struct http_body *body, size_t *len);

struct http_client_request {
    const char *method;
    const char *url;
    const char *const *headers; /* "Name: value", NULL-terminated; borrowed for the call */
    struct http_body *body;     /* NULL: none */
    uint64_t timeout_ms;        /* for all of it; 0: as long as something moves */

    void (*on_head)(void *ctx, struct http_exchange *exchange, int status); /* may be NULL */
    void (*on_data)(void *ctx, const void *data, size_t len);               /* may be NULL */
    /* Exactly once. `status` is 0 when no answer came; `err` says why it did not, or not whole. The
     * exchange is gone after it. */
    void (*on_done)(void *ctx, struct http_exchange *exchange, int status, const struct error *err);
    void *ctx;
};

struct http_exchange *http_client_ask(struct http_client *client,
                                      const struct http_client_request *request);

void http_exchange_pause(struct http_exchange *exchange); /* no data and no end until... */
void http_exchange_resume(struct http_exchange *exchange);
void http_exchange_cancel(struct http_exchange *exchange); /* no call comes any more */

/* Of the answer, in its callbacks; name in any case. NULL: none. Borrowed for the call. */
const char *http_exchange_header(struct http_exchange *exchange, const char *name);
