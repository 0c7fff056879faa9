/* cell.c - one execution in a session, as a chain of steps */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "codec/json.h"
#include "core/collect.h"
#include "core/upload.h"
#include "runtime/keeper.h"

#define INTERRUPT_GRACE_MS 120 /* for a time limit: SIGINT first, so that the state may live on */
#define CANCEL_GRACE_MS    1000
#define TICK_MS            1
#define TICKS_MAX          20 /* more than any kernel's tick has; a clock may have been set back */
#define AGAIN_MS           40 /* before an interrupt that may have been missed is sent again */
#define YOUNG_NS           50000000 /* code that has perhaps not begun */
#define DEATH_MS           500 /* between the end of the channel and the news of how it ended */
#define COLLECT_MS         10000
#define WATCH_AFTER_MS     1 /* most executions are over by then */
#define ERROR_BODY_MAX     (1024 * 1024)
/* For cove-init to kill. A bomb inside may keep it from its turn for some hundred milliseconds:
 * then the spawner does it, and when it cannot, at last kills all, and the files with it. */
#define CULL_AFTER_MS 25
#define KILL_GRACE_MS 1000

enum step { STEP_PUT, STEP_RUN, STEP_FINISH, STEP_OVER };

/* A question to the spawner, which may outlive the cell that asked it. */
struct count {
    struct cell *cell; /* NULL: it is gone */
};

struct cell {
    struct execution e;
    struct cell_place place;
    const struct cell_request *request;
    struct cell_events events;

    enum step step;
    struct upload *upload;
    struct stdio *stdio;
    struct collect *collect;
    struct loop_timer *timer; /* of the step */
    struct loop_timer *kill_timer;
    struct loop_timer *again_timer; /* an interrupt is sent once more */
    struct loop_timer *watch_timer; /* before its output is streamed */
    struct spawn_stats stats;
    int64_t start_ns; /* monotonic */
    int64_t since_ns; /* files changed from here on are the execution's */
    unsigned interrupts;
    int stdin_fd;        /* until the code starts */
    size_t told_results; /* of those in the list, or that come again */
    unsigned ticks;
    bool is_collecting;
    struct count *counting; /* the spawner owes us the counters */
    struct count *culling;  /* and this the end of all that runs */
    bool kernel_is_lost;
    bool kernel_has_exited; /* and init said how */
    bool is_gone;           /* there is no init to ask any more */
    bool is_kept;           /* the spawner holds its output */
    bool has_lost_output;   /* with the host before */
};

/* --- ends ------------------------------------------------------------------------------------ */

static void set_timer(struct cell *c, uint64_t ms, loop_timer_fn fn)
{
    loop_timer_free(c->timer);
    c->timer = fn ? loop_timer_new(c->place.loop, ms, fn, c) : NULL;
}

static uint64_t minus(uint64_t now, uint64_t before)
{
    return now - MIN(now, before);
}

/* The counters are those of the sandbox; an execution answers for what was added to them. */
static void attribute(struct cell *c)
{
    struct spawn_stats *s = &c->e.facts.stats;
    const struct spawn_stats *before = c->place.before;
    *s = c->stats;
    s->cpu_us = minus(s->cpu_us, before->cpu_us);
    s->oom_kills = (uint32_t)minus(s->oom_kills, before->oom_kills);
    s->pids_refused = (uint32_t)minus(s->pids_refused, before->pids_refused);
}

static void finish(struct cell *c)
{
    struct execution *e = &c->e;
    c->step = STEP_OVER;
    set_timer(c, 0, NULL);
    loop_timer_free(take_ptr(&c->kill_timer));
    loop_timer_free(take_ptr(&c->watch_timer));
    loop_timer_free(take_ptr(&c->again_timer));
    upload_free(take_ptr(&c->upload));
    collect_free(take_ptr(&c->collect));
    e->ended_ns = clock_wall_ns();
    attribute(c);
    if (c->has_lost_output && !e->error.msg[0])
        error_set(&e->error, ERROR_UNAVAILABLE,
                  "its output was lost with the process that read it");
    if (e->error.msg[0]) {
        e->verdict = (struct verdict){.state = EXECUTION_LOST, .kind = REASON_INFRASTRUCTURE};
        snprintf(e->verdict.message, sizeof(e->verdict.message), "%.255s", e->error.msg);
        snprintf(e->verdict.hint, sizeof(e->verdict.hint), "%s", e->error.hint);
    } else {
        verdict_reach(&e->verdict, &e->facts);
    }
    c->events.ended(c->events.ctx, c);
}

static void check_finished(struct cell *c)
{
    if (c->step == STEP_FINISH && !c->is_collecting && !c->counting)
        finish(c);
}

static void fail(struct cell *c, const struct error *err)
{
    if (c->e.error.msg[0] == '\0')
        c->e.error = *err;
    if (c->step != STEP_OVER)
        finish(c);
}

/* --- after the code: counters and artifacts, side by side ------------------------------------- */

static void on_stats(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    (void)err;
    scoped_free struct count *count = ctx;
    struct cell *c = count->cell;
    if (!c)
        return;
    c->counting = NULL;
    if (m)
        c->stats = m->stats;
    check_finished(c);
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
    check_finished(c);
}

static void on_collect_late(void *ctx)
{
    struct cell *c = ctx;
    c->e.artifacts.is_cut = true;
    on_collected(c);
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
    set_timer(c, COLLECT_MS, on_collect_late);
}

/* Tells the results below `end`, after what was printed before them. */
static void tell_results(struct cell *c, size_t end)
{
    if (!c->events.told->result || c->told_results >= end)
        return;
    if (c->stdio)
        stdio_read_now(c->stdio);
    while (c->told_results < end)
        c->events.told->result(c->events.told_ctx, &c->e.results.items[c->told_results++]);
}

/* The code is over, in whichever way. */
static void begin_finish(struct cell *c)
{
    struct execution *e = &c->e;
    c->step = STEP_FINISH;
    set_timer(c, 0, NULL);
    loop_timer_free(take_ptr(&c->kill_timer));
    loop_timer_free(take_ptr(&c->watch_timer));
    loop_timer_free(take_ptr(&c->again_timer));
    e->duration_ms = (double)(clock_now_ns() - c->start_ns) / 1e6;
    e->facts.duration_ms = (uint64_t)e->duration_ms;
    if (c->stdio)
        stdio_read_now(c->stdio);
    tell_results(c, c->e.results.count);
    if (c->request->wants_artifacts && !c->is_gone)
        begin_collect(c);
    /* A kernel that died may have met a limit, which only the counters tell. */
    if ((c->request->wants_usage || c->kernel_is_lost) && !c->stats.is_over)
        begin_count(c);
    check_finished(c);
}

/* --- cutting it short ------------------------------------------------------------------------ */

static void on_kill_late(void *ctx)
{
    struct cell *c = ctx;
    struct spawn_message m = {.verb = SPAWN_KILL, .sandbox = c->place.sandbox};
    struct count *nobody = xcalloc(1, sizeof(*nobody));
    spawner_client_ask(c->place.spawner, &m, on_stats, nobody);
}

/* What was killed may take its time to die, but does nothing any more. */
static void on_culled(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    (void)err;
    scoped_free struct count *count = ctx;
    struct cell *c = count->cell;
    if (!c)
        return;
    c->culling = NULL;
    if (m && c->step == STEP_RUN)
        begin_finish(c);
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

static void kill_now(struct cell *c)
{
    if (c->step > STEP_RUN || (c->kill_timer && c->kernel_is_lost))
        return;
    c->kernel_is_lost = true;
    guest_kill(c->place.guest);
    loop_timer_free(c->kill_timer);
    c->kill_timer = loop_timer_new(c->place.loop, CULL_AFTER_MS, on_cull_time, c);
}

void cell_kill(struct cell *c)
{
    c->e.facts.is_cancelled = true;
    kill_now(c);
}

/* Interrupts can be missed: by code that had not begun yet, and by interpreters of the plain form,
 * which have such moments at any time. */
static void interrupt(struct cell *c);

static void on_again(void *ctx)
{
    struct cell *c = ctx;
    if (c->step == STEP_RUN)
        interrupt(c);
}

static void interrupt(struct cell *c)
{
    bool is_young = clock_now_ns() - c->start_ns < YOUNG_NS;
    guest_signal(c->place.guest, SIGINT);
    loop_timer_free(take_ptr(&c->again_timer));
    if (is_young || c->place.is_plain)
        c->again_timer = loop_timer_new(c->place.loop, AGAIN_MS, on_again, c);
}

static void on_grace_over(void *ctx)
{
    kill_now(ctx);
}

static void interrupt_then_kill(struct cell *c, uint64_t grace_ms)
{
    if (c->step > STEP_RUN || c->kill_timer)
        return;
    interrupt(c);
    c->kill_timer = loop_timer_new(c->place.loop, grace_ms, on_grace_over, c);
}

static void on_timeout(void *ctx)
{
    struct cell *c = ctx;
    c->e.facts.is_timed_out = true;
    interrupt_then_kill(c, INTERRUPT_GRACE_MS);
}

void cell_interrupt(struct cell *c)
{
    c->e.facts.is_cancelled = true;
    if (c->interrupts++ > 0)
        cell_kill(c);
    else if (c->step == STEP_RUN)
        interrupt(c);
}

void cell_cancel(struct cell *c)
{
    c->e.facts.is_cancelled = true;
    interrupt_then_kill(c, CANCEL_GRACE_MS);
}

/* --- running --------------------------------------------------------------------------------- */

static void on_output(void *ctx, enum execution_stream stream, const void *data, size_t len)
{
    struct cell *c = ctx;
    c->events.told->output(c->events.told_ctx, stream, data, len);
}

/* Before its DONE, that is no news: the code may have closed them. */
static void on_output_ended(void *ctx)
{
    (void)ctx;
}

/* Without the files it runs as well, and only its output would be lost with this process. */
static void keep_output(struct cell *c)
{
    int fds[STDIO_KEPT_FDS];
    struct error ignored;
    if (!c->place.label || c->is_kept ||
        stdio_keep(c->stdio, c->request->output_bytes, fds, &ignored) < 0)
        return;
    c->is_kept = true;
    keeper_put(c->place.spawner, c->place.sandbox, c->place.label, KEEPER_OUTPUT, fds,
               ARRAY_LEN(fds));
}

static void on_watch_time(void *ctx)
{
    struct cell *c = ctx;
    struct error err;
    keep_output(c);
    if (stdio_watch(c->stdio, &err) < 0)
        fail(c, &err);
}

static int send_setting(const struct cell *c, const char *name, const char *value,
                        struct error *err)
{
    scoped_strbuf struct strbuf b;
    strbuf_init(&b, GUEST_STRINGS_MAX);
    strbuf_add(&b, name, strlen(name) + 1);
    strbuf_add_str(&b, value);
    if (b.overflow)
        return error_set(err, ERROR_TOO_LARGE, "'%.40s' is too long", value);
    return kernel_send(c->place.kernel, KERNEL_SET, c->place.generation, b.data, b.len, NULL, 0,
                       err);
}

static int send_settings(const struct cell *c, struct error *err)
{
    if (c->request->language && send_setting(c, "language", c->request->language, err) < 0)
        return -1;
    for (const char *const *env = c->request->env; env && *env; env++) {
        if (send_setting(c, "env", *env, err) < 0)
            return -1;
    }
    return 0;
}

static int start(struct cell *c, struct error *err)
{
    int fds[3];
    const struct stdio_order order = {
        .stdin_fd = take_fd(&c->stdin_fd),
        .outputs = {&c->e.out, &c->e.err},
        .output = c->events.told->output ? on_output : NULL,
        .is_lazy = true,
        .ended = on_output_ended,
        .ctx = c,
    };
    c->step = STEP_RUN;
    if (stdio_new(&c->stdio, c->place.loop, &order, fds, err) < 0)
        return -1;
    if (c->request->keeps_now)
        keep_output(c);
    c->start_ns = clock_now_ns();
    c->e.started_ns = clock_wall_ns();
    c->since_ns = clock_file_ns();
    int answer = send_settings(c, err);
    if (answer == 0)
        answer = kernel_send(c->place.kernel, KERNEL_EXECUTE, c->place.generation, c->request->code,
                             c->request->code_len, fds, 3, err);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    set_timer(c, c->request->timeout_ms, on_timeout);
    c->watch_timer = loop_timer_new(c->place.loop, WATCH_AFTER_MS, on_watch_time, c);
    return answer;
}

static int start_after_tick(struct cell *c, struct error *err);

static void on_tick(void *ctx)
{
    struct cell *c = ctx;
    struct error err;
    if (c->e.facts.is_cancelled) { /* meanwhile */
        c->step = STEP_FINISH;
        check_finished(c);
    } else if (start_after_tick(c, &err) < 0) {
        fail(c, &err);
    }
}

/* File times move in ticks of some milliseconds: what changes within that of an earlier execution's
 * last change could not be told from it. Only those wait that come so soon after one with files. */
static int start_after_tick(struct cell *c, struct error *err)
{
    if (!c->request->wants_artifacts || *c->place.newest_ns < clock_file_ns() ||
        c->ticks++ == TICKS_MAX)
        return start(c, err);
    set_timer(c, TICK_MS, on_tick);
    return 0;
}

static int put(struct cell *c, struct error *err)
{
    int fds[2];
    if (c->request->input_count == 0)
        return start_after_tick(c, err);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_sys(err, "make pipe");
    scoped_fd int theirs = fds[0];
    scoped_fd int ours = fds[1];
    c->step = STEP_PUT;
    if (guest_files(c->place.guest, GUEST_FILES_PUT, theirs, theirs, 0, err) < 0)
        return -1;
    return upload_new(&c->upload, c->place.loop, c->request->inputs, c->request->input_count,
                      take_fd(&ours), err);
}

static int on_put(struct cell *c, int error, struct error *err)
{
    upload_free(take_ptr(&c->upload));
    if (error) {
        errno = error;
        error_sys(err, "put the files into the workspace");
        if (error == ENOSPC)
            error_hint(err, "remove files, or raise the disk limit");
        return -1;
    }
    if (c->e.facts.is_cancelled) { /* meanwhile */
        c->step = STEP_FINISH;
        check_finished(c);
        return 0;
    }
    return start(c, err);
}

/* --- what is heard --------------------------------------------------------------------------- */

static char *take_text(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return xstrdup(json_is_string(value) ? json_string_value(value) : "");
}

/* Anything that is no such object is an exception, too: one without words. */
static void on_exception(struct cell *c, const struct frame_message *m)
{
    struct error err;
    scoped_json json_t *value = NULL;
    const struct json_limits limits = {.max_bytes = ERROR_BODY_MAX};
    exception_release(&c->e.exception);
    if (json_parse(&value, m->body, m->len, &limits, &err) < 0)
        value = json_object();
    c->e.exception = (struct exception){.name = take_text(value, "name"),
                                        .value = take_text(value, "value"),
                                        .traceback = take_text(value, "traceback")};
    c->e.facts.has_exception = true;
    snprintf(c->e.facts.exception, sizeof(c->e.facts.exception), "%s", c->e.exception.name);
}

static void on_done(struct cell *c, const struct frame_message *m)
{
    int32_t code;
    memcpy(&code, m->body, sizeof(code));
    c->e.facts.has_ended = true;
    c->e.facts.exit_code = code ? code : c->e.facts.has_exception ? 1 : 0;
    begin_finish(c);
}

/* A result is whole when its kernel says so, or when the next one begins. The value of the last
 * expression waits for the end, which is mostly in the same datagram: one look at the output less.
 */
static void on_data(struct cell *c, const struct frame_message *m)
{
    struct result_list *list = &c->e.results;
    bool is_kept =
        result_list_add(list, m->flags & KERNEL_FIRST, m->flags & KERNEL_MAIN, m->body, m->len);
    bool is_whole = m->flags & KERNEL_LAST && !(m->flags & KERNEL_MAIN);
    if (is_kept)
        tell_results(c, is_whole ? list->count : list->count - 1);
}

void cell_on_frame(struct cell *c, const struct frame_message *m)
{
    if (c->step != STEP_RUN)
        return;
    switch (m->type) {
    case KERNEL_DATA:
        on_data(c, m);
        break;
    case KERNEL_ERROR:
        on_exception(c, m);
        break;
    case KERNEL_DONE:
        on_done(c, m);
        break;
    default:
        break;
    }
}

static void kernel_lost(struct cell *c)
{
    c->kernel_is_lost = true;
    if (c->step == STEP_RUN)
        begin_finish(c);
    else if (c->step == STEP_PUT) {
        struct error err;
        error_set(&err, ERROR_UNAVAILABLE, "the interpreter ended before the code began");
        fail(c, &err);
    }
}

static void on_death_late(void *ctx)
{
    kernel_lost(ctx);
}

/* How it ended is told by init; a kernel that lives on with a poisoned channel is killed. */
void cell_on_channel_end(struct cell *c, const char *why)
{
    if (c->step > STEP_RUN || c->kernel_has_exited)
        return;
    if (why)
        snprintf(c->e.facts.runner_fault, sizeof(c->e.facts.runner_fault), "%s", why);
    if (!c->kill_timer)
        kill_now(c);
    set_timer(c, DEATH_MS, on_death_late);
}

/* After its DONE that is no part of the execution any more. */
static void on_kernel_exit(struct cell *c, const struct guest_message *m)
{
    c->kernel_has_exited = true;
    if (!c->e.facts.has_ended) {
        c->e.facts.runner_has_exited = true;
        c->e.facts.exit_code = m->exit_code;
        c->e.facts.signal = m->signal;
    }
    if (!c->is_collecting)
        guest_kill(c->place.guest); /* what it left running; the session does it again */
    kernel_lost(c);
}

void cell_on_guest(struct cell *c, const struct guest_message *m)
{
    struct error err;
    if (!m && c->step <= STEP_RUN) { /* why is told by the spawner, together with the counters */
        c->is_gone = true;
        set_timer(c, DEATH_MS, on_death_late);
    } else if (!m && c->is_collecting) {
        c->is_gone = c->kernel_is_lost = true;
        on_collect_late(c);
    } else if (!m) {
        c->is_gone = c->kernel_is_lost = true;
    } else if (m->verb == GUEST_FILES_DONE && c->step == STEP_PUT) {
        if (on_put(c, m->value, &err) < 0)
            fail(c, &err);
    } else if (m->verb == GUEST_FILES_DONE && c->is_collecting) {
        collect_on_worker_done(c->collect, m->value);
    } else if (m->verb == GUEST_EXITED) {
        on_kernel_exit(c, m);
    }
}

void cell_on_over(struct cell *c, const struct spawn_stats *stats)
{
    bool is_first = c->step <= STEP_RUN;
    c->stats = *stats;
    c->stats.is_over = 1;
    c->is_gone = true;
    c->kernel_is_lost = true;
    if (c->counting) { /* here they are */
        c->counting->cell = NULL;
        c->counting = NULL;
    }
    if (is_first)
        kernel_lost(c);
    else if (c->is_collecting)
        on_collect_late(c);
    else
        check_finished(c);
}

/* --- life ------------------------------------------------------------------------------------ */

static struct cell *make(const struct cell_place *place, const struct cell_request *request,
                         const struct cell_events *events)
{
    struct cell *c = xcalloc(1, sizeof(*c));
    c->place = *place;
    c->request = request;
    c->events = *events;
    c->stats = *place->before;
    c->stdin_fd = -1;
    c->e.created_ns = clock_wall_ns();
    c->e.layers = place->layers;
    c->e.facts.limits = *place->limits;
    c->e.facts.timeout_ms = request->timeout_ms;
    output_init(&c->e.out, request->output_bytes);
    output_init(&c->e.err, request->output_bytes);
    return c;
}

int cell_begin(struct cell **out, const struct cell_place *place,
               const struct cell_request *request, const struct cell_events *events,
               struct error *err)
{
    struct cell *c = make(place, request, events);
    c->stdin_fd = request->stdin_fd;
    if (id_make(ID_EXECUTION, c->e.id, err) < 0 || put(c, err) < 0) {
        cell_free(c);
        return -1;
    }
    *out = c;
    return 0;
}

void cell_get_record(const struct cell *c, struct cell_record *out)
{
    *out = (struct cell_record){
        .generation = c->place.generation,
        .created_ns = c->e.created_ns,
        .started_ns = c->e.started_ns,
        .start_ns = c->start_ns,
        .since_ns = c->since_ns,
        .told = {c->e.out.total, c->e.err.total},
        .told_results = c->told_results,
    };
    memcpy(out->id, c->e.id, sizeof(out->id));
}

bool cell_is_kept(const struct cell *c)
{
    return c->is_kept;
}

static int adopt_output(struct cell *c, const struct cell_record *r, const int *output,
                        struct error *err)
{
    const struct stdio_order order = {
        .stdin_fd = -1,
        .outputs = {&c->e.out, &c->e.err},
        .output = c->events.told->output ? on_output : NULL,
        .ended = on_output_ended,
        .ctx = c,
    };
    if (!output) {
        c->has_lost_output = true;
        return 0;
    }
    c->is_kept = true;
    return stdio_adopt(&c->stdio, c->place.loop, &order, c->request->output_bytes, output, r->told,
                       err);
}

int cell_resume(struct cell **out, const struct cell_place *place,
                const struct cell_request *request, const struct cell_record *r, const int *output,
                const struct cell_events *events, struct error *err)
{
    struct cell *c = make(place, request, events);
    memcpy(c->e.id, r->id, sizeof(c->e.id));
    c->e.created_ns = r->created_ns;
    c->e.started_ns = r->started_ns;
    c->start_ns = r->start_ns;
    c->since_ns = r->since_ns;
    c->told_results = r->told_results;
    c->step = STEP_RUN;
    if (adopt_output(c, r, output, err) < 0) {
        cell_free(c);
        return -1;
    }
    uint64_t ran_ms = (uint64_t)MAX(clock_now_ns() - r->start_ns, 0) / 1000000;
    set_timer(c, minus(request->timeout_ms, ran_ms), on_timeout);
    *out = c;
    return 0;
}

void cell_on_synced(struct cell *c)
{
    if (c->step != STEP_RUN)
        return;
    result_list_release(&c->e.results);
    exception_release(&c->e.exception);
    c->e.facts.has_exception = false;
}

void cell_lose(struct cell *c, const struct error *why)
{
    fail(c, why);
}

void cell_free(struct cell *c)
{
    if (!c)
        return;
    if (c->counting)
        c->counting->cell = NULL;
    if (c->culling)
        c->culling->cell = NULL;
    loop_timer_free(c->timer);
    loop_timer_free(c->kill_timer);
    loop_timer_free(c->watch_timer);
    loop_timer_free(c->again_timer);
    upload_free(c->upload);
    collect_free(c->collect);
    stdio_free(c->stdio);
    scoped_close_fd(&c->stdin_fd);
    result_list_release(&c->e.results);
    exception_release(&c->e.exception);
    artifact_list_release(&c->e.artifacts);
    output_release(&c->e.out);
    output_release(&c->e.err);
    free(c);
}

const struct execution *cell_execution(const struct cell *c)
{
    return &c->e;
}

const struct spawn_stats *cell_stats(const struct cell *c)
{
    return &c->stats;
}

bool cell_lost_kernel(const struct cell *c)
{
    return c->kernel_is_lost;
}

struct stdio *cell_take_stdio(struct cell *c)
{
    return c->stdio && !stdio_has_ended(c->stdio) ? take_ptr(&c->stdio) : NULL;
}
