/* cell_cut.c - cutting an execution short: an interrupt first, then a kill, by whoever can
 *
 * cove-init kills at once. A bomb inside may keep it from its turn for some hundred milliseconds:
 * then the spawner does it, and when it cannot, at last kills all, and the files with it.
 *
 * Before the code begins there is nothing to interrupt: its files stay away, and that is all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cell_inside.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

#define INTERRUPT_GRACE_MS 120 /* for a time limit: SIGINT first, so that the state may live on */
#define CANCEL_GRACE_MS    1000
#define AGAIN_MS           40 /* before an interrupt that may have been missed is sent again */
#define YOUNG_NS           50000000 /* code that has perhaps not begun */
#define CULL_AFTER_MS      25
#define CULL_SPARING_MS    100 /* the same, where terminals are open, which only init can spare */
#define KILL_GRACE_MS      1000

static void on_kill_late(void *ctx)
{
    struct cell *c = ctx;
    struct spawn_message m = {.verb = SPAWN_KILL, .sandbox = c->place.sandbox};
    spawner_client_ask(c->place.spawner, &m, NULL, NULL);
}

/* What was killed may take its time to die, but does nothing any more. */
static void on_culled(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    (void)err;
    scoped_free struct cell_count *count = ctx;
    struct cell *c = count->cell;
    if (!c)
        return;
    c->culling = NULL;
    if (m && c->step == CELL_RUN)
        cell_begin_finish(c);
}

static void on_cull_time(void *ctx)
{
    struct cell *c = ctx;
    size_t count;
    const int32_t *kept = guest_kept(c->place.guest, &count);
    struct spawn_message m = {.verb = SPAWN_CULL, .sandbox = c->place.sandbox};
    loop_timer_free(c->kill_timer);
    c->kill_timer = loop_timer_new(c->place.loop, KILL_GRACE_MS, on_kill_late, c);
    if (count > SPAWN_CULL_MAX || c->culling)
        return;
    m.cull.count = (uint32_t)count;
    memcpy(m.cull.keep, kept, count * sizeof(kept[0]));
    c->culling = xcalloc(1, sizeof(*c->culling));
    c->culling->cell = c;
    spawner_client_ask(c->place.spawner, &m, on_culled, c->culling);
}

void cell_kill_now(struct cell *c)
{
    if (c->step > CELL_RUN || (c->kill_timer && c->kernel_is_lost))
        return;
    c->kernel_is_lost = true;
    guest_kill(c->place.guest);
    loop_timer_free(c->kill_timer);
    bool spares = *c->place.terminal_count + *c->place.errand_count > 0;
    c->kill_timer =
        loop_timer_new(c->place.loop, spares ? CULL_SPARING_MS : CULL_AFTER_MS, on_cull_time, c);
}

/* What has ended has ended as it did: its counters and artifacts do not change that. */
static void note_cancelled(struct cell *c)
{
    if (c->step <= CELL_RUN)
        c->e.facts.is_cancelled = true;
}

void cell_kill(struct cell *c)
{
    note_cancelled(c);
    cell_kill_now(c);
}

/* Interrupts can be missed: by code that had not begun yet, and by interpreters of the plain form,
 * which have such moments at any time. */
static void interrupt(struct cell *c);

static void on_again(void *ctx)
{
    struct cell *c = ctx;
    if (c->step == CELL_RUN)
        interrupt(c);
}

static void interrupt(struct cell *c)
{
    bool is_young = clock_now_ns() - c->start_ns < YOUNG_NS;
    c->was_interrupted = true;
    guest_signal(c->place.guest, SIGINT);
    loop_timer_free(take_ptr(&c->again_timer));
    if (is_young || c->place.is_plain)
        c->again_timer = loop_timer_new(c->place.loop, AGAIN_MS, on_again, c);
}

static void on_put_late(void *ctx)
{
    cell_finish_unrun(ctx);
}

/* The worker ends when no more bytes come. What an earlier execution left running can keep it from
 * that, and is not waited for. Without files to put, a tick is all that lies before the end. */
static void cut_put(struct cell *c, uint64_t grace_ms)
{
    if (!c->upload || c->is_gone || c->kill_timer)
        return;
    upload_free(take_ptr(&c->upload));
    cell_set_timer(c, grace_ms, on_put_late);
}

static void on_grace_over(void *ctx)
{
    cell_kill_now(ctx);
}

static void interrupt_then_kill(struct cell *c, uint64_t grace_ms)
{
    if (c->step == CELL_PUT)
        cut_put(c, grace_ms);
    if (c->step != CELL_RUN || c->kill_timer)
        return;
    interrupt(c);
    c->kill_timer = loop_timer_new(c->place.loop, grace_ms, on_grace_over, c);
}

void cell_on_timeout(void *ctx)
{
    struct cell *c = ctx;
    c->e.facts.is_timed_out = true;
    interrupt_then_kill(c, INTERRUPT_GRACE_MS);
}

void cell_interrupt(struct cell *c)
{
    note_cancelled(c);
    if (c->step == CELL_PUT)
        cut_put(c, CANCEL_GRACE_MS);
    else if (c->interrupts++ > 0)
        cell_kill(c);
    else if (c->step == CELL_RUN)
        interrupt(c);
}

void cell_cancel(struct cell *c)
{
    note_cancelled(c);
    interrupt_then_kill(c, CANCEL_GRACE_MS);
}
