/* attempt.c - Idempotency-Key: however often a request comes, it has one effect and one answer
 *
 * The attempt is written down before anything is made, with the id that what is made will have. So
 * a process that finds the attempt of one that died can tell whether it came to anything. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/api_inside.h"
#include "base/clock.h"
#include "base/memory.h"

#define KEY_MAX_BYTES 255
#define KEPT_NS       (24 * 3600 * 1000000000ll)
#define AGAIN_MS      1000 /* after which a write that failed is tried again... */
#define UNWRITTEN_MAX 1000 /* ...of so many attempts; the next process ends the rest */

static struct store_attempt record(const struct api_call *call)
{
    int64_t now = clock_wall_ns();
    return (struct store_attempt){
        .owner = call->caller.owner,
        .route = call->row->id,
        .key = call->attempt.key,
        .hash = {call->attempt.hash, sizeof(call->attempt.hash)},
        .resource = call->attempt.resource,
        .node = call->api->node,
        .epoch = call->api->epoch,
        .created_ns = now,
        .expires_ns = now + KEPT_NS,
    };
}

/* The first has answered more than is kept: what it made is told as it is now. */
static void repeat_unkept(struct api_call *call, const struct store_attempt *first)
{
    struct error err;
    call->attempt.is_done = true;
    if (call->row->again) {
        snprintf(call->attempt.resource, sizeof(call->attempt.resource), "%s", first->resource);
        call->row->again(call);
        return;
    }
    error_set(&err, ERROR_CONFLICT,
              "the request with this Idempotency-Key was answered; the answer is too large to be "
              "kept");
    api_fail(call, &err);
}

/* What the first has answered, or that it has not yet. */
static void repeat(struct api_call *call, const struct store_attempt *first)
{
    struct error err;
    if (first->state == STORE_ATTEMPT_DONE) {
        if (call->request)
            http_add_header(call->request, "Idempotent-Replayed", "true");
        if (!first->response) {
            repeat_unkept(call, first);
            return;
        }
        free(take_ptr(&call->attempt.key));
        api_answer_text(call, (int)first->status, first->response, strlen(first->response));
        return;
    }
    free(take_ptr(&call->attempt.key));
    error_set(&err, ERROR_CONFLICT, "the request with this Idempotency-Key is still under way");
    error_word(&err, "idempotency_in_progress");
    error_hint(&err, "try again in a moment");
    err.retry_ms = 1000;
    api_fail(call, &err);
}

static void on_begun(void *ctx, const struct store_answer *answer)
{
    struct api_call *call = ctx;
    if (answer->err) {
        struct error err = *answer->err;
        if (error_passes(&err)) /* nobody knows whether it was written */
            attempt_drop(call);
        free(take_ptr(&call->attempt.key));
        if (err.code == ERROR_CONFLICT)
            error_word(&err, "idempotency_mismatch");
        api_fail(call, &err);
        return;
    }
    const struct store_attempt *first = &answer->attempts[0];
    if (!first->is_mine) {
        repeat(call, first);
        return;
    }
    bool is_again = strcmp(first->resource, call->attempt.resource) != 0;
    snprintf(call->attempt.resource, sizeof(call->attempt.resource), "%s", first->resource);
    if (is_again && call->row->again)
        call->row->again(call);
    else
        call->row->handler(call);
}

static void hash_request(struct api_call *call)
{
    scoped(sha256) struct sha256 *hash = sha256_new();
    size_t len;
    const char *body = http_body(call->request, &len), *path = http_path(call->request);
    sha256_add(hash, path, strlen(path) + 1);
    sha256_add(hash, body, len);
    sha256_end(hash, call->attempt.hash);
}

/* Visible characters of ASCII: what no proxy changes, and every store keeps as it is. */
static bool is_key(const char *text)
{
    size_t len = 0;
    while (text[len] > ' ' && text[len] <= '~')
        len++;
    return len > 0 && len <= KEY_MAX_BYTES && text[len] == '\0';
}

void attempt_begin(struct api_call *call, const char *key)
{
    struct error err;
    if (!is_key(key)) {
        error_set(&err, ERROR_INVALID, "Idempotency-Key: expected 1 to %d visible characters",
                  KEY_MAX_BYTES);
        error_word(&err, API_BAD_HEADER);
        api_fail(call, &err);
        return;
    }
    if (id_make(call->row->makes, call->attempt.resource, &err) < 0) {
        api_fail(call, &err);
        return;
    }
    call->attempt.key = xstrdup(key);
    hash_request(call);
    const struct store_attempt attempt = record(call);
    store_begin_attempt(call->api->store, &attempt, on_begun, call);
}

/* --- what became of it ------------------------------------------------------------------------ */

/* Until it is written: one that stays under way would be refused to whoever comes again. */
struct attempt_outcome {
    struct attempt_outcome *next;
    struct api *api;
    void (*write)(struct store *store, const struct store_attempt *attempt, store_fn fn, void *ctx);
    struct store_attempt attempt;
    char *owner, *key, *response;
    char resource[ID_BYTES];
    uint8_t hash[SHA256_BYTES];
    struct loop_timer *timer; /* NULL: it is being written */
};

static void free_outcome(struct attempt_outcome *o)
{
    loop_timer_free(o->timer);
    free(o->owner);
    free(o->key);
    free(o->response);
    free(o);
}

static void forget_outcome(struct attempt_outcome *o)
{
    struct attempt_outcome **at = &o->api->outcomes;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    o->api->outcome_count--;
    free_outcome(o);
}

static void write_outcome(void *ctx);

static void on_written(void *ctx, const struct store_answer *answer)
{
    struct attempt_outcome *o = ctx;
    if (answer->err && error_passes(answer->err) && o->api->outcome_count <= UNWRITTEN_MAX) {
        o->timer = loop_timer_new(o->api->loop, AGAIN_MS, write_outcome, o);
    } else if (answer->err && answer->err->code == ERROR_TOO_LARGE && o->response) {
        o->attempt.response = NULL; /* that it was answered is kept without it */
        free(take_ptr(&o->response));
        write_outcome(o);
    } else {
        forget_outcome(o);
    }
}

static void write_outcome(void *ctx)
{
    struct attempt_outcome *o = ctx;
    loop_timer_free(take_ptr(&o->timer));
    o->write(o->api->store, &o->attempt, on_written, o);
}

static struct attempt_outcome *new_outcome(const struct api_call *call)
{
    struct attempt_outcome *o = xcalloc(1, sizeof(*o));
    *o = (struct attempt_outcome){.next = call->api->outcomes,
                                  .api = call->api,
                                  .attempt = record(call),
                                  .owner = xstrdup(call->caller.owner),
                                  .key = xstrdup(call->attempt.key)};
    memcpy(o->resource, call->attempt.resource, sizeof(o->resource));
    memcpy(o->hash, call->attempt.hash, sizeof(o->hash));
    o->attempt.owner = o->owner;
    o->attempt.key = o->key;
    o->attempt.resource = o->resource;
    o->attempt.hash.data = o->hash;
    call->api->outcomes = o;
    call->api->outcome_count++;
    return o;
}

void attempt_end(struct api_call *call, int status, const char *text, size_t len)
{
    if (call->attempt.is_done)
        return;
    struct attempt_outcome *o = new_outcome(call);
    o->response = xstrndup(text, len);
    o->attempt.state = STORE_ATTEMPT_DONE;
    o->attempt.status = (uint64_t)status;
    o->attempt.response = o->response;
    o->write = store_end_attempt;
    write_outcome(o);
}

void attempt_drop(struct api_call *call)
{
    if (call->attempt.is_done)
        return;
    struct attempt_outcome *o = new_outcome(call);
    o->write = store_drop_attempt;
    write_outcome(o);
}

void attempt_free_all(struct api *api)
{
    for (struct attempt_outcome *o = api->outcomes, *next; o; o = next) {
        next = o->next;
        free_outcome(o);
    }
    api->outcomes = NULL;
    api->outcome_count = 0;
}
