/* spool_move.c - from near to far: read and written at the same time, then removed where it was
 *
 * What fails is tried again after a pause that grows up to a minute, for as long as it takes: the
 * bytes are safe meanwhile. One that cannot be moved does not hold up those behind it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "blob/spool_inside.h"

#define PAUSE_MS     1000
#define PAUSE_MAX_MS 60000

static void go_on(struct spool *s);

static void drop_page(struct spool_move *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->keys[i]);
    m->count = m->next = 0;
}

static void on_pause_over(void *ctx)
{
    struct spool *s = ctx;
    loop_timer_free(take_ptr(&s->move.timer));
    go_on(s);
}

/* --- one blob --------------------------------------------------------------------------------- */

static void end_move(struct spool *s)
{
    s->move.key = NULL;
    s->move.is_busy = false;
    spool_on_moved(s);
}

static void fail_move(struct spool *s, const struct error *err)
{
    struct spool_move *m = &s->move;
    uint64_t pause_ms = s->order.pause_ms ? s->order.pause_ms : PAUSE_MS;
    if (m->failures == 0)
        log_warn(s->order.log, "artifacts wait on the disk for the storage",
                 LOG_STR("error", err->msg), LOG_STR("hint", err->hint));
    if (m->failures < 16)
        pause_ms <<= m->failures;
    m->failures++;
    m->next++;
    m->timer = loop_timer_new(s->order.loop, MIN(pause_ms, PAUSE_MAX_MS), on_pause_over, s);
    end_move(s);
}

static void on_removed(void *ctx, const struct error *err)
{
    struct spool *s = ctx;
    if (err) { /* it is at both places, and moved again */
        fail_move(s, err);
        return;
    }
    if (s->move.failures > 0)
        log_info(s->order.log, "artifacts reach the storage again");
    s->move.failures = 0;
    s->move.next++;
    end_move(s);
    go_on(s);
}

static void on_put(void *ctx, const struct error *err)
{
    struct spool *s = ctx;
    s->move.put = NULL;
    if (s->move.get)
        blob_get_abort(take_ptr(&s->move.get));
    if (err)
        fail_move(s, err);
    else
        blob_remove(s->order.near, s->move.key, on_removed, s);
}

static void on_drain(void *ctx)
{
    struct spool *s = ctx;
    if (s->move.get)
        blob_get_resume(s->move.get);
}

/* Its size is known before the far store is asked for room. */
static void on_begin(void *ctx, const struct blob_info *info)
{
    struct spool *s = ctx;
    const struct blob_put_order order = {
        .key = s->move.key, .size = info->size, .on_drain = on_drain, .on_done = on_put, .ctx = s};
    s->move.put = blob_put_open(s->order.far, &order);
}

static void on_data(void *ctx, const void *data, size_t len)
{
    struct spool *s = ctx;
    if (!blob_put_write(s->move.put, data, len))
        blob_get_pause(s->move.get);
}

static void on_got(void *ctx, const struct error *err)
{
    struct spool *s = ctx;
    s->move.get = NULL;
    if (!err) {
        blob_put_end(s->move.put);
        return;
    }
    if (s->move.put)
        blob_put_abort(take_ptr(&s->move.put));
    if (err->code != ERROR_NOT_FOUND) {
        fail_move(s, err);
        return;
    }
    s->move.next++; /* it was removed since it was listed */
    end_move(s);
    go_on(s);
}

static void move_next(struct spool *s)
{
    struct spool_move *m = &s->move;
    m->key = m->keys[m->next];
    const struct blob_get_order order = {
        .key = m->key, .on_begin = on_begin, .on_data = on_data, .on_done = on_got, .ctx = s};
    m->get = blob_get_open(s->order.near, &order);
}

/* --- which ------------------------------------------------------------------------------------ */

static void on_page(void *ctx, const struct error *err, const struct blob_page *page)
{
    struct spool *s = ctx;
    struct spool_move *m = &s->move;
    if (err) {
        fail_move(s, err);
        return;
    }
    for (size_t i = 0; i < page->count; i++)
        m->keys[m->count++] = xstrdup(page->entries[i].key);
    bool was_behind = m->has_more; /* then those before it are looked at once more */
    m->has_more = page->has_more;
    if (m->count > 0)
        snprintf(m->after, sizeof(m->after), "%s", m->keys[m->count - 1]);
    m->is_busy = false;
    if (m->count > 0 || was_behind || m->is_asked)
        go_on(s);
}

static void ask_page(struct spool *s)
{
    struct spool_move *m = &s->move;
    const struct blob_list_order order = {
        .prefix = s->prefix, .after = m->has_more ? m->after : NULL, .limit = SPOOL_PAGE};
    drop_page(m);
    m->is_asked = false;
    blob_list(s->order.near, &order, on_page, s);
}

/* While the storage is dead its pause holds up all of them. */
static void go_on(struct spool *s)
{
    struct spool_move *m = &s->move;
    if (m->is_busy || m->timer)
        return;
    m->is_busy = true;
    if (m->next < m->count)
        move_next(s);
    else
        ask_page(s);
}

void spool_move_begin(struct spool *s)
{
    s->move.is_asked = true;
    go_on(s);
}

void spool_move_release(struct spool *s)
{
    struct spool_move *m = &s->move;
    if (m->get)
        blob_get_abort(m->get);
    if (m->put)
        blob_put_abort(m->put);
    loop_timer_free(m->timer);
    drop_page(m);
}
