/* upload_body.c - request and errand, each of which makes the other wait */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/upload_body.h"

#include <stdlib.h>
#include <string.h>

#include "api/file_json.h"
#include "base/memory.h"
#include "core/errand.h"

struct upload_body {
    struct api_call *call;
    struct errand *errand; /* NULL: it is over */
    json_t *file;          /* as it is now; NULL: not known yet */
    char *session, *path;
};

static void free_upload(struct upload_body *u)
{
    if (u->errand)
        errand_close(u->errand);
    json_decref(u->file);
    free(u->session);
    free(u->path);
    free(u);
}

/* What has not come whole has never been. */
static void on_gone(void *ctx)
{
    struct upload_body *u = ctx;
    api_take(u->call);
    free_upload(u);
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct upload_body *u = ctx;
    if (len == 0)
        errand_commit(u->errand);
    else if (!errand_write(u->errand, data, len))
        http_body_pause(api_request(u->call));
}

static void on_drained(void *ctx)
{
    struct upload_body *u = ctx;
    http_body_resume(api_request(u->call));
}

static void on_entry(void *ctx, const struct errand_entry *entry)
{
    struct upload_body *u = ctx;
    json_decref(u->file);
    u->file = file_json(u->session, u->path, entry);
}

static void on_ended(void *ctx, const struct errand_end *end)
{
    struct upload_body *u = ctx;
    u->errand = NULL;
    api_on_gone(u->call, NULL, NULL);
    if (end->error.msg[0])
        api_fail(u->call, &end->error);
    else if (u->file)
        api_answer(u->call, end->is_created ? 201 : 200, take_ptr(&u->file));
    else
        api_answer_empty(u->call, 204);
    free_upload(u);
}

static const struct errand_events events = {
    .entry = on_entry, .drained = on_drained, .ended = on_ended};

void upload_body_begin(struct api_call *call, const char *session, const struct errand_order *order)
{
    struct error err;
    struct errand_order full = *order;
    struct upload_body *u = xcalloc(1, sizeof(*u));
    *u = (struct upload_body){
        .call = call, .session = xstrdup(session), .path = xstrdup(order->path)};
    full.events = &events;
    full.ctx = u;
    if (plane_open_errand(&u->errand, api_of(call)->plane, api_caller(call), session, &full, &err) <
        0) {
        free_upload(u);
        api_fail(call, &err);
        return;
    }
    api_on_gone(call, on_gone, u);
    http_body_start(api_request(call), on_body, u);
}
