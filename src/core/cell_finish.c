/* cell_finish.c - the end of an execution: its counters, its artifacts, its verdict */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cell_inside.h"

#include "base/clock.h"
#include "base/memory.h"
#include "core/gateway.h"

#define COLLECT_MS 10000

uint64_t cell_minus(uint64_t now, uint64_t before)
{
    return now - MIN(now, before);
}

/* The counters are those of the sandbox; an execution answers for what was added to them. */
static void attribute(struct cell *c)
{
    struct spawn_stats *s = &c->e.facts.stats;
    const struct spawn_stats *before = c->place.before;
    *s = c->stats;
    s->cpu_us = cell_minus(s->cpu_us, before->cpu_us);
    s->oom_kills = (uint32_t)cell_minus(s->oom_kills, before->oom_kills);
    s->pids_refused = (uint32_t)cell_minus(s->pids_refused, before->pids_refused);
}

static void note_denied(struct cell *c)
{
    struct passage *passage = c->place.passage ? *c->place.passage : NULL;
    const struct egress_denied *denied = passage ? passage_denied(passage) : NULL;
    if (denied)
        facts_set_denied(&c->e.facts, denied);
}

static void finish(struct cell *c)
{
    struct execution *e = &c->e;
    c->step = CELL_OVER;
    cell_stop_timers(c);
    if (c->is_putting)
        guest_forget_files(c->place.guest); /* its late end is not that of a later question */
    upload_free(take_ptr(&c->upload));
    collect_free(take_ptr(&c->collect));
    if (!c->request->wants_artifacts) /* then init was asked for another reason */
        artifact_list_release(&e->artifacts);
    attribute(c);
    note_denied(c);
    if (c->has_lost_output && !e->error.msg[0])
        error_set(&e->error, ERROR_UNAVAILABLE,
                  "its output was lost with the process that read it");
    execution_judge(e);
    c->events.ended(c->events.ctx, c);
}

void cell_check_finished(struct cell *c)
{
    if (c->step == CELL_FINISH && !c->is_collecting && !c->counting && !c->awaits_seal)
        finish(c);
}

static void measure(struct cell *c)
{
    c->e.duration_ms = (double)(clock_now_ns() - c->start_ns) / 1e6;
    c->e.facts.duration_ms = (uint64_t)c->e.duration_ms;
}

void cell_finish_unrun(struct cell *c)
{
    c->step = CELL_FINISH;
    if (c->e.facts.is_timed_out)
        measure(c); /* what its files took */
    cell_check_finished(c);
}

void cell_fail(struct cell *c, const struct error *err)
{
    if (c->e.error.msg[0] == '\0')
        c->e.error = *err;
    if (c->step != CELL_OVER)
        finish(c);
}

/* --- after the code: counters and artifacts, side by side ------------------------------------- */

static void on_stats(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    (void)err;
    scoped_free struct cell_count *count = ctx;
    struct cell *c = count->cell;
    if (!c)
        return;
    c->counting = NULL;
    if (m)
        c->stats = m->stats;
    cell_check_finished(c);
}

static void begin_count(struct cell *c)
{
    struct spawn_message m = {.verb = SPAWN_STATS, .sandbox = c->place.sandbox};
    c->counting = xcalloc(1, sizeof(*c->counting));
    c->counting->cell = c;
    spawner_client_ask(c->place.spawner, &m, on_stats, c->counting);
}

static void on_collected(void *ctx)
{
    struct cell *c = ctx;
    c->is_collecting = false;
    cell_check_finished(c);
}

void cell_cut_collect(struct cell *c)
{
    c->e.artifacts.is_cut = true;
    on_collected(c);
}

static void on_collect_late(void *ctx)
{
    struct cell *c = ctx;
    guest_forget_files(c->place.guest); /* its late end is not that of a later question */
    cell_cut_collect(c);
}

static void begin_collect(struct cell *c)
{
    struct error err;
    const struct collect_order order = {
        .guest = c->place.guest,
        .inputs = c->request->inputs,
        .input_count = c->request->input_count,
        .since_ns = c->since_ns,
        .newest_ns = c->place.newest_ns,
        .max_file_bytes = c->place.limits->disk_bytes,
        .now_bytes = c->request->artifact_bytes,
        .artifacts = &c->e.artifacts,
        .events = c->events.told,
        .events_ctx = c->events.told_ctx,
        .done = on_collected,
        .ctx = c,
    };
    if (collect_new(&c->collect, c->place.loop, &order, &err) < 0) {
        c->e.artifacts.is_cut = true;
        return;
    }
    c->is_collecting = true;
    cell_set_timer(c, COLLECT_MS, on_collect_late);
}

/* After what was printed before them. */
void cell_tell_results(struct cell *c, size_t end)
{
    if (!c->events.told->result || c->told_results >= end)
        return;
    if (c->stdio)
        stdio_read_now(c->stdio);
    while (c->told_results < end)
        c->events.told->result(c->events.told_ctx, &c->e.results.items[c->told_results++]);
}

/* What a good end is told with can be read from here. Any other may be the work of a limit, and the
 * spawner knows more about those. Code may be over before the spawner, busy with others, has told
 * that its sandbox is sealed: that word is on its way, and an answer would come behind it. */
static void count(struct cell *c)
{
    const struct facts *f = &c->e.facts;
    bool is_good = f->has_ended && f->exit_code == 0 && !c->kernel_is_lost;
    if (is_good && !*c->place.is_sealed)
        c->awaits_seal = true;
    else if (!is_good || !c->place.sealed->layers ||
             !spawner_client_read_stats(c->place.spawner, c->place.sealed, &c->stats))
        begin_count(c);
}

void cell_on_sealed(struct cell *c)
{
    c->e.layers = c->place.sealed->layers;
    if (!c->awaits_seal)
        return;
    c->awaits_seal = false;
    count(c);
    cell_check_finished(c);
}

/* For the files that changed, unless the kernel says that there are none; and after an interrupt,
 * with which init may be late: its answer to what was asked behind it says that it has gone out, so
 * that it does not hit the code that runs next. */
static bool must_ask_init(const struct cell *c)
{
    bool for_files = c->request->wants_artifacts && !c->is_untouched;
    bool for_interrupt = c->was_interrupted && !c->kernel_is_lost;
    return !c->is_gone && (for_files || for_interrupt);
}

/* The code is over, in whichever way. */
void cell_begin_finish(struct cell *c)
{
    c->step = CELL_FINISH;
    cell_stop_timers(c);
    measure(c);
    if (c->stdio)
        stdio_read_now(c->stdio);
    cell_tell_results(c, c->e.results.count);
    if (must_ask_init(c))
        begin_collect(c);
    /* A kernel that died may have met a limit, which only the counters tell. */
    if ((c->request->wants_usage || c->kernel_is_lost) && !c->stats.is_over)
        count(c);
    cell_check_finished(c);
}
