/* mcp_door.c - put together, and taken apart */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mcp/mcp_door.h"

#include <stdlib.h>

#include "api/auth.h"
#include "api/mcp/toolbox.h"
#include "base/memory.h"
#include "mcp/mcp_http.h"

struct mcp_door {
    struct toolbox *toolbox;
    struct mcp_server *server;
    struct mcp_http *http;
};

static void *watch(void *ctx, const struct mcp_user *user, void (*fn)(void *ctx), void *fn_ctx)
{
    const struct api *api = ctx;
    return auth_watch_new(api->auth, user->owner, fn, fn_ctx);
}

static void unwatch(void *one)
{
    auth_watch_free(one);
}

static bool admit(void *ctx, const struct mcp_user *user, struct error *err)
{
    const struct api *api = ctx;
    return auth_admit(api->auth, user->owner, err);
}

struct mcp_door *mcp_door_open(struct api *api, unsigned flags)
{
    struct mcp_door *d = xcalloc(1, sizeof(*d));
    d->toolbox = toolbox_new(api, flags);
    d->server = mcp_server_new(toolbox_service(d->toolbox));
    const struct mcp_http_order order = {.server = d->server,
                                         .loop = api->loop,
                                         .watch = watch,
                                         .unwatch = unwatch,
                                         .admit = admit,
                                         .ctx = api};
    d->http = mcp_http_new(&order);
    api->mcp = d->http;
    return d;
}

void mcp_door_stop(struct mcp_door *d)
{
    mcp_http_stop(d->http);
}

void mcp_door_free(struct mcp_door *d)
{
    if (!d)
        return;
    mcp_http_free(d->http);
    mcp_server_free(d->server);
    toolbox_free(d->toolbox);
    free(d);
}
