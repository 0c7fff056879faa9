/* session.c - the life of a session: its sandbox, its kernel, and who may use it when */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session_inside.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "codec/json.h"
#include "runtime/keeper.h"

#define START_WORDS_MAX   4096 /* kept of what it prints until then */
#define QUESTION_MS       5000
#define QUESTION_GRACE_MS 1000
#define ANSWER_MAX        (17 * MIB)
#define ACK_BYTES         (64 * KIB)
#define CHANNEL_BUFFER    (1024 * 1024)

static void start_kernel(struct session *s);
static void refuse_all(struct session *s, const char *why);

static const char *const state_names[] = {
    [SESSION_CREATING] = "creating",
    [SESSION_READY] = "ready",
    [SESSION_BUSY] = "busy",
    [SESSION_FAILED] = "failed",
    [SESSION_TERMINATING] = "terminating",
    [SESSION_TERMINATED] = "terminated",
};

const char *session_state_name(enum session_state state)
{
    return state_names[state];
}

const struct session_info *session_info(const struct session *s)
{
    return &s->info;
}

/* --- states ---------------------------------------------------------------------------------- */

void session_set_timer(struct session *s, uint64_t ms, loop_timer_fn fn)
{
    loop_timer_free(s->timer);
    s->timer = fn ? loop_timer_new(s->loop, ms, fn, s) : NULL;
}

static void on_idle(void *ctx)
{
    session_close(ctx);
}

static void on_unused(void *ctx)
{
    session_freeze(ctx);
}

void session_enter(struct session *s, enum session_state state)
{
    bool is_ready = state == SESSION_READY;
    s->info.state = state;
    bool is_unused = is_ready || state == SESSION_FAILED;
    if (is_unused)
        capacity_settle(&s->seat);
    session_set_timer(s, s->template->idle_ms, is_unused && s->template->idle_ms ? on_idle : NULL);
    loop_timer_free(take_ptr(&s->freeze_timer));
    if (is_ready && s->template->idle_freeze_ms)
        s->freeze_timer = loop_timer_new(s->loop, s->template->idle_freeze_ms, on_unused, s);
    if (state < SESSION_TERMINATING) /* else it is killed as it is */
        session_thaw(s);
}

void session_tell(struct session *s)
{
    s->events->changed(s->ctx, s);
}

void session_drop_kernel(struct session *s)
{
    fork_end_family(s, "its interpreter was lost, or started anew, since it was opened");
    kernel_free(take_ptr(&s->kernel));
    stdio_free(take_ptr(&s->startup));
    s->is_syncing = false; /* the next one is ours from its first frame on */
}

/* --- for the next host ---------------------------------------------------------------------- */

static void keep_channel(struct session *s)
{
    if (!s->is_kept || !s->sandbox || !s->kernel)
        return;
    const int fd = kernel_fd(s->kernel);
    keeper_put(s->spawner, s->sandbox, s->label, KEEPER_CHANNEL, &fd, 1);
}

int session_open_kernel(struct session *s, int fd, struct error *err)
{
    if (kernel_open(&s->kernel, s->loop, fd, session_on_frame, s, err) < 0)
        return -1;
    keep_channel(s);
    return 0;
}

void session_keep(struct session *s, const uint8_t label[SPAWN_LABEL_BYTES])
{
    s->is_kept = true;
    memcpy(s->label, label, sizeof(s->label));
    keep_channel(s);
}

void session_get_record(const struct session *s, struct session_record *out)
{
    *out = (struct session_record){
        .sandbox = s->sandbox,
        .generation = s->generation,
        .created_ns = s->info.created_ns,
        .last_used_ns = s->info.last_used_ns,
        .create_ms = s->info.create_ms,
        .before = s->before,
        .newest_ns = s->newest_ns,
        .last_number = s->last_number,
        .has_execution = s->cell != NULL,
    };
    memcpy(out->id, s->info.id, sizeof(out->id));
    memcpy(out->label, s->label, sizeof(out->label));
    if (s->cell)
        cell_get_record(s->cell, &out->execution);
}

void session_detach(struct session *s, struct session_record *out)
{
    session_get_record(s, out);
    session_free(s);
}

/* --- freezing -------------------------------------------------------------------------------- */

/* Who asks the spawner may be gone when the answer comes. */
static void on_frozen(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)ctx;
    (void)m;
    (void)fds;
    (void)err;
}

static void ask_freezer(struct session *s, enum spawn_verb verb)
{
    struct spawn_message m = {.verb = (uint16_t)verb, .sandbox = s->sandbox};
    spawner_client_ask(s->spawner, &m, on_frozen, NULL);
}

/* A host that cannot freeze leaves it running, which is no harm; the thaw is sent all the same, in
 * front of whatever wakes it. */
void session_freeze(struct session *s)
{
    if (s->info.state != SESSION_READY || s->info.is_frozen || !s->sandbox)
        return;
    s->info.is_frozen = true;
    ask_freezer(s, SPAWN_FREEZE);
}

void session_thaw(struct session *s)
{
    if (!s->info.is_frozen)
        return;
    s->info.is_frozen = false;
    if (s->sandbox)
        ask_freezer(s, SPAWN_THAW);
}

bool session_is_ending(const struct session *s)
{
    return s->info.state >= SESSION_TERMINATING;
}

/* What waits was meant for the variables that are lost. A reset that was asked for keeps it. */
static void refuse_failed(struct session *s)
{
    if (s->info.state == SESSION_FAILED && !s->wants_reset)
        refuse_all(s, s->info.error.msg);
}

/* The interpreter is gone; the workspace is not, as long as there is a sandbox. */
void session_fail(struct session *s, const struct error *err)
{
    if (session_is_ending(s))
        return;
    s->info.error = *err;
    session_drop_kernel(s);
    fork_release(s);
    session_enter(s, SESSION_FAILED);
    checkpoint_abort(s, err);
    session_tell(s);
    refuse_failed(s);
}

/* --- questions ------------------------------------------------------------------------------- */

static void end_question(struct session *s, const struct error *err)
{
    struct question *q = &s->question;
    session_answer_fn fn = q->fn;
    scoped_strbuf struct strbuf body = q->body;
    const struct error *why = q->error.msg[0] ? &q->error : err; /* what came first explains it */
    struct error local;
    if (!why && !q->is_answered) {
        error_set(&local, ERROR_UNAVAILABLE, "the interpreter gave no answer");
        why = &local;
    }
    q->fn = NULL;
    q->body = (struct strbuf){0};
    fn(q->ctx, why ? NULL : strbuf_str(&body), why ? 0 : body.len, why);
}

static void on_question_stuck(void *ctx)
{
    struct session *s = ctx;
    guest_kill(s->guest); /* the end of the kernel follows */
}

static void on_question_late(void *ctx)
{
    struct session *s = ctx;
    error_set(&s->question.error, ERROR_TIMEOUT, "the interpreter did not answer within %d s",
              QUESTION_MS / 1000);
    guest_signal(s->guest, SIGINT);
    session_set_timer(s, QUESTION_GRACE_MS, on_question_stuck);
}

void session_expect_answer(struct session *s)
{
    session_set_timer(s, QUESTION_MS, on_question_late);
}

static void take_refusal(struct question *q, const struct frame_message *m)
{
    struct error err;
    scoped_json json_t *value = NULL;
    const struct json_limits limits = {.max_bytes = ANSWER_MAX};
    if (q->error.msg[0])
        return;
    if (json_parse(&value, m->body, m->len, &limits, &err) < 0)
        value = json_object();
    const char *name = json_string_value(json_object_get(value, "name"));
    const char *text = json_string_value(json_object_get(value, "value"));
    bool is_unknown = name && strcmp(name, "NameError") == 0;
    error_set(&q->error, is_unknown ? ERROR_NOT_FOUND : ERROR_INVALID, "%.60s: %.300s",
              name ? name : "error", text ? text : "");
}

static void question_on_frame(struct session *s, const struct frame_message *m)
{
    struct question *q = &s->question;
    switch (m->type) {
    case KERNEL_REPLY:
    case KERNEL_DATA:
        if (q->is_answered)
            return; /* the first form is the one */
        q->is_answered = true;
        strbuf_add(&q->body, m->body, m->len);
        break;
    case KERNEL_ERROR:
        take_refusal(q, m);
        break;
    case KERNEL_DONE:
        session_enter(s, SESSION_READY);
        end_question(s, NULL);
        session_begin_next(s);
        break;
    default:
        break;
    }
}

static int ask(struct session *s, enum kernel_frame_type question, const void *body, size_t len,
               const int *fds, size_t fd_count, session_answer_fn fn, void *ctx, struct error *err)
{
    if (s->info.state != SESSION_READY)
        return error_set(err, ERROR_CONFLICT, "the session is %s", state_names[s->info.state]);
    if (kernel_send(s->kernel, question, ++s->generation, body, len, fds, fd_count, err) < 0)
        return -1;
    s->question = (struct question){.fn = fn, .ctx = ctx};
    strbuf_init(&s->question.body, ANSWER_MAX);
    session_enter(s, SESSION_BUSY);
    session_expect_answer(s);
    return 0;
}

int session_ask(struct session *s, enum kernel_frame_type question, const void *body, size_t len,
                session_answer_fn fn, void *ctx, struct error *err)
{
    return ask(s, question, body, len, NULL, 0, fn, ctx, err);
}

int session_ask_with(struct session *s, enum kernel_frame_type question, const int *fds,
                     size_t fd_count, session_answer_fn fn, void *ctx, struct error *err)
{
    return ask(s, question, NULL, 0, fds, fd_count, fn, ctx, err);
}

/* --- executions ------------------------------------------------------------------------------ */

static void on_late_ended(void *ctx)
{
    struct late *late = ctx;
    stdio_free(take_ptr(&late->stdio));
}

/* Children of the execution still hold its pipes: what they print from now on is dropped, and the
 * oldest of too many lose theirs. */
static void keep_late(struct session *s, struct stdio *stdio)
{
    struct error err;
    if (!stdio)
        return;
    struct late *late = &s->late[s->next_late++ % SESSION_LATE_MAX];
    stdio_free(late->stdio);
    *late = (struct late){.session = s, .stdio = stdio};
    stdio_discard(stdio, late, on_late_ended);
    if (stdio_watch(stdio, &err) < 0)
        on_late_ended(late);
}

/* A new interpreter, now or when the old one's end is told. */
static void restart(struct session *s)
{
    session_drop_kernel(s);
    guest_kill(s->guest);
    if (!s->kernel_runs) {
        start_kernel(s);
        return;
    }
    session_enter(s, SESSION_CREATING);
    session_set_timer(s, SESSION_START_MS, session_on_start_late);
}

static void on_cell_ended(void *ctx, struct cell *c)
{
    struct session *s = ctx;
    struct error ignored;
    const struct execution_events *told = s->told;
    void *told_ctx = s->told_ctx;
    bool is_lost = cell_lost_kernel(c);
    uint32_t generation = s->generation;
    s->cell = NULL;
    s->before = *cell_stats(c);
    s->info.last_used_ns = cell_execution(c)->ended_ns;
    keep_late(s, cell_take_stdio(c));
    if (is_lost) {
        session_drop_kernel(s);
        guest_kill(s->guest); /* what the interpreter left running */
        snprintf(s->info.error.msg, sizeof(s->info.error.msg), "%.255s",
                 cell_execution(c)->verdict.message);
    }
    if (!session_is_ending(s))
        session_enter(s, is_lost ? SESSION_FAILED : SESSION_READY);
    told->ended(told_ctx, cell_execution(c));
    /* Only now: whoever was told has it, and it need not be told again. The next request says it
     * too; until then only large answers are worth the kernel's time. */
    if (!is_lost && s->kernel && result_list_bytes(&cell_execution(c)->results) > ACK_BYTES)
        (void)!kernel_send(s->kernel, KERNEL_ACK, generation, NULL, 0, NULL, 0, &ignored);
    if (cell_is_kept(c) && s->sandbox && !s->cell)
        keeper_put(s->spawner, s->sandbox, s->label, KEEPER_OUTPUT, NULL, 0);
    cell_free(c);
    if (session_is_ending(s))
        return;
    if (s->wants_reset) {
        restart(s);
        return;
    }
    session_tell(s);
    refuse_failed(s);
    session_begin_next(s);
}

static struct cell_place make_place(struct session *s)
{
    return (struct cell_place){
        .loop = s->loop,
        .spawner = s->spawner,
        .guest = s->guest,
        .kernel = s->kernel,
        .sandbox = s->sandbox,
        .limits = &s->template->limits,
        .before = &s->before,
        .layers = s->info.layers,
        .generation = s->generation,
        .newest_ns = &s->newest_ns,
        .is_plain = s->template->is_plain,
        .label = s->is_kept ? s->label : NULL,
    };
}

static struct cell_events take_place(struct session *s, const struct execution_events *events,
                                     void *ctx)
{
    s->told = events;
    s->told_ctx = ctx;
    session_enter(s, SESSION_BUSY);
    return (struct cell_events){.told = events, .told_ctx = ctx, .ended = on_cell_ended, .ctx = s};
}

int session_resume_cell(struct session *s, const struct cell_request *request,
                        const struct cell_record *record, const int *output,
                        const struct execution_events *events, void *ctx, struct error *err)
{
    const struct cell_place place = make_place(s);
    const struct cell_events cell_events = take_place(s, events, ctx);
    return cell_resume(&s->cell, &place, request, record, output, &cell_events, err);
}

static int begin_cell(struct session *s, const struct cell_request *request,
                      const struct execution_events *events, void *ctx, struct error *err)
{
    s->generation++;
    const struct cell_place place = make_place(s);
    const struct cell_events cell_events = take_place(s, events, ctx);
    if (cell_begin(&s->cell, &place, request, &cell_events, err) < 0) {
        session_enter(s, SESSION_READY);
        return -1;
    }
    return 0;
}

static void drop_request(const struct cell_request *request)
{
    int fd = request->stdin_fd;
    scoped_close_fd(&fd);
}

/* One that was accepted and cannot run any more. */
static void refuse(const struct waiting *w, const struct error *err)
{
    struct error ignored;
    struct execution e = {
        .created_ns = clock_wall_ns(), .ended_ns = clock_wall_ns(), .error = *err};
    (void)!id_make(ID_EXECUTION, e.id, &ignored);
    e.verdict = (struct verdict){.state = EXECUTION_CANCELLED, .kind = REASON_CANCELLED};
    snprintf(e.verdict.message, sizeof(e.verdict.message), "%.255s", err->msg);
    w->events->ended(w->ctx, &e);
}

void session_begin_next(struct session *s)
{
    struct error err;
    while (s->first && s->info.state == SESSION_READY && !s->cell) {
        scoped_free struct waiting *w = s->first;
        s->first = w->next;
        if (begin_cell(s, w->request, w->events, w->ctx, &err) < 0)
            refuse(w, &err);
    }
}

static void refuse_all(struct session *s, const char *why)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "%s", why);
    while (s->first) {
        scoped_free struct waiting *w = s->first;
        s->first = w->next;
        drop_request(w->request);
        refuse(w, &err);
    }
}

static int wait_in_line(struct session *s, const struct cell_request *request,
                        const struct execution_events *events, void *ctx, struct error *err)
{
    struct waiting **end = &s->first;
    size_t count = 0;
    for (; *end; end = &(*end)->next)
        count++;
    if (count == SESSION_QUEUE_MAX)
        return error_set(err, ERROR_LIMIT, "%d executions wait already", SESSION_QUEUE_MAX);
    *end = xcalloc(1, sizeof(**end));
    **end = (struct waiting){.request = request, .events = events, .ctx = ctx};
    return 0;
}

static int refuse_now(const struct session *s, bool may_queue, struct error *err)
{
    switch (s->info.state) {
    case SESSION_READY:
        return 0;
    case SESSION_CREATING:
    case SESSION_BUSY:
        if (may_queue)
            return 0;
        error_set(err, ERROR_CONFLICT, "the session is %s", state_names[s->info.state]);
        return error_hint(err,
                          "wait for its execution to end, interrupt it, or let this one queue");
    case SESSION_FAILED:
        error_set(err, ERROR_CONFLICT, "the session has no interpreter: %s", s->info.error.msg);
        return error_hint(err, "reset the session: its files are kept, its variables are lost");
    case SESSION_TERMINATING:
    case SESSION_TERMINATED:
        break;
    }
    return error_set(err, ERROR_CONFLICT, "the session is over");
}

int session_execute(struct session *s, const struct cell_request *request, bool may_queue,
                    const struct execution_events *events, void *ctx, struct error *err)
{
    if (s->info.state == SESSION_READY)
        return begin_cell(s, request, events, ctx, err);
    if (refuse_now(s, may_queue, err) < 0 || wait_in_line(s, request, events, ctx, err) < 0) {
        drop_request(request);
        return -1;
    }
    return 0;
}

void session_interrupt(struct session *s)
{
    if (s->cell)
        cell_interrupt(s->cell);
}

void session_cancel(struct session *s)
{
    if (s->cell)
        cell_cancel(s->cell);
}

/* --- the kernel ------------------------------------------------------------------------------ */

void session_on_ready(struct session *s)
{
    s->info.create_ms = (double)(clock_now_ns() - s->start_ns) / 1e6;
    stdio_free(take_ptr(&s->startup));
    session_enter(s, SESSION_READY);
    session_tell(s);
    session_begin_next(s);
}

void session_on_frame(void *ctx, const struct frame_message *m, const char *why)
{
    struct session *s = ctx;
    struct error err;
    if (m && attach_on_frame(s, m))
        return;
    if (m && m->type == KERNEL_READY && s->info.state == SESSION_CREATING) {
        if (!checkpoint_on_ready(s) && !fork_on_ready(s))
            session_on_ready(s);
    } else if (m && m->generation != s->generation)
        return; /* of an execution that is over */
    else if (m && s->cell)
        cell_on_frame(s->cell, m);
    else if (m && s->question.fn)
        question_on_frame(s, m);
    else if (!m && s->cell)
        cell_on_channel_end(s->cell, why);
    else if (!m && why) { /* else the kernel's end follows */
        error_set(&err, ERROR_UNAVAILABLE, "the interpreter spoke nonsense: %s", why);
        if (checkpoint_on_death(s, &err))
            return;
        guest_kill(s->guest);
        if (s->question.fn)
            end_question(s, &err);
        session_fail(s, &err);
    }
}

void session_on_start_late(void *ctx)
{
    struct session *s = ctx;
    struct error err;
    error_set(&err, ERROR_TIMEOUT, "the interpreter was not ready within %d s",
              SESSION_START_MS / 1000);
    guest_kill(s->guest);
    session_fail(s, &err);
}

static void on_startup_ended(void *ctx)
{
    (void)ctx;
}

int session_open_channel(int *ours, int *theirs, struct error *err)
{
    int pair[2], size = CHANNEL_BUFFER;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_sys(err, "make the kernel's channel");
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)); /* as much as we may have */
    *ours = pair[0];
    *theirs = pair[1];
    return 0;
}

static int launch(struct session *s, struct error *err)
{
    int streams[3];
    scoped_fd int ours = -1;
    scoped_fd int theirs = -1;
    const struct stdio_order order = {
        .stdin_fd = -1,
        .outputs = {&s->startup_out, &s->startup_err},
        .ended = on_startup_ended,
        .ctx = s,
    };
    const struct guest_program program = {.directory = GUEST_WORKSPACE,
                                          .argv = s->template->argv,
                                          .env = s->template->env,
                                          .is_plain = s->template->is_plain};
    output_release(&s->startup_out);
    output_release(&s->startup_err);
    output_init(&s->startup_out, START_WORDS_MAX);
    output_init(&s->startup_err, START_WORDS_MAX);
    if (session_open_channel(&ours, &theirs, err) < 0 ||
        session_open_kernel(s, take_fd(&ours), err) < 0 ||
        stdio_new(&s->startup, s->loop, &order, streams, err) < 0)
        return -1;
    const int fds[] = {streams[0], streams[1], streams[2], theirs, s->template->kernel_fd};
    size_t count = s->template->kernel_fd >= 0 ? 5 : 4;
    int answer = guest_start(s->guest, &program, fds, count, err);
    for (int i = 0; i < 3; i++)
        close(streams[i]);
    return answer;
}

static void start_kernel(struct session *s)
{
    struct error err;
    s->wants_reset = false;
    s->start_ns = s->start_ns ? s->start_ns : clock_now_ns();
    s->generation++; /* nothing that comes is older */
    session_enter(s, SESSION_CREATING);
    session_set_timer(s, SESSION_START_MS, session_on_start_late);
    s->kernel_runs = true;
    if (launch(s, &err) < 0) {
        s->kernel_runs = false;
        session_fail(s, &err);
    }
}

/* It was forked with the sandbox, which init adopts, and says READY like any other. */
static void join_kernel(struct session *s, int channel)
{
    struct error err;
    s->kernel_runs = true;
    s->generation++;
    session_set_timer(s, SESSION_START_MS, session_on_start_late);
    if (session_open_kernel(s, channel, &err) < 0)
        session_fail(s, &err);
}

/* Between two executions, or before the first. */
static void on_kernel_exit(struct session *s, const struct guest_message *m)
{
    struct error err;
    if (m->signal)
        error_set(&err, ERROR_UNAVAILABLE, "the interpreter was ended by signal %d", m->signal);
    else
        error_set(&err, ERROR_UNAVAILABLE, "the interpreter ended with status %d", m->exit_code);
    if (checkpoint_on_death(s, &err))
        return;
    guest_kill(s->guest); /* what it left running */
    if (s->wants_reset) {
        session_drop_kernel(s);
        start_kernel(s);
        return;
    }
    if (s->info.state == SESSION_FAILED)
        return; /* why is known already */
    if (s->startup) {
        scoped_strbuf struct strbuf words;
        strbuf_init(&words, START_WORDS_MAX * 2);
        stdio_read_now(s->startup);
        output_text(&s->startup_err, &words);
        error_hint(&err, "%s", strbuf_str(&words));
    }
    if (s->question.fn)
        end_question(s, &err);
    session_fail(s, &err);
}

int session_reset(struct session *s, struct error *err)
{
    if (session_is_ending(s) || !s->guest || s->is_creating || s->work.step)
        return error_set(err, ERROR_CONFLICT, "the session is %s", state_names[s->info.state]);
    s->wants_reset = true;
    s->start_ns = clock_now_ns();
    if (s->cell) {
        cell_kill(s->cell); /* goes on when it has ended */
        return 0;
    }
    restart(s);
    if (s->question.fn) {
        struct error reset;
        error_set(&reset, ERROR_CONFLICT, "the session was reset");
        end_question(s, &reset);
    }
    return 0;
}

/* --- the sandbox ----------------------------------------------------------------------------- */

/* Everything of it is gone, or out of reach. */
void session_end(struct session *s, const struct spawn_stats *stats)
{
    struct spawn_stats over = *stats;
    over.is_over = 1;
    s->sandbox = 0;
    if (s->cell)
        cell_on_over(s->cell, &over);
    refuse_all(s, "the session ended");
    if (s->question.fn) {
        struct error err;
        error_set(&err, ERROR_UNAVAILABLE, "the session ended");
        end_question(s, &err);
    }
    checkpoint_free_all(s);
    session_drop_kernel(s);
    fork_release(s);
    guest_free(take_ptr(&s->guest));
    for (size_t i = 0; i < SESSION_LATE_MAX; i++)
        stdio_free(take_ptr(&s->late[i].stdio));
    capacity_give(&s->seat);
    session_enter(s, SESSION_TERMINATED);
    session_tell(s);
}

static void on_destroyed(void *ctx, const struct spawn_message *m, int *fds,
                         const struct error *err)
{
    (void)fds;
    struct session *s = ctx;
    (void)err;
    session_end(s, m ? &m->stats : &s->before);
}

void session_destroy(struct session *s)
{
    fork_end_family(s, "the session is over");
    fork_release(s);
    if (s->has_destroyed || s->is_creating || fork_is_owed(s))
        return;
    s->has_destroyed = true;
    if (!s->sandbox) {
        session_end(s, &s->before);
        return;
    }
    struct spawn_message m = {.verb = SPAWN_DESTROY, .sandbox = s->sandbox};
    spawner_client_ask(s->spawner, &m, on_destroyed, s);
}

void session_destroy_if_due(struct session *s)
{
    if (session_is_ending(s))
        session_destroy(s);
}

void session_close(struct session *s)
{
    if (session_is_ending(s))
        return;
    session_enter(s, SESSION_TERMINATING);
    if (s->cell)
        cell_cancel(s->cell);
    session_destroy(s);
}

void session_give_way(struct session *s)
{
    capacity_give(&s->seat);
    session_close(s);
}

void session_on_guest(void *ctx, const struct guest_message *m)
{
    struct session *s = ctx;
    struct error err;
    struct guest_message now;
    if (m) {
        now = *m;
        m = &now;
        if (attach_on_guest(s, &now))
            return;
    }
    if (m && m->verb == GUEST_STARTED) {
        s->kernel_runs = m->value == 0;
        if (m->value) {
            errno = m->value;
            error_sys(&err, "start the interpreter '%s'", s->template->argv[0]);
            session_fail(s, &err);
        }
        return;
    }
    if (m && m->verb == GUEST_EXITED)
        s->kernel_runs = false;
    if (m && (fork_on_guest(s, m) || checkpoint_on_guest(s, m)))
        return;
    if (s->cell)
        cell_on_guest(s->cell, m);
    else if (m && m->verb == GUEST_EXITED)
        on_kernel_exit(s, m);
    else if (!m && s->is_sealed && !session_is_ending(s)) {
        error_set(&err, ERROR_UNAVAILABLE, "the sandbox is gone");
        session_fail(s, &err);
    }
}

static void on_created(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    struct session *s = ctx;
    struct error local;
    s->is_creating = false;
    if (!m) {
        if (session_is_ending(s))
            session_destroy(s);
        else
            session_fail(s, err);
        return;
    }
    s->sandbox = m->sandbox;
    if (session_is_ending(s)) { /* closed meanwhile */
        session_destroy(s);
        return;
    }
    if (guest_open(&s->guest, s->loop, take_fd(&fds[0]), session_on_guest, s, &local) < 0)
        session_fail(s, &local);
    else if (s->is_warm)
        join_kernel(s, take_fd(&fds[1]));
    else
        start_kernel(s);
}

void session_fill_create(const struct session_template *template, struct spawn_message *m)
{
    memcpy(m->create.image, template->image, sizeof(m->create.image));
    m->create.limits = template->limits;
    m->create.flags = template->allow_degraded ? SPAWN_ALLOW_DEGRADED : 0;
}

static void on_sealed(struct session *s, const struct spawn_message *m)
{
    struct error err;
    if (m->flags & SPAWN_FAILED) {
        spawner_client_explain(s->spawner, m, &err);
        s->sandbox = 0; /* the spawner removes it by itself */
        guest_free(take_ptr(&s->guest));
        session_fail(s, &err);
        return;
    }
    s->is_sealed = true;
    s->info.layers = m->sealed.layers;
}

/* Its pid 1 has ended: by its lifetime, by a limit, or by us. */
static void on_over(struct session *s, const struct spawn_message *m)
{
    struct error err;
    error_set(&err, m->stats.lifetime_over ? ERROR_TIMEOUT : ERROR_UNAVAILABLE, "%s",
              m->stats.lifetime_over ? "the session reached the end of its time"
                                     : "the sandbox is gone");
    if (s->cell)
        cell_on_over(s->cell, &m->stats);
    if (s->question.fn)
        end_question(s, &err);
    if (!session_is_ending(s)) {
        s->info.error = err;
        session_close(s);
    }
}

void session_on_event(struct session *s, const struct spawn_message *m)
{
    if (!m) {
        if (s->info.state != SESSION_TERMINATED) { /* nor will a destroy be answered any more */
            s->has_destroyed = true;
            s->is_creating = false;
            fork_end_family(s, "the spawner is gone");
            error_set(&s->info.error, ERROR_UNAVAILABLE, "the spawner is gone");
            session_end(s, &s->before);
        }
        return;
    }
    if (s->sandbox != 0 && m->sandbox == s->sandbox && m->verb == SPAWN_SEALED)
        on_sealed(s, m);
    else if (s->sandbox != 0 && m->sandbox == s->sandbox && m->verb == SPAWN_EXITED)
        on_over(s, m);
    fork_on_event(s, m);
}

void session_give(struct session *s, const struct session_events *events, void *ctx)
{
    s->events = events;
    s->ctx = ctx;
    s->info.created_ns = s->info.last_used_ns = clock_wall_ns();
    session_enter(s, s->info.state); /* its idle time begins anew */
}

struct session *session_new(struct loop *loop, struct spawner_client *spawner,
                            const struct session_template *template,
                            const struct session_events *events, void *ctx, struct error *err)
{
    struct session *s = xcalloc(1, sizeof(*s));
    s->loop = loop;
    s->spawner = spawner;
    s->template = template;
    s->events = events;
    s->ctx = ctx;
    s->start_ns = clock_now_ns();
    s->info.created_ns = s->info.last_used_ns = clock_wall_ns();
    s->fork.gate_fd = s->fork.heir_fd = -1;
    if (id_make(ID_SESSION, s->info.id, err) < 0 ||
        capacity_take(template->capacity, &s->seat, &template->limits, err) < 0) {
        free(s);
        return NULL;
    }
    return s;
}

void session_ask_create(struct session *s, uint64_t zygote)
{
    struct spawn_message m = {.verb = SPAWN_CREATE};
    session_fill_create(s->template, &m);
    m.create.zygote = zygote;
    s->is_warm = zygote != 0;
    s->is_creating = true;
    spawner_client_ask(s->spawner, &m, on_created, s);
}

int session_open(struct session **out, struct loop *loop, struct spawner_client *spawner,
                 const struct session_template *template, const struct session_events *events,
                 void *ctx, struct error *err)
{
    struct session *s = session_new(loop, spawner, template, events, ctx, err);
    if (!s)
        return -1;
    if (template->forks > 0 && template->zygote)
        fork_begin_family(s);
    else
        session_ask_create(s, template->zygote);
    *out = s;
    return 0;
}

void session_free(struct session *s)
{
    if (!s)
        return;
    session_set_timer(s, 0, NULL);
    fork_forget(s);
    loop_timer_free(s->freeze_timer);
    attach_free(s);
    cell_free(s->cell);
    s->work.fn = NULL; /* nobody is told any more */
    checkpoint_free_all(s);
    session_drop_kernel(s);
    guest_free(s->guest);
    while (s->first) {
        scoped_free struct waiting *w = s->first;
        s->first = w->next;
    }
    for (size_t i = 0; i < SESSION_LATE_MAX; i++)
        stdio_free(s->late[i].stdio);
    capacity_give(&s->seat);
    strbuf_release(&s->question.body);
    output_release(&s->startup_out);
    output_release(&s->startup_err);
    free(s);
}
