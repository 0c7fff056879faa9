/* keeper.c - the verbs KEEP, LIST and TAKE */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/keeper.h"

#include <string.h>

#include "base/memory.h"

void keeper_put(struct spawner_client *client, uint64_t sandbox,
                const uint8_t label[SPAWN_LABEL_BYTES], enum keeper_slot slot, const int *fds,
                size_t count)
{
    keeper_put_noted(client, sandbox, label, slot, fds, count, NULL, 0);
}

void keeper_put_noted(struct spawner_client *client, uint64_t sandbox,
                      const uint8_t label[SPAWN_LABEL_BYTES], enum keeper_slot slot, const int *fds,
                      size_t count, const void *note, size_t note_len)
{
    struct spawn_message m = {
        .verb = SPAWN_KEEP, .sandbox = sandbox, .keep = {.slot = slot, .count = (uint32_t)count}};
    BUG_ON(note_len > sizeof(m.keep.note));
    memcpy(m.keep.label, label, sizeof(m.keep.label));
    m.keep.has_note = note != NULL;
    if (note)
        memcpy(m.keep.note, note, note_len);
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

struct getting {
    enum keeper_slot slot;
    keeper_fd_fn fn;
    void *ctx;
};

static void on_taken(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    scoped_free struct getting *g = ctx;
    int none = -1;
    size_t at = 1; /* behind the control socket */
    (void)err;
    for (size_t slot = 0; m && slot < g->slot; slot++)
        at += m->entry.counts[slot];
    g->fn(g->ctx, m && m->entry.counts[g->slot] == 1 ? &fds[at] : &none);
}

void keeper_get(struct spawner_client *client, uint64_t sandbox, enum keeper_slot slot,
                keeper_fd_fn fn, void *ctx)
{
    struct spawn_message m = {.verb = SPAWN_TAKE, .sandbox = sandbox};
    struct getting *g = xcalloc(1, sizeof(*g));
    *g = (struct getting){.slot = slot, .fn = fn, .ctx = ctx};
    spawner_client_ask(client, &m, on_taken, g);
}
