/* workspace_save.c - sandbox, chunk, storage, one after the other; the list; then what is stale
 *
 * One chunk is on its way at a time, and the sandbox waits for it: two chunks are all that is ever
 * in memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "core/workspace_inside.h"

static void go_on(struct workspace *w);

/* --- one chunk ------------------------------------------------------------------------------- */

static void take_chunk(struct workspace *w)
{
    if (!chunk_list_add(&w->list, w->chunk.name, w->chunk.len)) {
        struct error err;
        error_set(&err, ERROR_TOO_LARGE, "a workspace of more than %d chunks cannot be saved",
                  CHUNK_LIST_MAX);
        workspace_fail(w, &err);
        return;
    }
    w->new_chunks += !w->is_known;
    w->raw.len -= w->chunk.len;
    memmove(w->raw.data, w->raw.data + w->chunk.len, w->raw.len);
    strbuf_clear(&w->packed);
    go_on(w);
}

static void on_kept(void *ctx, const struct error *err)
{
    struct workspace *w = ctx;
    w->put = NULL;
    if (err)
        workspace_fail(w, err);
    else
        take_chunk(w);
}

static struct blob_put *put(struct workspace *w, const uint8_t *name,
                            void (*done)(void *ctx, const struct error *err))
{
    char key[WORKSPACE_KEY_BYTES];
    workspace_key(w, name, key);
    struct blob_put *p = blob_put_open(
        workspace_blob(w),
        &(struct blob_put_order){.key = key, .size = w->packed.len, .on_done = done, .ctx = w});
    blob_put_write(p, w->packed.data, w->packed.len);
    blob_put_end(p);
    return p;
}

static void run_pack(void *ctx)
{
    struct workspace *w = ctx;
    chunk_name(w->raw.data, w->chunk.len, w->chunk.name);
    w->is_known =
        chunk_list_has(&w->before, w->chunk.name) || chunk_list_has(&w->list, w->chunk.name);
    if (!w->is_known)
        chunk_pack(w->raw.data, w->chunk.len, &w->packed);
}

static void on_packed(void *ctx)
{
    struct workspace *w = ctx;
    if (!workspace_is_wanted(w))
        return;
    if (w->is_known)
        take_chunk(w);
    else
        w->put = put(w, w->chunk.name, on_kept);
}

/* --- the list, and what it does not name ------------------------------------------------------ */

static void remove_next(struct workspace *w);

static void on_removed(void *ctx, const struct error *err)
{
    struct workspace *w = ctx;
    if (err && w->is_removal)
        workspace_fail(w, err);
    else /* what is stale is removed by the next save */
        remove_next(w);
}

static void remove_next(struct workspace *w)
{
    if (w->stale_count == 0) {
        free(take_ptr(&w->stale));
        if (w->has_list) /* there is more to look at */
            workspace_clear(w);
        else if (w->is_removal)
            workspace_forget(w);
        else
            workspace_finish(w);
        return;
    }
    scoped_free char *key = w->stale[--w->stale_count];
    blob_remove(workspace_blob(w), key, on_removed, w);
}

/* What does not end with the name of a chunk of this list, and is not the list itself. */
static bool is_stale(const struct workspace *w, const char *key)
{
    uint8_t name[SHA256_BYTES];
    const char *word = strrchr(key, '/') + 1;
    return strcmp(word, "list") != 0 &&
           (!parse_hex(word, name, sizeof(name)) || !chunk_list_has(&w->list, name));
}

static void on_page(void *ctx, const struct error *err, const struct blob_page *page)
{
    struct workspace *w = ctx;
    if (err && w->is_removal) {
        workspace_fail(w, err);
        return;
    }
    w->has_list = !err && page->has_more;
    w->stale = xcalloc(BLOB_PAGE_MAX, sizeof(*w->stale));
    for (size_t i = 0; !err && i < page->count; i++) {
        const char *key = page->entries[i].key;
        snprintf(w->last, sizeof(w->last), "%s", key);
        if (is_stale(w, key))
            w->stale[w->stale_count++] = xstrdup(key);
    }
    remove_next(w);
}

void workspace_clear(struct workspace *w)
{
    char prefix[WORKSPACE_KEY_BYTES];
    snprintf(prefix, sizeof(prefix), "workspaces/%s/", w->id);
    blob_list(workspace_blob(w),
              &(struct blob_list_order){.prefix = prefix, .after = w->last[0] ? w->last : NULL},
              on_page, w);
}

/* --- its row ---------------------------------------------------------------------------------- */

/* `list`: it is whole; NULL: it begins. */
static void note(struct workspace *w, const struct chunk_list *list, store_fn fn)
{
    const struct store_workspace row = {.id = w->id,
                                        .owner = w->owner,
                                        .bytes = list ? list->bytes : 0,
                                        .chunks = list ? list->count : 0,
                                        .created_ns = clock_wall_ns(),
                                        .saved_ns = list ? list->saved_ns : 0};
    w->is_working = true;
    store_put_workspace(workspace_store(w), &row, fn, w);
}

static void on_saved(void *ctx, const struct store_answer *answer)
{
    struct workspace *w = ctx;
    if (!workspace_is_wanted(w))
        return;
    if (answer->err)
        workspace_fail(w, answer->err);
    else
        workspace_clear(w);
}

static void on_list_kept(void *ctx, const struct error *err)
{
    struct workspace *w = ctx;
    w->put = NULL;
    if (err)
        workspace_fail(w, err);
    else
        note(w, &w->list, on_saved);
}

/* --- the way there --------------------------------------------------------------------------- */

static void go_on(struct workspace *w)
{
    if (w->raw.len >= CHUNK_BYTES || (w->has_ended && w->raw.len > 0)) {
        w->chunk.len = (uint32_t)MIN(w->raw.len, CHUNK_BYTES);
        w->is_working = true;
        loop_work(workspace_loop(w), run_pack, on_packed, w);
    } else if (w->has_ended) {
        w->list.saved_ns = clock_wall_ns();
        memcpy(w->list.owner, w->owner, sizeof(w->list.owner));
        chunk_list_write(&w->list, &w->packed);
        w->put = put(w, NULL, on_list_kept);
    } else {
        errand_resume(w->errand);
    }
}

static void on_bytes(void *ctx, const void *data, size_t len)
{
    struct workspace *w = ctx;
    strbuf_add(&w->raw, data, len);
    if (w->raw.len < CHUNK_BYTES)
        return;
    errand_pause(w->errand);
    if (!w->is_working && !w->put)
        go_on(w);
}

/* May come while a chunk is under way, which then goes on with the rest. */
static void on_ended(void *ctx, const struct errand_end *end)
{
    struct workspace *w = ctx;
    w->errand = NULL;
    w->has_ended = true;
    if (end->error.msg[0])
        workspace_fail(w, &end->error);
    else if (!w->is_working && !w->put && !w->get)
        go_on(w);
}

const struct errand_events workspace_save_events = {.bytes = on_bytes, .ended = on_ended};

/* A list that is broken counts as none: this save makes a new one. */
static void on_before(struct workspace *w, const struct error *err)
{
    if (err && err->code != ERROR_INVALID)
        workspace_fail(w, err);
    else
        go_on(w);
}

static void on_noted(void *ctx, const struct store_answer *answer)
{
    struct workspace *w = ctx;
    if (!workspace_is_wanted(w))
        return;
    if (answer->err)
        workspace_fail(w, answer->err);
    else
        workspace_read_list(w, &w->before, on_before);
}

void workspace_save_begin(struct workspace *w)
{
    errand_pause(w->errand);
    note(w, NULL, on_noted);
}
