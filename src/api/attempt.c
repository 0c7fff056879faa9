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

/* What the first has answered, or that it has not yet. */
static void repeat(struct api_call *call, const struct store_attempt *first)
{
    free(take_ptr(&call->attempt.key));
    if (first->state == STORE_ATTEMPT_DONE) {
        if (call->request)
            http_add_header(call->request, "Idempotent-Replayed", "true");
        api_answer_text(call, (int)first->status, first->response, strlen(first->response));
        return;
    }
    struct error err;
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

static void ignore(void *ctx, const struct store_answer *answer)
{
    (void)ctx, (void)answer;
}

void attempt_end(struct api_call *call, int status, const char *text, size_t len)
{
    scoped_free char *response = xstrndup(text, len);
    struct store_attempt attempt = record(call);
    attempt.state = STORE_ATTEMPT_DONE;
    attempt.status = (uint64_t)status;
    attempt.response = response;
    store_end_attempt(call->api->store, &attempt, ignore, NULL);
}

void attempt_drop(struct api_call *call)
{
    const struct store_attempt attempt = record(call);
    store_drop_attempt(call->api->store, &attempt, ignore, NULL);
}
