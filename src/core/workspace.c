/* workspace.c - begins and ends saves and restores, and reads their lists */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/parse.h"
#include "core/workspace_inside.h"

struct loop *workspace_loop(const struct workspace *w)
{
    return w->all->order.loop;
}

struct blob *workspace_blob(const struct workspace *w)
{
    return w->all->order.blob;
}

struct store *workspace_store(const struct workspace *w)
{
    return w->all->order.store;
}

void workspace_key(const struct workspace *w, const uint8_t *name, char out[WORKSPACE_KEY_BYTES])
{
    char hex[SHA256_HEX_BYTES] = "list";
    if (name)
        format_hex(name, SHA256_BYTES, hex);
    snprintf(out, WORKSPACE_KEY_BYTES, "workspaces/%s/%s", w->id, hex);
}

/* --- the end --------------------------------------------------------------------------------- */

static void release(struct workspace *w)
{
    strbuf_release(&w->raw);
    strbuf_release(&w->packed);
    chunk_list_release(&w->list);
    chunk_list_release(&w->before);
    while (w->stale_count > 0)
        free(w->stale[--w->stale_count]);
    free(w->stale);
    free(w);
}

/* Whatever is under way of it ends here; only a thread, or the store, is waited for. */
void workspace_drop(struct workspace *w)
{
    *w->at = w->next;
    if (w->next)
        w->next->at = w->at;
    if (w->errand)
        errand_close(take_ptr(&w->errand));
    if (w->put)
        blob_put_abort(take_ptr(&w->put));
    if (w->get)
        blob_get_abort(take_ptr(&w->get));
    w->is_dropped = true;
    if (!w->is_working)
        release(w);
}

void workspace_fail(struct workspace *w, const struct error *err)
{
    struct error kept = *err;
    workspace_fn fn = w->fn;
    void *ctx = w->ctx;
    workspace_drop(w);
    fn(ctx, NULL, &kept);
}

void workspace_finish(struct workspace *w)
{
    const struct workspace_info info = {.id = w->id,
                                        .bytes = w->list.bytes,
                                        .chunks = w->list.count,
                                        .new_chunks = w->new_chunks,
                                        .saved_ns = w->list.saved_ns};
    w->gone.id = w->id;
    w->fn(w->ctx, w->is_removal ? &w->gone : &info, NULL);
    workspace_drop(w);
}

bool workspace_is_wanted(struct workspace *w)
{
    w->is_working = false;
    if (w->is_dropped)
        release(w);
    else if (w->has_failed)
        workspace_fail(w, &w->err);
    else
        return true;
    return false;
}

/* --- the list -------------------------------------------------------------------------------- */

static void on_list_data(void *ctx, const void *data, size_t len)
{
    struct workspace *w = ctx;
    strbuf_add(&w->packed, data, len); /* one that is too long is cut, and then it is broken */
}

static void on_list(void *ctx, const struct error *err)
{
    struct workspace *w = ctx;
    struct error local;
    w->get = NULL;
    w->has_list = !err;
    if (!err && chunk_list_parse(w->into, w->packed.data, w->packed.len, &local) < 0)
        err = &local;
    else if (err && err->code == ERROR_NOT_FOUND)
        err = NULL;
    strbuf_clear(&w->packed);
    w->on_list(w, err);
}

void workspace_read_list(struct workspace *w, struct chunk_list *into, workspace_list_fn fn)
{
    char key[WORKSPACE_KEY_BYTES];
    workspace_key(w, NULL, key);
    w->into = into;
    w->on_list = fn;
    w->get = blob_get_open(workspace_blob(w),
                           &(struct blob_get_order){
                               .key = key, .on_data = on_list_data, .on_done = on_list, .ctx = w});
}

/* --- the beginning --------------------------------------------------------------------------- */

static bool is_busy(const struct workspaces *all, const char *id)
{
    for (const struct workspace *w = all->first; w; w = w->next) {
        if (strcmp(w->id, id) == 0)
            return true;
    }
    return false;
}

int workspace_new(struct workspace **out, struct workspaces *all, const struct workspace_order *o,
                  struct error *err)
{
    if (is_busy(all, o->id)) {
        error_set(err, ERROR_CONFLICT, "the workspace of '%s' is being saved, restored or removed",
                  o->id);
        return error_word(err, "workspace_busy");
    }
    struct workspace *w = xcalloc(1, sizeof(*w));
    *w = (struct workspace){.all = all,
                            .next = all->first,
                            .at = &all->first,
                            .sees_all = !o->owner,
                            .fn = o->fn,
                            .ctx = o->ctx};
    snprintf(w->id, sizeof(w->id), "%s", o->id);
    snprintf(w->owner, sizeof(w->owner), "%s", o->owner ? o->owner : "");
    strbuf_init(&w->raw, 2 * CHUNK_BYTES);
    strbuf_init(&w->packed, MAX(CHUNK_LIST_MAX_BYTES, CHUNK_PACKED_MAX));
    if (w->next)
        w->next->at = &w->next;
    all->first = w;
    *out = w;
    return 0;
}

/* The errand is opened first: it knows when the session ends. */
static int begin(struct workspaces *all, const struct workspace_order *o, enum files_op op,
                 const struct errand_events *events, struct error *err)
{
    struct workspace *w;
    if (workspace_new(&w, all, o, err) < 0)
        return -1;
    const struct errand_order order = {.op = op, .path = "", .events = events, .ctx = w};
    if (errand_open(&w->errand, o->session, &order, err) < 0) {
        workspace_drop(w);
        return -1;
    }
    if (op == FILES_PACK)
        workspace_save_begin(w);
    else
        workspace_restore_begin(w);
    return 0;
}

int workspaces_save(struct workspaces *all, const struct workspace_order *order, struct error *err)
{
    return begin(all, order, FILES_PACK, &workspace_save_events, err);
}

int workspaces_restore(struct workspaces *all, const struct workspace_order *order,
                       struct error *err)
{
    return begin(all, order, FILES_UNPACK, &workspace_restore_events, err);
}

struct workspaces *workspaces_new(const struct workspaces_order *order)
{
    struct workspaces *all = xcalloc(1, sizeof(*all));
    all->order = *order;
    workspaces_sweep_begin(all);
    return all;
}

void workspaces_stop(struct workspaces *all)
{
    struct error err;
    if (!all)
        return;
    workspaces_sweep_stop(all);
    error_set(&err, ERROR_UNAVAILABLE, "the server stops");
    while (all->first)
        workspace_fail(all->first, &err);
}

void workspaces_free(struct workspaces *all)
{
    workspaces_stop(all);
    free(all);
}
