/* resolve.c - thin on libuv; a question that was dropped frees itself when it is answered */
/* SPDX-License-Identifier: Apache-2.0 */
#include "event/resolve.h"

#include "base/memory.h"
#include "event/loop_inside.h"

struct resolve {
    uv_getaddrinfo_t uv;
    resolve_fn fn; /* NULL: dropped */
    void *ctx;
};

static void on_answer(uv_getaddrinfo_t *uv, int status, struct addrinfo *list)
{
    struct resolve *r = (struct resolve *)uv;
    if (r->fn)
        r->fn(r->ctx, status == 0 ? list : NULL, status == 0 ? NULL : uv_strerror(status));
    if (list)
        uv_freeaddrinfo(list);
    free(r);
}

struct resolve *resolve_begin(struct loop *loop, const char *name, resolve_fn fn, void *ctx)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP};
    struct resolve *r = xcalloc(1, sizeof(*r));
    r->fn = fn;
    r->ctx = ctx;
    if (uv_getaddrinfo(&loop->uv, &r->uv, on_answer, name, NULL, &hints) == 0)
        return r;
    free(r);
    return NULL;
}

void resolve_drop(struct resolve *r)
{
    if (!r)
        return;
    r->fn = NULL;
    uv_cancel((uv_req_t *)&r->uv); /* helps only before a thread has taken it */
}
