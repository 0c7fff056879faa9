/* archive_sweep.c - what is too old, or too much, goes: first its bytes, then its place in the row
 *
 * A process that dies in between leaves a row whose bytes are gone; the next sweep finds it again,
 * and removing what is not there does no harm. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "core/archive_inside.h"
#include "store/store_field.h"

#define SWEEP_MAX_MS 60000
#define SWEEP_MIN_MS 250
#define PAGE         100
#define NS_PER_MS    1000000ll

static void drop_doomed(struct archive *a)
{
    for (size_t i = 0; i < a->doomed_count; i++)
        store_record_free(&store_type_artifact, a->doomed[i]);
    free(take_ptr(&a->doomed));
    a->doomed_count = a->doomed_next = 0;
}

static void look(struct archive *a);

static void rest(struct archive *a)
{
    drop_doomed(a);
    a->is_sweeping = false;
}

static bool is_crowded(const struct archive *a)
{
    return a->kept_bytes > a->order.disk_bytes;
}

/* After age comes crowding; after that, rest. */
static void page_is_done(struct archive *a)
{
    bool was_empty = a->removed == 0;
    drop_doomed(a);
    if (a->is_crowded && (was_empty || !is_crowded(a))) {
        rest(a);
        return;
    }
    if (!a->is_crowded && was_empty) {
        if (!is_crowded(a)) {
            rest(a);
            return;
        }
        a->is_crowded = true;
    }
    look(a);
}

static void next_doomed(struct archive *a);

static void on_forgotten(void *ctx, const struct store_answer *answer)
{
    struct archive *a = ctx;
    if (answer->err) { /* the row keeps a place that is empty, until the next time */
        rest(a);
        return;
    }
    a->kept_bytes -= MIN(a->kept_bytes, a->doomed[a->doomed_next]->size);
    a->removed++;
    a->doomed_next++;
    next_doomed(a);
}

static void on_removed(void *ctx, const struct error *err)
{
    struct archive *a = ctx;
    if (err) {
        log_warn(a->order.log, "an artifact could not be removed", LOG_STR("error", err->msg));
        rest(a);
        return;
    }
    struct store_artifact row = *a->doomed[a->doomed_next];
    row.place = NULL;
    store_put_artifact(a->order.store, &row, on_forgotten, a);
}

static bool is_enough(const struct archive *a)
{
    return a->is_crowded && !is_crowded(a);
}

/* Two files of an execution may have the same bytes, so all of its go together. */
static bool begins_another(const struct archive *a)
{
    size_t i = a->doomed_next;
    return i == 0 || strcmp(a->doomed[i]->execution_id, a->doomed[i - 1]->execution_id) != 0;
}

static void next_doomed(struct archive *a)
{
    /* What is just being kept is no candidate, however full it is. */
    while (a->doomed_next < a->doomed_count &&
           map_find(&a->loads, a->doomed[a->doomed_next]->execution_id))
        a->doomed_next++;
    if (a->doomed_next == a->doomed_count || (is_enough(a) && begins_another(a)))
        page_is_done(a);
    else
        blob_remove(a->order.blob, a->doomed[a->doomed_next]->place, on_removed, a);
}

static void on_page(void *ctx, const struct store_answer *answer)
{
    struct archive *a = ctx;
    if (answer->err) {
        rest(a);
        return;
    }
    a->doomed = xcalloc(answer->count + 1, sizeof(struct store_artifact *));
    for (size_t i = 0; i < answer->count; i++) {
        struct error err;
        size_t bytes;
        void *copy;
        if (store_record_copy(&copy, &bytes, &store_type_artifact, &answer->artifacts[i], &err) ==
            0)
            a->doomed[a->doomed_count++] = copy;
    }
    next_doomed(a);
}

static void look(struct archive *a)
{
    int64_t now = clock_wall_ns();
    const struct store_stale stale = {
        .before_ns = a->is_crowded ? now : now - (int64_t)a->order.retention_ms * NS_PER_MS,
        .is_any = a->is_crowded,
        .limit = PAGE};
    a->removed = 0;
    store_list_stale_artifacts(a->order.store, &stale, on_page, a);
}

/* What is on its way may be counted already or not yet; without any, the store knows best. */
static void on_counted(void *ctx, const struct store_answer *answer)
{
    struct archive *a = ctx;
    if (answer->err) {
        rest(a);
        return;
    }
    if (a->loads.count == 0)
        a->kept_bytes = answer->usage->disk_bytes;
    look(a);
}

void archive_sweep_now(struct archive *a)
{
    if (a->is_sweeping)
        return;
    a->is_sweeping = true;
    a->is_crowded = false;
    store_get_kept(a->order.store, &(struct store_name){0}, on_counted, a);
}

static void on_time(void *ctx)
{
    struct archive *a = ctx;
    uint64_t wait_ms = MAX(SWEEP_MIN_MS, MIN(SWEEP_MAX_MS, a->order.retention_ms / 4));
    loop_timer_free(a->timer);
    a->timer = loop_timer_new(a->order.loop, wait_ms, on_time, a);
    archive_sweep_now(a);
}

void archive_sweep_start(struct archive *a)
{
    a->timer = loop_timer_new(a->order.loop, SWEEP_MIN_MS, on_time, a);
}

void archive_sweep_release(struct archive *a)
{
    loop_timer_free(a->timer);
    drop_doomed(a);
}
