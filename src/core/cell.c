/* cell.c - one execution in a session, as a chain of steps */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cell_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "codec/json.h"
#include "runtime/keeper.h"

#define TICK_MS        1
#define TICKS_MAX      50   /* longer than a tick of any kernel, also a late one */
#define DEATH_MS       500  /* between the end of the channel and the news of how it ended */
#define WATCH_AFTER_MS 1    /* most executions are over by then */
#define PUT_MIN_MS     1000 /* for its files, where the code may have a blink only */
#define ERROR_BODY_MAX (1024 * 1024)

#define SETTING_MAX_BYTES (GUEST_STRINGS_MAX - 64) /* with its name it is one message */

/* --- timers ----------------------------------------------------------------------------------- */

void cell_set_timer(struct cell *c, uint64_t ms, loop_timer_fn fn)
{
    loop_timer_free(c->timer);
    c->timer = fn ? loop_timer_new(c->place.loop, ms, fn, c) : NULL;
}

void cell_stop_timers(struct cell *c)
{
    cell_set_timer(c, 0, NULL);
    loop_timer_free(take_ptr(&c->kill_timer));
    loop_timer_free(take_ptr(&c->watch_timer));
    loop_timer_free(take_ptr(&c->again_timer));
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
    struct cell_record note;
    cell_get_record(c, &note);
    c->is_kept = true;
    keeper_put_noted(c->place.spawner, c->place.sandbox, c->place.label, KEEPER_OUTPUT, fds,
                     ARRAY_LEN(fds), &note, sizeof(note));
}

static void on_watch_time(void *ctx)
{
    struct cell *c = ctx;
    struct error err;
    keep_output(c);
    if (stdio_watch(c->stdio, &err) < 0)
        cell_fail(c, &err);
}

static int send_setting(const struct cell *c, const char *name, const char *value,
                        struct error *err)
{
    scoped_strbuf struct strbuf b;
    strbuf_init(&b, GUEST_STRINGS_MAX);
    strbuf_add(&b, name, strlen(name) + 1);
    strbuf_add_str(&b, value);
    BUG_ON(b.overflow); /* see check_settings() */
    return kernel_send(c->place.kernel, KERNEL_SET, c->place.generation, b.data, b.len, NULL, 0,
                       err);
}

static int send_all(const struct cell *c, const char *name, const char *const *values,
                    struct error *err)
{
    for (; values && *values; values++) {
        if (send_setting(c, name, *values, err) < 0)
            return -1;
    }
    return 0;
}

static int send_settings(const struct cell *c, struct error *err)
{
    const struct cell_request *r = c->request;
    if ((r->language && send_setting(c, "language", r->language, err) < 0) ||
        (r->cwd && send_setting(c, "cwd", r->cwd, err) < 0))
        return -1;
    return send_all(c, "env", r->env, err) < 0 ? -1 : send_all(c, "arg", r->args, err);
}

/* Before the first is sent: a kernel keeps what it was told for the execution that comes. */
static int check_settings(const struct cell_request *r, struct error *err)
{
    const char *const *const lists[] = {r->env, r->args};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        for (const char *const *value = lists[i]; value && *value; value++) {
            if (strlen(*value) > SETTING_MAX_BYTES)
                return error_set(err, ERROR_TOO_LARGE, "'%.40s...' is too long: at most %d bytes",
                                 *value, SETTING_MAX_BYTES);
        }
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
        .pipes = c->request->pipes,
        .is_lazy = true,
        .ended = on_output_ended,
        .ctx = c,
    };
    c->step = CELL_RUN;
    if (stdio_new(&c->stdio, c->place.loop, &order, fds, err) < 0)
        return -1;
    c->start_ns = clock_now_ns();
    c->e.started_ns = clock_wall_ns();
    c->since_ns = clock_file_ns();
    if (c->request->keeps_now)
        keep_output(c); /* and with it the note that this code is about to begin */
    c->is_sent = true;
    int answer = send_settings(c, err);
    if (answer == 0)
        answer = kernel_send(c->place.kernel, KERNEL_EXECUTE, c->place.generation, c->request->code,
                             c->request->code_len, fds, 3, err);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    cell_set_timer(c, c->request->timeout_ms, cell_on_timeout);
    c->watch_timer = loop_timer_new(c->place.loop, WATCH_AFTER_MS, on_watch_time, c);
    loop_expect(c->place.loop);
    c->is_expected = true;
    return answer;
}

static int start_after_tick(struct cell *c, struct error *err);

static void on_tick(void *ctx)
{
    struct cell *c = ctx;
    struct error err;
    if (c->e.facts.is_cancelled) { /* meanwhile */
        cell_finish_unrun(c);
    } else if (start_after_tick(c, &err) < 0) {
        cell_fail(c, &err);
    }
}

/* File times move in ticks of some milliseconds: what changes within that of an earlier execution's
 * last change could not be told from it. Only those wait that come so soon after one with files,
 * and not for ever: the clock may have been set back. */
static int start_after_tick(struct cell *c, struct error *err)
{
    if (!c->request->wants_artifacts || *c->place.newest_ns < clock_file_ns() ||
        c->ticks++ == TICKS_MAX)
        return start(c, err);
    cell_set_timer(c, TICK_MS, on_tick);
    return 0;
}

/* Files have as long as the code, which has its own time after that: what an earlier execution left
 * running can stop the worker that puts them. */
static int put(struct cell *c, struct error *err)
{
    if (c->request->input_count == 0)
        return start_after_tick(c, err);
    c->step = CELL_PUT;
    if (upload_begin(&c->upload, c->place.loop, c->place.guest, c->request->inputs,
                     c->request->input_count, err) < 0)
        return -1;
    c->is_putting = true;
    c->start_ns = clock_now_ns();
    cell_set_timer(c, MAX(c->request->timeout_ms, (uint64_t)PUT_MIN_MS), cell_on_timeout);
    return 0;
}

static bool is_cut(const struct cell *c)
{
    return c->e.facts.is_cancelled || c->e.facts.is_timed_out;
}

static int on_put(struct cell *c, int error, struct error *err)
{
    c->is_putting = false;
    upload_free(take_ptr(&c->upload));
    if (is_cut(c)) { /* meanwhile, and files that did not come are no error then */
        cell_finish_unrun(c);
        return 0;
    }
    if (error)
        return upload_explain(error, "remove files, or raise the disk limit", err);
    return start_after_tick(c, err);
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

static void meet(struct cell *c)
{
    if (c->is_expected)
        loop_met(c->place.loop);
    c->is_expected = false;
}

static void on_done(struct cell *c, const struct frame_message *m)
{
    int32_t code;
    meet(c);
    memcpy(&code, m->body, sizeof(code));
    c->e.facts.has_ended = true;
    c->e.facts.exit_code = code ? code : c->e.facts.has_exception ? 1 : 0;
    c->is_untouched = m->flags & KERNEL_UNTOUCHED;
    cell_begin_finish(c);
}

/* A result is whole when its kernel says so, or when the next one begins. The value of the last
 * expression waits for the end, which is mostly in the same datagram: one look at the output less.
 */
static void on_data(struct cell *c, const struct frame_message *m)
{
    struct result_list *list = &c->e.results;
    if (m->is_dropped) {
        result_list_skip(list, m->flags & KERNEL_FIRST);
        return;
    }
    bool is_kept =
        result_list_add(list, m->flags & KERNEL_FIRST, m->flags & KERNEL_MAIN, m->body, m->len);
    bool is_whole = m->flags & KERNEL_LAST && !(m->flags & KERNEL_MAIN);
    if (is_kept)
        cell_tell_results(c, is_whole ? list->count : list->count - 1);
}

void cell_on_frame(struct cell *c, const struct frame_message *m)
{
    if (c->step != CELL_RUN)
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
    if (c->step == CELL_RUN)
        cell_begin_finish(c);
    else if (c->step == CELL_PUT && is_cut(c))
        cell_finish_unrun(c);
    else if (c->step == CELL_PUT) {
        struct error err;
        error_set(&err, ERROR_UNAVAILABLE, "the interpreter ended before the code began");
        cell_fail(c, &err);
    }
}

static void on_death_late(void *ctx)
{
    kernel_lost(ctx);
}

/* How it ended is told by init; a kernel that lives on with a poisoned channel is killed. */
void cell_on_channel_end(struct cell *c, const char *why)
{
    if (c->step > CELL_RUN || c->kernel_has_exited)
        return;
    if (why)
        snprintf(c->e.facts.runner_fault, sizeof(c->e.facts.runner_fault), "%s", why);
    if (!c->kill_timer)
        cell_kill_now(c);
    cell_set_timer(c, DEATH_MS, on_death_late);
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
    if (!m && c->step <= CELL_RUN) { /* why is told by the spawner, together with the counters */
        c->is_gone = true;
        cell_set_timer(c, DEATH_MS, on_death_late);
    } else if (!m && c->is_collecting) {
        c->is_gone = c->kernel_is_lost = true;
        cell_cut_collect(c);
    } else if (!m) {
        c->is_gone = c->kernel_is_lost = true;
    } else if (m->verb == GUEST_FILES_DONE && c->step == CELL_PUT) {
        if (on_put(c, m->value, &err) < 0)
            cell_fail(c, &err);
    } else if (m->verb == GUEST_FILES_DONE && c->is_collecting) {
        collect_on_worker_done(c->collect, m->value);
    } else if (m->verb == GUEST_EXITED) {
        on_kernel_exit(c, m);
    }
}

void cell_on_over(struct cell *c, const struct spawn_stats *stats)
{
    bool is_first = c->step <= CELL_RUN;
    c->stats = *stats;
    c->stats.is_over = 1;
    c->is_gone = true;
    c->kernel_is_lost = true;
    c->awaits_seal = false;
    if (c->counting) { /* here they are */
        c->counting->cell = NULL;
        c->counting = NULL;
    }
    if (is_first)
        kernel_lost(c);
    else if (c->is_collecting)
        cell_cut_collect(c);
    else
        cell_check_finished(c);
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
    execution_init(&c->e, place->limits, request->timeout_ms, request->output_bytes);
    c->e.layers = place->sealed->layers;
    c->e.results.budget = kernel_answers();
    return c;
}

static int name(struct cell *c, struct error *err)
{
    if (!c->request->id)
        return id_make(ID_EXECUTION, c->e.id, err);
    snprintf(c->e.id, sizeof(c->e.id), "%s", c->request->id);
    return 0;
}

int cell_begin(struct cell **out, const struct cell_place *place,
               const struct cell_request *request, const struct cell_events *events,
               struct error *err)
{
    struct cell *c = make(place, request, events);
    c->stdin_fd = request->stdin_fd;
    if (name(c, err) < 0 || check_settings(request, err) < 0 || put(c, err) < 0) {
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
        .timeout_ms = c->request->timeout_ms <= UINT32_MAX ? (uint32_t)c->request->timeout_ms : 0,
        .created_ns = c->e.created_ns,
        .started_ns = c->e.started_ns,
        .start_ns = c->start_ns,
        .since_ns = c->since_ns,
        .told = {c->e.out.total, c->e.err.total},
        .told_results = (uint32_t)c->told_results,
        .output_bytes =
            c->request->output_bytes <= UINT32_MAX ? (uint32_t)c->request->output_bytes : 0,
    };
    memcpy(out->id, c->e.id, sizeof(out->id));
}

uint32_t cell_generation(const struct cell *c)
{
    return c->place.generation;
}

bool cell_is_held(const struct cell *c)
{
    return c->request->is_held;
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
    c->place.generation = r->generation; /* others may have been sent after it */
    memcpy(c->e.id, r->id, sizeof(c->e.id));
    c->e.created_ns = r->created_ns;
    c->e.started_ns = r->started_ns;
    c->start_ns = r->start_ns;
    c->since_ns = r->since_ns;
    c->told_results = r->told_results;
    c->is_sent = true;
    c->step = CELL_RUN;
    if (adopt_output(c, r, output, err) < 0) {
        cell_free(c);
        return -1;
    }
    /* One that is over has no time left, and its interpreter is another, which has it to answer. */
    int64_t since_ns = r->generation ? r->start_ns : clock_now_ns();
    uint64_t ran_ms = (uint64_t)MAX(clock_now_ns() - since_ns, 0) / 1000000;
    cell_set_timer(c, cell_minus(request->timeout_ms, ran_ms), cell_on_timeout);
    *out = c;
    return 0;
}

void cell_on_synced(struct cell *c)
{
    if (c->step != CELL_RUN)
        return;
    result_list_release(&c->e.results);
    exception_release(&c->e.exception);
    c->e.facts.has_exception = false;
}

void cell_lose_unbegun(struct cell *c)
{
    struct error err;
    if (c->e.facts.is_cancelled) {  /* meanwhile */
        c->has_lost_output = false; /* there was none */
        cell_finish_unrun(c);
        return;
    }
    error_set(&err, ERROR_UNAVAILABLE, "the host ended before the code began");
    c->e.is_unbegun = true;
    cell_fail(c, &err);
}

/* Never once more, whatever it was: it has run. */
void cell_lose_ended(struct cell *c)
{
    struct error err;
    if (c->stdio)
        stdio_read_now(c->stdio);
    error_set(&err, ERROR_UNAVAILABLE, "the host ended before the end of the code was known");
    cell_fail(c, &err);
}

bool cell_is_sent(const struct cell *c)
{
    return c->is_sent;
}

void cell_free(struct cell *c)
{
    if (!c)
        return;
    meet(c);
    if (c->counting)
        c->counting->cell = NULL;
    if (c->culling)
        c->culling->cell = NULL;
    cell_stop_timers(c);
    upload_free(c->upload);
    collect_free(c->collect);
    stdio_free(c->stdio);
    scoped_close_fd(&c->stdin_fd);
    execution_release(&c->e);
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
