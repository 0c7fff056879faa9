/* workspace_remove.c - a saved workspace goes: by somebody's wish, or in time
 *
 * First its list, so that nobody restores half of it; then its chunks; then its row. What is
 * interrupted is done again by the next who tries. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "core/workspace_inside.h"

#define SWEEP_MAX_MS 60000
#define SWEEP_MIN_MS 250
#define PAGE         20
#define NS_PER_MS    1000000ll

/* --- one -------------------------------------------------------------------------------------- */

static void on_forgotten(void *ctx, const struct store_answer *answer)
{
    struct workspace *w = ctx;
    if (!workspace_is_wanted(w))
        return;
    if (answer->err)
        workspace_fail(w, answer->err);
    else
        workspace_finish(w);
}

void workspace_forget(struct workspace *w)
{
    w->is_working = true;
    store_remove_workspace(workspace_store(w), &(struct store_name){.id = w->id}, on_forgotten, w);
}

static void on_list_removed(void *ctx, const struct error *err)
{
    struct workspace *w = ctx;
    if (err)
        workspace_fail(w, err);
    else
        workspace_clear(w);
}

void workspace_remove_begin(struct workspace *w)
{
    char key[WORKSPACE_KEY_BYTES];
    workspace_key(w, NULL, key);
    blob_remove(workspace_blob(w), key, on_list_removed, w);
}

/* Somebody else's is not there. */
static void on_row(void *ctx, const struct store_answer *answer)
{
    struct workspace *w = ctx;
    struct error err;
    if (!workspace_is_wanted(w))
        return;
    if (answer->err) {
        err = *answer->err;
        if (err.code == ERROR_NOT_FOUND)
            error_word(&err, "workspace_not_found");
        workspace_fail(w, &err);
        return;
    }
    const struct store_workspace *row = &answer->workspaces[0];
    w->gone = (struct workspace_info){
        .bytes = row->bytes, .chunks = row->chunks, .saved_ns = row->saved_ns};
    workspace_remove_begin(w);
}

int workspaces_remove(struct workspaces *all, const struct workspace_order *order,
                      struct error *err)
{
    struct workspace *w;
    if (workspace_new(&w, all, order, err) < 0)
        return -1;
    w->is_removal = true;
    w->is_working = true;
    store_get_workspace(workspace_store(w),
                        &(struct store_name){.id = w->id, .owner = order->owner}, on_row, w);
    return 0;
}

/* --- all that are old ------------------------------------------------------------------------- */

static void remove_doomed(struct workspaces *all);

static void on_doomed_gone(void *ctx, const struct workspace_info *info, const struct error *err)
{
    struct workspaces *all = ctx;
    if (err && !all->is_stopped)
        log_warn(all->order.log, "a saved workspace could not be removed",
                 LOG_STR("error", err->msg));
    else if (info)
        log_info(all->order.log, "a saved workspace was removed: it was too old",
                 LOG_STR("session", info->id));
    if (!all->is_stopped)
        remove_doomed(all);
}

static void on_time(void *ctx);

static void rest(struct workspaces *all)
{
    uint64_t wait_ms = MAX(SWEEP_MIN_MS, MIN(SWEEP_MAX_MS, all->order.retention_ms / 4));
    free(take_ptr(&all->doomed));
    all->timer = loop_timer_new(all->order.loop, wait_ms, on_time, all);
}

/* One that is being saved just now is not old any more. */
static void remove_doomed(struct workspaces *all)
{
    struct error err;
    struct workspace *w = NULL;
    while (!w && all->doomed_count > 0) {
        const struct workspace_order order = {
            .id = all->doomed[--all->doomed_count], .fn = on_doomed_gone, .ctx = all};
        if (workspace_new(&w, all, &order, &err) < 0)
            w = NULL;
    }
    if (!w) {
        rest(all);
        return;
    }
    w->is_removal = true;
    workspace_remove_begin(w);
}

static void on_old(void *ctx, const struct store_answer *answer)
{
    struct workspaces *all = ctx;
    if (all->is_stopped)
        return;
    all->doomed = xcalloc(PAGE, sizeof(*all->doomed));
    for (size_t i = 0; !answer->err && i < answer->count; i++)
        snprintf(all->doomed[all->doomed_count++], ID_BYTES, "%s", answer->workspaces[i].id);
    remove_doomed(all);
}

static void on_time(void *ctx)
{
    struct workspaces *all = ctx;
    const struct store_stale stale = {
        .before_ns = clock_wall_ns() - (int64_t)all->order.retention_ms * NS_PER_MS, .limit = PAGE};
    loop_timer_free(take_ptr(&all->timer));
    store_list_stale_workspaces(all->order.store, &stale, on_old, all);
}

void workspaces_sweep_begin(struct workspaces *all)
{
    if (all->order.retention_ms > 0)
        all->timer = loop_timer_new(all->order.loop, SWEEP_MIN_MS, on_time, all);
}

void workspaces_sweep_stop(struct workspaces *all)
{
    all->is_stopped = true;
    loop_timer_free(take_ptr(&all->timer));
    free(take_ptr(&all->doomed));
    all->doomed_count = 0;
}
