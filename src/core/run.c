/* run.c - the life of one run, as a chain of steps
 *
 * One step is under way at a time, and the next begins when its answer is there. The clock, a
 * cancel or a dead sandbox cut the chain short; then the rest is draining and destroying. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "core/collect.h"
#include "core/gateway.h"
#include "core/stdio.h"
#include "core/upload.h"
#include "runtime/guest.h"

#define DRAIN_MS           500 /* for the last output, once everything inside is killed */
#define KILL_GRACE_MS      100 /* for cove-init to kill, before the spawner does */
#define COLLECT_MS         10000
#define LIFETIME_MARGIN_MS 60000 /* what the spawner allows beyond the timeout */

enum step {
    STEP_CREATE,
    STEP_PUT,
    STEP_START,
    STEP_RUN,
    STEP_DRAIN,
    STEP_COLLECT,
    STEP_SEAL,
    STEP_DESTROY,
    STEP_OVER,
};

struct run {
    struct execution e;
    struct loop *loop;
    struct spawner_client *spawner;
    const struct run_request *request;
    const struct execution_events *events;
    void *ctx;

    enum step step;
    struct capacity_seat seat;
    uint64_t sandbox; /* 0: none */
    struct guest *guest;
    struct upload *upload;
    struct stdio *stdio;
    struct collect *collect;
    struct passage *passage;        /* its way out, or NULL */
    struct execution_input *inputs; /* those of the request, and whom to trust; owned */
    size_t input_count;
    int trust_fd; /* of that; -1: none */
    int stdin_fd;
    struct loop_timer *timer; /* of the step: timeout, drain, collect */
    struct loop_timer *kill_timer;
    int64_t start_ns; /* monotonic */
    unsigned interrupts;
    bool is_sealed;
    bool is_creating; /* the spawner owes us a sandbox, which must be destroyed if it comes */
    bool has_destroyed;
};

static void destroy(struct run *run);

/* --- ends ------------------------------------------------------------------------------------ */

static void set_timer(struct run *run, uint64_t ms, loop_timer_fn fn)
{
    loop_timer_free(run->timer);
    run->timer = fn ? loop_timer_new(run->loop, ms, fn, run) : NULL;
}

/* Something of ours failed: the run ends as `infrastructure`. */
static void fail(struct run *run, const struct error *err)
{
    if (run->e.error.msg[0] == '\0')
        run->e.error = *err;
    destroy(run);
}

static void end_passage(struct run *run)
{
    const struct egress_denied *denied = run->passage ? passage_denied(run->passage) : NULL;
    const struct egress_denied *failed = run->passage ? passage_failed(run->passage) : NULL;
    if (denied)
        facts_set_denied(&run->e.facts, denied);
    if (failed)
        facts_set_unreached(&run->e.facts, failed);
    passage_free(take_ptr(&run->passage));
}

static void release_parts(struct run *run)
{
    set_timer(run, 0, NULL);
    loop_timer_free(take_ptr(&run->kill_timer));
    stdio_free(take_ptr(&run->stdio));
    upload_free(take_ptr(&run->upload));
    collect_free(take_ptr(&run->collect));
    guest_free(take_ptr(&run->guest));
    end_passage(run);
    capacity_give(&run->seat);
}

static void finish(struct run *run)
{
    struct execution *e = &run->e;
    run->step = STEP_OVER;
    release_parts(run);

    if (run->start_ns && e->duration_ms == 0) /* cut short between its start and its end */
        e->duration_ms = (double)(clock_now_ns() - run->start_ns) / 1e6;
    execution_judge(e);
    run->events->ended(run->ctx, e);
}

static void on_destroyed(void *ctx, const struct spawn_message *m, int *fds,
                         const struct error *err)
{
    (void)fds;
    struct run *run = ctx;
    run->sandbox = 0;
    if (m)
        run->e.facts.stats = m->stats;
    else if (run->e.error.msg[0] == '\0')
        run->e.error = *err;
    finish(run);
}

/* No counter could make a failure of it. */
static bool is_good_end(const struct execution *e)
{
    const struct facts *f = &e->facts;
    return e->error.msg[0] == '\0' && f->has_ended && f->exit_code == 0 && f->signal == 0 &&
           !f->is_timed_out && !f->is_cancelled;
}

static void destroy(struct run *run)
{
    if (run->has_destroyed)
        return;
    run->has_destroyed = true;
    run->step = STEP_DESTROY;
    set_timer(run, 0, NULL);
    if (run->is_creating)
        return;
    if (!run->sandbox) {
        finish(run);
        return;
    }
    struct spawn_message m = {.verb = SPAWN_DESTROY, .sandbox = run->sandbox};
    bool needs_counters = run->request->wants_usage || !is_good_end(&run->e);
    spawner_client_ask(run->spawner, &m, needs_counters ? on_destroyed : NULL, run);
    if (!needs_counters)
        finish(run);
}

/* --- artifacts ------------------------------------------------------------------------------- */

static void on_collect_late(void *ctx)
{
    struct run *run = ctx;
    run->e.artifacts.is_cut = true;
    destroy(run);
}

static void on_collected(void *ctx)
{
    destroy(ctx);
}

static void begin_collect(struct run *run)
{
    struct error err;
    const struct collect_order order = {
        .guest = run->guest,
        .inputs = run->inputs,
        .input_count = run->input_count,
        .max_file_bytes = run->request->limits.disk_bytes,
        .artifacts = &run->e.artifacts,
        .events = run->events,
        .events_ctx = run->ctx,
        .done = on_collected,
        .ctx = run,
    };
    run->step = STEP_COLLECT;
    set_timer(run, COLLECT_MS, on_collect_late);
    /* A sandbox that is gone by now took its files along; how its program ended is known. */
    if (collect_new(&run->collect, run->loop, &order, &err) < 0) {
        run->e.artifacts.is_cut = true;
        destroy(run);
    }
}

/* --- a package layer ------------------------------------------------------------------------- */

static void on_layer_sealed(void *ctx, const struct spawn_message *m, int *fds,
                            const struct error *err)
{
    (void)fds;
    struct run *run = ctx;
    if (m)
        destroy(run);
    else
        fail(run, err);
}

static void ask_seal(struct run *run)
{
    const struct run_layer *layer = run->request->layer;
    struct spawn_message m = {.verb = SPAWN_SEAL_LAYER, .sandbox = run->sandbox};
    memcpy(m.layer.digest, layer->digest, sizeof(m.layer.digest));
    spawner_client_ask_with(run->spawner, &m, &layer->note_fd, SPAWN_LAYER_FDS, on_layer_sealed,
                            run);
}

/* Nothing may move in it any more: first comes the end of all that is inside. The helper that seals
 * has a deadline of its own. */
static void begin_seal(struct run *run)
{
    struct spawn_message m = {.verb = SPAWN_KILL, .sandbox = run->sandbox};
    run->step = STEP_SEAL;
    set_timer(run, 0, NULL);
    if (run->e.facts.stats.is_over)
        ask_seal(run);
    else
        spawner_client_ask(run->spawner, &m, NULL, NULL);
}

/* --- running --------------------------------------------------------------------------------- */

static void after_drain(struct run *run)
{
    stdio_free(take_ptr(&run->stdio));
    if (run->request->layer && is_good_end(&run->e))
        begin_seal(run);
    else if (run->request->wants_artifacts && run->e.facts.has_ended && run->guest &&
             !run->e.facts.stats.is_over)
        begin_collect(run);
    else
        destroy(run);
}

static void on_drain_late(void *ctx)
{
    after_drain(ctx);
}

static void check_drained(struct run *run)
{
    if (run->step == STEP_DRAIN && stdio_has_ended(run->stdio))
        after_drain(run);
}

/* What it left running may hold the output, and must not touch files that are read next. In a
 * sandbox that is destroyed at once it ends anyway. */
static bool must_kill(const struct run *run)
{
    return !stdio_has_ended(run->stdio) || run->request->wants_artifacts || run->request->layer;
}

/* The program is over, or as good as: what it left running goes, and its last output comes. */
static void begin_drain(struct run *run)
{
    struct execution *e = &run->e;
    run->step = STEP_DRAIN;
    e->duration_ms = (double)(clock_now_ns() - run->start_ns) / 1e6;
    e->facts.duration_ms = (uint64_t)e->duration_ms;
    if (run->guest && must_kill(run))
        guest_kill(run->guest);
    loop_timer_free(take_ptr(&run->kill_timer));
    set_timer(run, DRAIN_MS, on_drain_late);
    check_drained(run);
}

static void on_output(void *ctx, enum execution_stream stream, const void *data, size_t len)
{
    struct run *run = ctx;
    run->events->output(run->ctx, stream, data, len);
}

static void on_output_ended(void *ctx)
{
    check_drained(ctx);
}

static void on_kill_late(void *ctx)
{
    struct run *run = ctx;
    struct spawn_message m = {.verb = SPAWN_KILL, .sandbox = run->sandbox};
    spawner_client_ask(run->spawner, &m, NULL, NULL);
}

/* cove-init kills at once; if it does not say so soon, the spawner kills the whole sandbox. */
static void kill_program(struct run *run)
{
    if (run->step != STEP_RUN || run->kill_timer)
        return;
    guest_kill(run->guest);
    run->kill_timer = loop_timer_new(run->loop, KILL_GRACE_MS, on_kill_late, run);
}

static void on_timeout(void *ctx)
{
    struct run *run = ctx;
    run->e.facts.is_timed_out = true;
    kill_program(run);
}

void run_kill(struct run *run)
{
    run->e.facts.is_cancelled = true;
    if (run->step == STEP_RUN)
        kill_program(run);
    else if (run->step < STEP_RUN)
        destroy(run);
}

/* One that starts may run already: init sees the signal behind the order. */
void run_interrupt(struct run *run)
{
    bool may_run = run->step == STEP_START || run->step == STEP_RUN;
    if (!may_run || run->interrupts++ > 0) {
        run_kill(run);
        return;
    }
    run->e.facts.is_cancelled = true;
    guest_signal(run->guest, SIGINT);
}

/* --- starting -------------------------------------------------------------------------------- */

static int start(struct run *run, struct error *err)
{
    int fds[3];
    const struct stdio_order order = {
        .stdin_fd = take_fd(&run->stdin_fd),
        .wants_throughput = true,
        .outputs = {&run->e.out, &run->e.err},
        .output = run->events->output ? on_output : NULL,
        .ended = on_output_ended,
        .ctx = run,
    };
    if (stdio_new(&run->stdio, run->loop, &order, fds, err) < 0)
        return -1;
    const struct guest_program program = {
        .directory = GUEST_WORKSPACE, .argv = run->request->argv, .env = run->request->env};
    run->step = STEP_START;
    run->start_ns = clock_now_ns();
    run->e.started_ns = clock_wall_ns();
    int answer = guest_start(run->guest, &program, fds, 3, err);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    return answer;
}

static void on_started(struct run *run, int error)
{
    struct error err;
    if (error) {
        errno = error;
        error_sys(&err, "start '%s' in the sandbox", run->request->argv[0]);
        fail(run, &err);
        return;
    }
    run->step = STEP_RUN;
    set_timer(run, run->request->timeout_ms, on_timeout);
}

static int put(struct run *run, struct error *err)
{
    if (run->input_count == 0)
        return start(run, err);
    scoped_fd int packed = -1;
    if (upload_pack(&packed, run->inputs, run->input_count, err) < 0)
        return -1;
    run->step = STEP_PUT;
    if (packed >= 0) /* the start right behind it: init refuses it should the files fail */
        return guest_files(run->guest, GUEST_FILES_PUT_NOW, packed, packed, 0, err) < 0
                   ? -1
                   : start(run, err);
    return upload_begin(&run->upload, run->loop, run->guest, run->inputs, run->input_count, err);
}

static int on_put(struct run *run, int error, struct error *err)
{
    upload_free(take_ptr(&run->upload));
    if (error)
        return upload_explain(error, "raise --disk or --inodes", err);
    return run->step == STEP_PUT ? start(run, err) : 0;
}

static void on_exited(struct run *run, const struct guest_message *m)
{
    run->e.facts.has_ended = true;
    run->e.facts.exit_code = m->exit_code;
    run->e.facts.signal = m->signal;
    begin_drain(run);
}

/* What init says, by the step in which it may say it. Anything else is nonsense. */
static int on_guest_message(struct run *run, const struct guest_message *m, struct error *err)
{
    if (m->verb == GUEST_FILES_DONE && (run->step == STEP_PUT || run->step == STEP_START))
        return on_put(run, m->value, err);
    if (m->verb == GUEST_STARTED && run->step == STEP_START)
        on_started(run, m->value);
    else if (m->verb == GUEST_EXITED && run->step == STEP_RUN)
        on_exited(run, m);
    else if (m->verb == GUEST_FILES_DONE && run->step == STEP_COLLECT)
        collect_on_worker_done(run->collect, m->value);
    return 0;
}

static void fail_early(struct run *run)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "the sandbox died before its program started");
    fail(run, &err);
}

/* Init could not be told. Dead before it was sealed, the spawner says why. */
static void fail_unheard(struct run *run, const struct error *err)
{
    if (err->sys_errno != EPIPE)
        fail(run, err);
    else if (run->is_sealed)
        fail_early(run);
}

static void on_guest(void *ctx, const struct guest_message *m)
{
    struct run *run = ctx;
    struct error err;
    if (m) {
        if (on_guest_message(run, m, &err) < 0)
            fail(run, &err);
        return;
    }
    /* The end of pid 1 is told by the spawner too; whoever comes first. */
    if (run->step == STEP_RUN)
        begin_drain(run);
    else if (run->step < STEP_RUN && run->is_sealed) /* else the spawner says why */
        fail_early(run);
}

static void on_created(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    struct run *run = ctx;
    struct error local;
    run->is_creating = false;
    if (!m) {
        run->has_destroyed = false;
        fail(run, err);
        return;
    }
    run->sandbox = m->sandbox;
    if (run->has_destroyed) { /* cancelled meanwhile */
        run->has_destroyed = false;
        destroy(run);
        return;
    }
    /* Without waiting for its GUEST_READY: the socket keeps what comes before. */
    if (guest_open(&run->guest, run->loop, take_fd(&fds[0]), on_guest, run, &local) < 0)
        fail(run, &local);
    else if (!run->request->gateway && put(run, &local) < 0)
        fail_unheard(run, &local);
}

/* With secrets, the file that says whom to trust goes in beside the others. */
static int add_trust(struct run *run, struct error *err)
{
    const struct vault *vault = passage_vault(run->passage);
    uint64_t size;
    if (!vault)
        return 0;
    if (vault_trust_file(vault, &run->trust_fd, &size, err) < 0)
        return -1;
    run->inputs[run->input_count++] = (struct execution_input){.path = (char *)VAULT_TRUST_PATH,
                                                               .fd = run->trust_fd,
                                                               .size = size,
                                                               .mode = 0444,
                                                               .mtime_ns = clock_wall_ns()};
    return 0;
}

static void on_way_out(void *ctx, const struct error *err)
{
    struct run *run = ctx;
    struct error local;
    if (err)
        fail(run, err);
    else if (add_trust(run, &local) < 0 || put(run, &local) < 0)
        fail_unheard(run, &local);
}

static void on_sealed(struct run *run, const struct spawn_message *m)
{
    struct error err;
    if (m->flags & SPAWN_FAILED) {
        spawner_client_explain(run->spawner, m, &err);
        run->sandbox = 0; /* the spawner removes it by itself */
        fail(run, &err);
        return;
    }
    run->is_sealed = true;
    run->e.layers = m->sealed.layers;
    const struct passage_order order = {.sandbox = run->sandbox,
                                        .who = run->e.id,
                                        .rules = run->request->rules,
                                        .vault = run->request->vault};
    if (run->request->gateway && !run->has_destroyed) /* the program waits for it */
        run->passage = passage_open(run->request->gateway, &order, on_way_out, run);
}

static void on_over(struct run *run, const struct spawn_message *m)
{
    run->e.facts.stats = m->stats;
    run->e.facts.stats.is_over = 1;
    if (run->step < STEP_RUN) {
        fail_early(run);
    } else if (run->step == STEP_RUN) {
        begin_drain(run);
    } else if (run->step == STEP_COLLECT) {
        run->e.artifacts.is_cut = true;
        destroy(run);
    } else if (run->step == STEP_SEAL) {
        ask_seal(run);
    }
}

void run_on_event(struct run *run, const struct spawn_message *m)
{
    struct error err;
    if (!m && run->step != STEP_OVER) {
        error_set(&err, ERROR_UNAVAILABLE, "cove-spawner went away");
        run->sandbox = 0;
        fail(run, &err);
    }
    if (!m || m->sandbox != run->sandbox)
        return;
    if (m->verb == SPAWN_SEALED)
        on_sealed(run, m);
    else
        on_over(run, m);
}

int run_begin(struct run **out, struct loop *loop, struct spawner_client *spawner,
              const struct run_request *request, const struct execution_events *events, void *ctx,
              struct error *err)
{
    struct run *run = xcalloc(1, sizeof(*run));
    run->loop = loop;
    run->spawner = spawner;
    run->request = request;
    run->events = events;
    run->ctx = ctx;
    run->stdin_fd = request->stdin_fd;
    run->trust_fd = -1;
    run->input_count = request->input_count;
    run->inputs = xcalloc(request->input_count + 1, sizeof(*run->inputs));
    for (size_t i = 0; i < request->input_count; i++)
        run->inputs[i] = request->inputs[i];
    execution_init(&run->e, &request->limits, request->timeout_ms, request->output_bytes);
    if (id_make(ID_EXECUTION, run->e.id, err) < 0 ||
        capacity_take(request->capacity, &run->seat, &request->limits, err) < 0) {
        run_free(run);
        return -1;
    }
    struct spawn_message m = {.verb = SPAWN_CREATE};
    memcpy(m.create.image, request->image, sizeof(m.create.image));
    memcpy(m.create.packages, request->packages, sizeof(m.create.packages));
    m.create.limits = request->limits;
    m.create.limits.lifetime_ms =
        (uint32_t)MIN(request->timeout_ms + LIFETIME_MARGIN_MS, (uint64_t)INT32_MAX);
    m.create.flags = (request->allow_degraded ? SPAWN_ALLOW_DEGRADED : 0u) |
                     (request->wants_usage ? 0u : SPAWN_UNCOUNTED);
    run->is_creating = true;
    spawner_client_ask(spawner, &m, on_created, run);
    *out = run;
    return 0;
}

void run_free(struct run *run)
{
    if (!run)
        return;
    release_parts(run);
    scoped_close_fd(&run->stdin_fd);
    scoped_close_fd(&run->trust_fd);
    free(run->inputs);
    execution_release(&run->e);
    free(run);
}
