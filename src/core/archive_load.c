/* archive_load.c - what one execution left: its rows are written, its bytes follow, in two lanes
 *
 * Bytes that came with the end are put, while those of large files are still read in the session.
 * What fails is tried again for a while; what is given up has a row without a place. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/memory.h"
#include "core/archive_inside.h"
#include "core/mime.h"

#define TRIES_MAX     6 /* after 1, 2, 4, ... seconds */
#define TRY_MS        1000u
#define HOLD_MS       10000  /* that a session waits for its large files to be read... */
#define HOLD_ALONE_MS 120000 /* ...and a sandbox that is there for nothing else any more */

static void wake(struct load *l)
{
    struct finding *list = take_ptr(&l->waiting), *next;
    for (; list; list = next) {
        next = finding_next(list);
        finding_look(list);
    }
}

/* Its session may go on. Once. */
static void let_session_go(struct load *l)
{
    struct archive *a = l->archive;
    if (!l->hold)
        return;
    loop_timer_free(take_ptr(&l->hold));
    a->source->carried(a->source_ctx, l->id, l->session[0] ? l->session : NULL);
}

static void on_hold_over(void *ctx)
{
    let_session_go(ctx);
}

static void finish(struct load *l)
{
    struct archive *a = l->archive;
    struct finding *list = take_ptr(&l->waiting), *next;
    load_free(l);
    for (; list; list = next) {
        next = finding_next(list);
        finding_begin(list);
    }
    if (a->kept_bytes > a->order.disk_bytes)
        archive_sweep_now(a);
}

static void lane_go_on(struct lane *lane);

void load_write_row(struct load *l, const struct haul_item *item, bool has_place, store_fn fn,
                    void *ctx)
{
    char key[ARCHIVE_KEY_BYTES];
    archive_key(l->id, item, key);
    const struct store_artifact row = archive_row(l->id, item, has_place ? key : NULL);
    store_put_artifact(l->archive->order.store, &row, fn, ctx);
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void on_lane_again(void *ctx)
{
    struct lane *lane = ctx;
    loop_timer_free(take_ptr(&lane->timer));
    lane_go_on(lane);
}

static void settle(struct lane *lane)
{
    struct load *l = lane->load;
    l->haul.items[lane->next].is_settled = true;
    lane->is_waiting = false;
    lane->tries = 0;
    lane->next++;
    wake(l);
    lane_go_on(lane);
}

/* Nobody is to find a place that is empty. */
static void on_given_up(void *ctx, const struct store_answer *answer)
{
    (void)answer; /* one that keeps its place is found to be empty when somebody looks */
    settle(ctx);
}

void lane_on_item(struct lane *lane, const struct error *err, bool can_retry)
{
    struct load *l = lane->load;
    struct archive *a = l->archive;
    struct haul_item *item = &l->haul.items[lane->next];
    if (err && can_retry && ++lane->tries < TRIES_MAX) {
        lane->timer =
            loop_timer_new(a->order.loop, TRY_MS << (lane->tries - 1), on_lane_again, lane);
        return;
    }
    if (err) {
        log_warn(a->order.log, "an artifact could not be kept", LOG_STR("execution", l->id),
                 LOG_U64("size", item->size), LOG_STR("error", err->msg));
        a->kept_bytes -= MIN(a->kept_bytes, item->size);
        load_write_row(l, item, false, on_given_up, lane);
        return;
    }
    settle(lane);
}

static void on_put(void *ctx, const struct error *err)
{
    struct lane *lane = ctx;
    lane->put = NULL;
    lane_on_item(lane, err, true);
}

static void put(struct lane *lane, const struct haul_item *item)
{
    char key[ARCHIVE_KEY_BYTES];
    archive_key(lane->load->id, item, key);
    const struct blob_put_order order = {.key = key,
                                         .size = item->size,
                                         .content_type = mime_of(item->path),
                                         .on_done = on_put,
                                         .ctx = lane};
    lane->put = blob_put_open(lane->load->archive->order.blob, &order);
    if (item->content.len > 0)
        blob_put_write(lane->put, item->content.data, item->content.len);
    blob_put_end(lane->put);
}

static void lane_end(struct lane *lane)
{
    struct load *l = lane->load;
    lane->is_done = true;
    if (lane->is_left)
        let_session_go(l);
    if (l->lanes[LANE_HELD].is_done && l->lanes[LANE_LEFT].is_done)
        finish(l);
}

/* The next one of its own; NULL: there are no more. */
static struct haul_item *next_item(struct lane *lane)
{
    struct haul *haul = &lane->load->haul;
    for (; lane->next < haul->count; lane->next++) {
        struct haul_item *item = &haul->items[lane->next];
        if (item->is_wanted && item->is_whole != lane->is_left)
            return item;
    }
    return NULL;
}

/* A loop, since one that fails at once comes back from inside: there may be a thousand. */
static void lane_go_on(struct lane *lane)
{
    if (lane->is_going) /* NOLINT(clang-analyzer-unix.Malloc): the last lane ends the load */
        return;
    lane->is_going = true;
    do {
        struct haul_item *item = next_item(lane);
        if (!item) {
            lane_end(lane);
            return;
        }
        lane->is_waiting = true;
        if (lane->is_left)
            carry_begin(lane, item);
        else
            put(lane, item);
    } while (!lane->is_waiting);
    lane->is_going = false;
}

/* --- life ------------------------------------------------------------------------------------- */

void load_begin(struct load *l)
{
    if (haul_has_left(&l->haul))
        l->hold = loop_timer_new(l->archive->order.loop, l->session[0] ? HOLD_MS : HOLD_ALONE_MS,
                                 on_hold_over, l);
    /* Both are to be seen before either can end the load. */
    l->lanes[LANE_HELD] = (struct lane){.load = l};
    l->lanes[LANE_LEFT] = (struct lane){.load = l, .is_left = true};
    lane_go_on(&l->lanes[LANE_LEFT]);
    lane_go_on(&l->lanes[LANE_HELD]);
}

void load_free(struct load *l)
{
    map_remove(&l->archive->loads, &l->by_id);
    l->archive->held_bytes -= l->haul.bytes;
    for (size_t i = 0; i < LANES; i++) {
        if (l->lanes[i].put)
            blob_put_abort(l->lanes[i].put);
        loop_timer_free(l->lanes[i].timer);
        carry_free(l->lanes[i].carry);
    }
    loop_timer_free(l->hold);
    haul_release(&l->haul);
    free(l);
}
