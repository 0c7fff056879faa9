/* workspace_restore.c - storage, chunk, sandbox, one after the other
 *
 * Each chunk is what the list says to the byte, or the restore ends. What is in the stream is
 * content: the sandbox unpacks it, and follows no link. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/workspace_inside.h"

#define SLICE_BYTES FILES_BYTES_MAX

static void next_chunk(struct workspace *w);

/* --- into the sandbox ------------------------------------------------------------------------- */

static void feed(struct workspace *w)
{
    while (w->fed < w->raw.len) {
        size_t len = MIN(SLICE_BYTES, w->raw.len - w->fed);
        size_t from = w->fed;
        w->fed += len;
        if (!errand_write(w->errand, w->raw.data + from, len))
            return; /* on_drained() goes on */
    }
    w->at_chunk++;
    next_chunk(w);
}

static void on_drained(void *ctx)
{
    struct workspace *w = ctx;
    if (w->fed > 0)
        feed(w);
}

static void on_ended(void *ctx, const struct errand_end *end)
{
    struct workspace *w = ctx;
    w->errand = NULL;
    if (end->error.msg[0])
        workspace_fail(w, &end->error);
    else
        workspace_finish(w);
}

const struct errand_events workspace_restore_events = {.drained = on_drained, .ended = on_ended};

/* --- out of the storage ----------------------------------------------------------------------- */

static void run_unpack(void *ctx)
{
    struct workspace *w = ctx;
    strbuf_clear(&w->raw);
    w->has_failed = chunk_unpack(w->packed.data, w->packed.len, w->chunk.name, w->chunk.len,
                                 &w->raw, &w->err) < 0;
}

static void on_unpacked(void *ctx)
{
    struct workspace *w = ctx;
    if (workspace_is_wanted(w))
        feed(w);
}

static void on_data(void *ctx, const void *data, size_t len)
{
    struct workspace *w = ctx;
    strbuf_add(&w->packed, data, len); /* one that is too long is cut, and then it is broken */
}

static void on_got(void *ctx, const struct error *err)
{
    struct workspace *w = ctx;
    w->get = NULL;
    if (err) {
        workspace_fail(w, err);
        return;
    }
    w->is_working = true;
    loop_work(workspace_loop(w), run_unpack, on_unpacked, w);
}

static void next_chunk(struct workspace *w)
{
    char key[WORKSPACE_KEY_BYTES];
    w->fed = 0;
    strbuf_clear(&w->packed);
    if (w->at_chunk == w->list.count) {
        errand_commit(w->errand);
        return;
    }
    w->chunk = w->list.entries[w->at_chunk];
    workspace_key(w, w->chunk.name, key);
    w->get = blob_get_open(
        workspace_blob(w),
        &(struct blob_get_order){.key = key, .on_data = on_data, .on_done = on_got, .ctx = w});
}

/* Somebody else's is not there. */
static void on_list(struct workspace *w, const struct error *err)
{
    struct error missing;
    if (!err && (!w->has_list || (!w->sees_all && strcmp(w->list.owner, w->owner) != 0))) {
        error_set(&missing, ERROR_NOT_FOUND, "no workspace of '%s' was saved", w->id);
        error_word(&missing, "workspace_not_found");
        err = &missing;
    }
    if (err)
        workspace_fail(w, err);
    else
        next_chunk(w);
}

void workspace_restore_begin(struct workspace *w)
{
    workspace_read_list(w, &w->list, on_list);
}
