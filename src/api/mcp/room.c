/* room.c - one plane_create() for each new name */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mcp/room.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* The wish is the call's, which is not answered before. */
struct waiter {
    struct waiter *next;
    struct mcp_call *call;
    struct room_wish wish;
    room_fn fn;
    void *ctx;
};

struct opening {
    struct map_node by_name;
    struct map *rooms;
    char *key; /* owner and name */
    struct waiter *waiters;
};

static void wait_for(struct opening *o, struct waiter waiter)
{
    struct waiter *w = xcalloc(1, sizeof(*w)), **end = &o->waiters;
    while (*end)
        end = &(*end)->next;
    *w = waiter;
    *end = w;
}

static int check_packages(struct mcp_call *call, const struct room_wish *wish, struct error *err)
{
    return wish->requirements ? plane_check_packages(toolbox_api(call)->plane, toolbox_caller(call),
                                                     wish->session, wish->requirements, err)
                              : 0;
}

/* Its packages are those of whoever came first. */
static void let_in(const struct waiter *w)
{
    struct error err;
    w->fn(w->ctx, check_packages(w->call, &w->wish, &err) < 0 ? &err : NULL);
}

static void on_created(void *ctx, const char *text, size_t len, const struct error *err)
{
    struct opening *o = ctx;
    bool is_there = err && err->word && strcmp(err->word, "session_exists") == 0;
    (void)text, (void)len;
    map_remove(o->rooms, &o->by_name);
    for (struct waiter *w = o->waiters, *next; w; w = next) {
        next = w->next;
        if (err && !is_there)
            w->fn(w->ctx, err);
        else
            let_in(w);
        free(w);
    }
    free(o->key);
    free(o);
}

static void open_room(struct mcp_call *call, const struct room_wish *wish, struct opening *o)
{
    struct session_wish order = {.name = (char *)wish->session, .language = (char *)wish->language};
    if (wish->requirements)
        order.requirements = *wish->requirements;
    plane_create(toolbox_api(call)->plane, toolbox_caller(call), NULL, &order, on_created, o);
}

void room_enter(struct mcp_call *call, const struct room_wish *wish, room_fn fn, void *ctx)
{
    struct error err;
    struct map *rooms = toolbox_rooms(call);
    const struct plane_caller *who = toolbox_caller(call);
    const struct waiter waiter = {.call = call, .wish = *wish, .fn = fn, .ctx = ctx};
    if (plane_session_id(toolbox_api(call)->plane, who, wish->session)) {
        let_in(&waiter);
        return;
    }
    if (id_is_valid(ID_SESSION, wish->session)) {
        error_set(&err, ERROR_NOT_FOUND, "session '%s' has ended, or never was", wish->session);
        error_hint(&err, "choose a name of your own as session_id: a new session begins");
        fn(ctx, &err);
        return;
    }
    scoped_free char *key = xasprintf("%s\n%s", who->owner, wish->session);
    struct map_node *node = map_find(rooms, key);
    if (node) {
        wait_for(MAP_OF(node, struct opening, by_name), waiter);
        return;
    }
    struct opening *o = xcalloc(1, sizeof(*o));
    o->rooms = rooms;
    o->key = take_ptr(&key);
    map_add(rooms, &o->by_name, o->key);
    wait_for(o, waiter);
    open_room(call, wish, o);
}
