/* keeper.c - the verbs KEEP and LIST */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/keeper.h"

#include <string.h>

#include "base/memory.h"

void keeper_put(struct spawner_client *client, uint64_t sandbox,
                const uint8_t label[SPAWN_LABEL_BYTES], enum keeper_slot slot, const int *fds,
                size_t count)
{
    struct spawn_message m = {
        .verb = SPAWN_KEEP, .sandbox = sandbox, .keep = {.slot = slot, .count = (uint32_t)count}};
    memcpy(m.keep.label, label, sizeof(m.keep.label));
    spawner_client_ask_with(client, &m, fds, count, NULL, NULL);
}

struct listing {
    struct spawner_client *client;
    keeper_list_fn fn;
    void *ctx;
};

static void ask_next(struct listing *l, uint64_t after);

static void on_entry(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    struct listing *l = ctx;
    if (m && m->sandbox) {
        l->fn(l->ctx, m->sandbox, &m->entry, NULL);
        ask_next(l, m->sandbox);
        return;
    }
    l->fn(l->ctx, 0, NULL, m ? NULL : err);
    free(l);
}

static void ask_next(struct listing *l, uint64_t after)
{
    struct spawn_message m = {.verb = SPAWN_LIST, .list = {.after = after}};
    spawner_client_ask(l->client, &m, on_entry, l);
}

void keeper_list(struct spawner_client *client, keeper_list_fn fn, void *ctx)
{
    struct listing *l = xcalloc(1, sizeof(*l));
    *l = (struct listing){.client = client, .fn = fn, .ctx = ctx};
    ask_next(l, 0);
}
