/* test_session.c - a session whose spawner, cove-init and kernel are played by the test
 *
 * The spawner's client is replaced when this is linked (the two functions that sessions call), and
 * so are timers (--wrap): time passes when the test says so. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "check.h"
#include "core/output_file.h"
#include "runtime/file_stream.h"

#define SANDBOX   5
#define ASKS_MAX  32
#define ENDED_MAX 128
#define MEMORY    (64 * MIB)

/* --- time ------------------------------------------------------------------------------------ */

struct loop_timer {
    struct loop_timer *next;
    uint64_t at_ms;
    loop_timer_fn fn;
    void *ctx;
};

static struct {
    struct loop_timer *first;
    uint64_t now_ms;
} timers;

struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx);
void __wrap_loop_timer_free(struct loop_timer *timer);

struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx)
{
    (void)loop;
    struct loop_timer *t = xcalloc(1, sizeof(*t));
    *t = (struct loop_timer){timers.first, timers.now_ms + delay_ms, fn, ctx};
    timers.first = t;
    return t;
}

static bool unlink_timer(struct loop_timer *timer)
{
    struct loop_timer **at = &timers.first;
    while (*at && *at != timer)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = timer->next;
    return true;
}

int64_t __wrap_clock_now_ns(void);

int64_t __wrap_clock_now_ns(void)
{
    return (int64_t)(timers.now_ms + 1) * 1000000;
}

void __wrap_loop_timer_free(struct loop_timer *timer)
{
    if (!timer)
        return;
    unlink_timer(timer);
    free(timer);
}

static struct loop_timer *find_due(void)
{
    struct loop_timer *due = NULL;
    for (struct loop_timer *t = timers.first; t; t = t->next) {
        if (t->at_ms <= timers.now_ms && (!due || t->at_ms < due->at_ms))
            due = t;
    }
    return due;
}

/* --- the spawner ----------------------------------------------------------------------------- */

struct spawner_client {
    struct {
        struct spawn_message m;
        spawner_reply_fn reply;
        void *ctx;
    } asks[ASKS_MAX];
    size_t count;
};

void spawner_client_ask(struct spawner_client *c, struct spawn_message *m, spawner_reply_fn reply,
                        void *ctx)
{
    assert_true(c->count < ASKS_MAX);
    c->asks[c->count].m = *m;
    c->asks[c->count].reply = reply;
    c->asks[c->count++].ctx = ctx;
}

void spawner_client_ask_with(struct spawner_client *c, struct spawn_message *m, const int *fds,
                             size_t fd_count, spawner_reply_fn reply, void *ctx)
{
    (void)fds;
    (void)fd_count;
    spawner_client_ask(c, m, reply, ctx);
}

void spawner_client_explain(const struct spawner_client *c, const struct spawn_message *m,
                            struct error *err)
{
    (void)c;
    error_set(err, ERROR_ISOLATION, "%s", m->failure.step);
}

/* --- the world ------------------------------------------------------------------------------- */

struct ended {
    enum execution_state state;
    enum reason_kind kind;
    char message[256];
    int exit_code;
    int who; /* which request */
    char out[64];
    bool artifacts_cut, has_results;
};

struct world {
    struct loop *loop;
    struct spawner_client spawner;
    struct session *session;
    struct session_template template;
    int init;       /* cove-init's end of its socket */
    int channel;    /* the kernel's end */
    int streams[3]; /* its standard streams */
    int cell[3];    /* those of the execution */
    struct strbuf states;
    struct ended ended[ENDED_MAX];
    size_t ended_count;
    struct request {
        struct cell_request cell;
        struct world *w;
        int who;
    } requests[ENDED_MAX];
    size_t request_count;
    unsigned answers;
    struct strbuf answer;
    const struct execution_events *events;
    char told[256]; /* what came of the execution while it ran, where that is asked for */
    struct error answer_error;
    unsigned fds_before;
    bool is_closing_at_end; /* the caller closes the session when its execution ends */
};

static unsigned count_fds(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void on_stop(void *ctx, unsigned events)
{
    (void)events;
    loop_stop(ctx);
}

/* Lets the loop see everything that is there, and wait for nothing. */
static void settle(struct world *w)
{
    struct error err;
    for (int i = 0; i < 4; i++) {
        struct loop_watch *now; /* a pipe that can be written is an event at once */
        int fds[2];
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(loop_watch_new(&now, w->loop, fds[1], LOOP_WRITE, on_stop, w->loop, &err),
                         0);
        loop_run(w->loop);
        loop_watch_free(now);
        close(fds[0]);
        close(fds[1]);
    }
}

static void advance(struct world *w, uint64_t ms)
{
    uint64_t end = timers.now_ms + ms;
    while (timers.now_ms < end) {
        timers.now_ms++;
        for (struct loop_timer *t; (t = find_due());) {
            t->at_ms = UINT64_MAX; /* its owner frees it */
            t->fn(t->ctx);
            settle(w);
        }
    }
}

static void on_changed(void *ctx, struct session *session)
{
    struct world *w = ctx;
    strbuf_add_str(&w->states, session_state_name(session_info(session)->state));
    strbuf_add_char(&w->states, ' ');
}

static const struct session_events session_events = {.changed = on_changed};

static void on_ended(void *ctx, const struct execution *e)
{
    struct request *r = ctx;
    struct world *w = r->w;
    struct strbuf text;
    assert_true(w->ended_count < ENDED_MAX);
    struct ended *end = &w->ended[w->ended_count++];
    *end = (struct ended){.state = e->verdict.state,
                          .kind = e->verdict.kind,
                          .exit_code = e->facts.exit_code,
                          .who = r->who,
                          .artifacts_cut = e->artifacts.is_cut,
                          .has_results = e->results.count > 0};
    snprintf(end->message, sizeof(end->message), "%s", e->verdict.message);
    if (e->out.head.max > 0) { /* one that was refused has none */
        strbuf_init(&text, 4096);
        output_text(&e->out, &text);
        snprintf(end->out, sizeof(end->out), "%s", strbuf_str(&text));
        strbuf_release(&text);
    }
    if (w->is_closing_at_end)
        session_close(w->session);
}

static const struct execution_events execution_events = {.ended = on_ended};

static void add_told(struct world *w, char mark, const char *data, size_t len)
{
    size_t at = strlen(w->told);
    snprintf(w->told + at, sizeof(w->told) - at, "%c%.*s ", mark, (int)len, data);
}

static void on_told_output(void *ctx, enum execution_stream stream, const void *data, size_t len)
{
    struct request *r = ctx;
    (void)stream;
    add_told(r->w, '>', data, len);
}

static void on_told_result(void *ctx, const struct result *result)
{
    struct request *r = ctx;
    for (size_t i = 0; i < result->count; i++)
        add_told(r->w, i == 0 ? '=' : '|', result->forms[i].data, result->forms[i].len);
}

static const struct execution_events streamed_events = {
    .output = on_told_output, .result = on_told_result, .ended = on_ended};

static void on_answer(void *ctx, const char *body, size_t len, const struct error *err)
{
    struct world *w = ctx;
    w->answers++;
    strbuf_clear(&w->answer);
    w->answer_error = err ? *err : (struct error){.msg = ""};
    if (!err)
        strbuf_add(&w->answer, body, len);
}

static const char *const argv[] = {"/kernel", NULL};

static void world_init(struct world *w)
{
    struct error err;
    timers.first = NULL; /* those of a test that failed */
    *w = (struct world){.init = -1,
                        .channel = -1,
                        .streams = {-1, -1, -1},
                        .cell = {-1, -1, -1},
                        .events = &execution_events};
    assert_int_equal(loop_open(&w->loop, &err), 0);
    loop_free(w->loop); /* the first one of a process keeps descriptors of its own */
    w->fds_before = count_fds();
    assert_int_equal(loop_open(&w->loop, &err), 0);
    strbuf_init(&w->states, 64 * KIB);
    strbuf_init(&w->answer, 64 * KIB);
    w->template = (struct session_template){
        .argv = argv,
        .env = argv + 1,
        .kernel_fd = -1,
        .limits = {.memory_bytes = MEMORY, .disk_bytes = MEMORY / 2, .pids = 10}};
}

static void assert_state(const struct world *w, enum session_state state)
{
    assert_string_equal(session_state_name(session_info(w->session)->state),
                        session_state_name(state));
}

/* --- the spawner says ------------------------------------------------------------------------ */

/* The oldest open question of that verb is answered; `m` NULL: refused. */
static void reply_with_all(struct world *w, enum spawn_verb verb, struct spawn_message *m,
                           const int *given, size_t given_count)
{
    struct error err;
    int fds[SPAWNER_REPLY_FDS];
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = i < given_count ? given[i] : -1;
    for (size_t i = 0; i < w->spawner.count; i++) {
        if (w->spawner.asks[i].m.verb != verb)
            continue;
        spawner_reply_fn reply = w->spawner.asks[i].reply;
        void *ctx = w->spawner.asks[i].ctx;
        w->spawner.count--;
        memmove(&w->spawner.asks[i], &w->spawner.asks[i + 1],
                (w->spawner.count - i) * sizeof(w->spawner.asks[0]));
        error_set(&err, ERROR_UNAVAILABLE, "the spawner is gone");
        reply(ctx, m, fds, m ? NULL : &err);
        for (size_t j = 0; j < given_count; j++)
            scoped_close_fd(&fds[j]);
        return;
    }
    fail_msg("nobody asked the spawner for %d", (int)verb);
}

static void reply_with(struct world *w, enum spawn_verb verb, struct spawn_message *m, int fd)
{
    reply_with_all(w, verb, m, &fd, 1);
}

static void reply(struct world *w, enum spawn_verb verb, struct spawn_stats stats)
{
    struct spawn_message m = {.verb = (uint16_t)verb, .flags = SPAWN_REPLY, .sandbox = SANDBOX};
    m.stats = stats;
    reply_with(w, verb, &m, -1);
}

static bool is_asked(const struct world *w, enum spawn_verb verb)
{
    for (size_t i = 0; i < w->spawner.count; i++) {
        if (w->spawner.asks[i].m.verb == verb)
            return true;
    }
    return false;
}

static void tell_event(struct world *w, enum spawn_verb verb, struct spawn_stats stats)
{
    struct spawn_message m = {.verb = (uint16_t)verb, .sandbox = SANDBOX};
    if (verb == SPAWN_EXITED)
        m.stats = stats;
    session_on_event(w->session, &m);
}

/* --- cove-init says, and hears --------------------------------------------------------------- */

static void init_says(struct world *w, enum guest_verb verb, int value, int exit_code, int signal)
{
    const struct guest_message m = {
        .verb = verb, .value = value, .exit_code = exit_code, .signal = signal};
    assert_int_equal(send(w->init, &m, sizeof(m), MSG_NOSIGNAL), sizeof(m));
    settle(w);
}

/* The next word to init, or 0; its fds are closed, those of a start are kept. */
static enum guest_verb init_hears(struct world *w, int *value)
{
    static struct {
        struct guest_message m;
        char strings[GUEST_STRINGS_MAX];
    } request;
    int fds[FD_PASS_MAX];
    size_t count;
    assert_int_equal(fd_set_nonblock(w->init), 0);
    ssize_t n = fd_recv(w->init, &request, sizeof(request), fds, &count);
    if (n <= 0)
        return 0;
    if (value)
        *value = request.m.value;
    if (request.m.verb == GUEST_START) {
        assert_int_equal(count, 4);
        for (size_t i = 0; i < 4; i++) {
            int *slot = i < 3 ? &w->streams[i] : &w->channel;
            scoped_close_fd(slot);
            *slot = fds[i];
        }
        count = 0;
    }
    if (request.m.verb == GUEST_FILES && request.m.value == GUEST_FILES_LIST_NOW) {
        struct strbuf nothing;
        strbuf_init(&nothing, 1 * KIB);
        file_stream_add_end(&nothing);
        assert_int_equal(pwrite(fds[1], nothing.data, nothing.len, 0), nothing.len);
        strbuf_release(&nothing);
    }
    while (count > 0)
        close(fds[--count]);
    return request.m.verb;
}

static void expect_init(struct world *w, enum guest_verb verb, int value)
{
    int got = 0;
    assert_int_equal(init_hears(w, &got), verb);
    if (verb == GUEST_SIGNAL || verb == GUEST_FILES)
        assert_int_equal(got, value);
}

static void expect_silence(struct world *w)
{
    assert_int_equal(init_hears(w, NULL), 0);
}

/* After what is left of the old one was killed, which may be told more than once. */
static void expect_start(struct world *w)
{
    enum guest_verb verb = init_hears(w, NULL);
    while (verb == GUEST_KILL)
        verb = init_hears(w, NULL);
    assert_int_equal(verb, GUEST_START);
}

/* --- the kernel says, and hears -------------------------------------------------------------- */

static void say(struct world *w, unsigned type, unsigned flags, uint32_t generation,
                const void *body, size_t len)
{
    char datagram[1024];
    const struct kernel_frame f = {.length = (uint32_t)len,
                                   .type = (uint16_t)type,
                                   .flags = (uint16_t)flags,
                                   .generation = generation};
    memcpy(datagram, &f, sizeof(f));
    memcpy(datagram + sizeof(f), body, len);
    (void)!send(w->channel, datagram, sizeof(f) + len, MSG_NOSIGNAL);
    settle(w);
}

static void say_done(struct world *w, uint32_t generation, int32_t code)
{
    say(w, KERNEL_DONE, 0, generation, &code, sizeof(code));
}

/* Takes a frame of that type, and answers its generation. */
static uint32_t hear(struct world *w, enum kernel_frame_type type)
{
    static char datagram[KERNEL_FRAME_MAX];
    struct kernel_frame f;
    int fds[FD_PASS_MAX];
    size_t count;
    assert_int_equal(fd_set_nonblock(w->channel), 0);
    ssize_t n = fd_recv(w->channel, datagram, sizeof(datagram), fds, &count);
    assert_true(n >= (ssize_t)sizeof(f));
    memcpy(&f, datagram, sizeof(f));
    assert_int_equal(f.type, type);
    assert_int_equal(count, type == KERNEL_EXECUTE ? 3 : 0);
    for (size_t i = 0; i < count; i++) {
        scoped_close_fd(&w->cell[i]);
        w->cell[i] = fds[i];
    }
    return f.generation;
}

static void close_cell(struct world *w)
{
    for (int i = 0; i < 3; i++) {
        scoped_close_fd(&w->cell[i]);
        w->cell[i] = -1;
    }
}

/* --- a life ---------------------------------------------------------------------------------- */

static void open_sealed(struct world *w)
{
    struct error err;
    int pair[2];
    struct spawn_message m = {.verb = SPAWN_CREATE, .flags = SPAWN_REPLY, .sandbox = SANDBOX};
    assert_int_equal(
        session_open(&w->session, w->loop, &w->spawner, &w->template, &session_events, w, &err), 0);
    assert_state(w, SESSION_CREATING);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w->init = pair[1];
    reply_with(w, SPAWN_CREATE, &m, pair[0]);
    tell_event(w, SPAWN_SEALED, (struct spawn_stats){0});
    expect_init(w, GUEST_START, 0);
}

static void become_ready(struct world *w)
{
    init_says(w, GUEST_STARTED, 0, 0, 0);
    say(w, KERNEL_READY, 0, 0, "{}", 2);
    assert_state(w, SESSION_READY);
}

static void world_open(struct world *w)
{
    world_init(w);
    open_sealed(w);
    become_ready(w);
}

static void world_close(struct world *w)
{
    session_close(w->session);
    while (is_asked(w, SPAWN_DESTROY))
        reply(w, SPAWN_DESTROY, (struct spawn_stats){0});
    assert_state(w, SESSION_TERMINATED);
    assert_true(w->states.len >= 11 &&
                strcmp(w->states.data + w->states.len - 11, "terminated ") == 0);
    while (w->spawner.count > 0) /* an answer that comes after the end does no harm */
        reply(w, w->spawner.asks[0].m.verb, (struct spawn_stats){0});
    session_free(w->session);
    scoped_close_fd(&w->init);
    scoped_close_fd(&w->channel);
    for (int i = 0; i < 3; i++)
        scoped_close_fd(&w->streams[i]);
    close_cell(w);
    settle(w);
    loop_free(w->loop);
    strbuf_release(&w->states);
    strbuf_release(&w->answer);
    assert_null(timers.first);
    assert_int_equal(count_fds(), w->fds_before);
}

static int try_execute(struct world *w, bool may_queue, int stdin_fd, struct error *err)
{
    struct request *r = &w->requests[w->request_count];
    *r = (struct request){.w = w, .who = (int)w->request_count++};
    r->cell = (struct cell_request){
        .code = "1", .code_len = 1, .stdin_fd = stdin_fd, .timeout_ms = 1000, .output_bytes = 1000};
    return session_execute(w->session, &r->cell, may_queue, w->events, r, err);
}

/* Begins one, and answers its generation. */
static uint32_t execute(struct world *w)
{
    struct error err;
    assert_int_equal(try_execute(w, false, -1, &err), 0);
    assert_state(w, SESSION_BUSY);
    return hear(w, KERNEL_EXECUTE);
}

static const struct ended *last_ended(const struct world *w, size_t count)
{
    assert_int_equal(w->ended_count, count);
    return &w->ended[count - 1];
}

/* The kernel dies; init tells how. */
static void kernel_dies(struct world *w, int exit_code, int signal)
{
    close(take_fd(&w->channel));
    settle(w);
    init_says(w, GUEST_EXITED, 0, exit_code, signal);
    while (init_hears(w, NULL) == GUEST_KILL)
        ;
    if (is_asked(w, SPAWN_STATS))
        reply(w, SPAWN_STATS, (struct spawn_stats){0});
}

static void reset(struct world *w)
{
    struct error err;
    assert_int_equal(session_reset(w->session, &err), 0);
}

/* --- good lives ------------------------------------------------------------------------------ */

static void test_life(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t generation = execute(&w);
        assert_int_equal(write(w.cell[1], "hello", 5), 5);
        say(&w, KERNEL_DATA, KERNEL_FIRST | KERNEL_MAIN, generation, "text/plain\0002", 12);
        close_cell(&w);
        say_done(&w, generation, (int32_t)i);
        const struct ended *e = last_ended(&w, i + 1);
        assert_int_equal(e->state, i == 0 ? EXECUTION_COMPLETED : EXECUTION_FAILED);
        assert_int_equal(e->exit_code, i);
        assert_string_equal(e->out, "hello");
        assert_true(e->has_results);
        assert_state(&w, SESSION_READY);
    }
    world_close(&w);
}

/* One form of a result. */
static void show(struct world *w, unsigned flags, uint32_t generation, const char *text)
{
    char body[64];
    int len = snprintf(body, sizeof(body), "text/plain%c%s", '\0', text);
    say(w, KERNEL_DATA, flags, generation, body, (size_t)len);
}

static void test_results_are_told(void **state)
{
    (void)state;
    struct world w;
    const unsigned whole = KERNEL_FIRST | KERNEL_LAST;
    world_open(&w);
    w.events = &streamed_events;
    uint32_t generation = execute(&w);
    assert_int_equal(write(w.cell[1], "a", 1), 1);
    show(&w, KERNEL_FIRST, generation, "b");
    assert_string_equal(w.told, ""); /* it may have another form */
    show(&w, KERNEL_LAST, generation, "c");
    assert_string_equal(w.told, ">a =b |c ");
    show(&w, KERNEL_FIRST, generation, "d");
    assert_string_equal(w.told, ">a =b |c ");
    show(&w, whole, generation, "e");
    assert_string_equal(w.told, ">a =b |c =d =e ");
    show(&w, 0, generation, "late"); /* and never told twice */
    show(&w, whole | KERNEL_MAIN, generation, "f");
    show(&w, KERNEL_FIRST, generation, "g");
    assert_string_equal(w.told, ">a =b |c =d =e =f ");
    assert_int_equal(write(w.cell[1], "h", 1), 1);
    close_cell(&w);
    say_done(&w, generation, 0);
    assert_string_equal(w.told, ">a =b |c =d =e =f >h =g ");
    last_ended(&w, 1);
    world_close(&w);
}

static void test_exception(void **state)
{
    (void)state;
    struct world w;
    static const char *const bodies[] = {"{\"name\": \"E\"}", "nonsense", "[]", "{\"name\": 5}"};
    world_open(&w);
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        uint32_t generation = execute(&w);
        say(&w, KERNEL_ERROR, 0, generation, bodies[i], strlen(bodies[i]));
        say_done(&w, generation, 0);
        const struct ended *e = last_ended(&w, i + 1);
        assert_int_equal(e->kind, REASON_EXCEPTION);
        assert_int_equal(e->exit_code, 1);
    }
    world_close(&w);
}

static void test_busy(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    uint32_t generation = execute(&w);
    assert_int_equal(try_execute(&w, false, -1, &err), -1);
    assert_int_equal(err.code, ERROR_CONFLICT);
    assert_int_equal(session_ask(w.session, KERNEL_VARIABLES, NULL, 0, on_answer, &w, &err), -1);
    assert_int_equal(err.code, ERROR_CONFLICT);
    say_done(&w, generation, 0);
    last_ended(&w, 1);
    world_close(&w);
}

static void test_queue(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_init(&w);
    open_sealed(&w);
    for (int i = 0; i < SESSION_QUEUE_MAX; i++) /* before it is ready */
        assert_int_equal(try_execute(&w, true, -1, &err), 0);
    assert_int_equal(try_execute(&w, true, -1, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    init_says(&w, GUEST_STARTED, 0, 0, 0);
    say(&w, KERNEL_READY, 0, 0, "{}", 2);
    for (int i = 0; i < SESSION_QUEUE_MAX; i++) {
        assert_state(&w, SESSION_BUSY);
        say_done(&w, hear(&w, KERNEL_EXECUTE), 0);
        assert_int_equal(last_ended(&w, (size_t)i + 1)->who, i); /* in their order */
    }
    assert_state(&w, SESSION_READY);
    world_close(&w);
}

static void test_queue_at_close(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    execute(&w);
    for (int i = 0; i < 3; i++) /* with an input each, which must not be left open */
        assert_int_equal(try_execute(&w, true, memfd_create("in", MFD_CLOEXEC), &err), 0);
    session_close(w.session);
    assert_state(&w, SESSION_TERMINATING);
    assert_int_equal(try_execute(&w, true, memfd_create("in", MFD_CLOEXEC), &err), -1);
    tell_event(&w, SPAWN_EXITED, (struct spawn_stats){.is_over = 1});
    reply(&w, SPAWN_DESTROY, (struct spawn_stats){.is_over = 1});
    last_ended(&w, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(w.ended[i].who, i);
        assert_int_equal(w.ended[i].state, EXECUTION_CANCELLED);
    }
    world_close(&w);
}

/* An input that is never read is not left open, whoever refuses it. */
static void test_refused_input(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    uint32_t generation = execute(&w);
    unsigned before = count_fds();
    assert_int_equal(try_execute(&w, false, memfd_create("in", MFD_CLOEXEC), &err), -1);
    assert_int_equal(count_fds(), before);
    say_done(&w, generation, 0);
    kernel_dies(&w, 1, 0);
    assert_state(&w, SESSION_FAILED);
    before = count_fds();
    assert_int_equal(try_execute(&w, true, memfd_create("in", MFD_CLOEXEC), &err), -1);
    assert_int_equal(count_fds(), before);
    world_close(&w);
}

static void test_close_at_end(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.is_closing_at_end = true;
    say_done(&w, execute(&w), 0); /* the caller closes it from inside `ended` */
    last_ended(&w, 1);
    assert_state(&w, SESSION_TERMINATING);
    world_close(&w);
}

/* --- kernels that die ------------------------------------------------------------------------ */

static void test_death_before_ready(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_init(&w);
    open_sealed(&w);
    assert_int_equal(try_execute(&w, true, -1, &err), 0);
    init_says(&w, GUEST_STARTED, 0, 0, 0);
    assert_int_equal(write(w.streams[2], "no module named x\n", 18), 18);
    kernel_dies(&w, 3, 0);
    assert_state(&w, SESSION_FAILED);
    assert_string_equal(strbuf_str(&w.states), "failed ");
    const struct session_info *info = session_info(w.session);
    assert_string_equal(info->error.msg, "the interpreter ended with status 3");
    assert_string_equal(info->error.hint, "no module named x\n");
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_CANCELLED); /* what waited is told */
    assert_int_equal(try_execute(&w, true, -1, &err), -1);
    assert_int_equal(err.code, ERROR_CONFLICT);
    reset(&w);
    expect_init(&w, GUEST_KILL, 0);
    expect_init(&w, GUEST_START, 0);
    become_ready(&w);
    world_close(&w);
}

static void test_not_started(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    open_sealed(&w);
    init_says(&w, GUEST_STARTED, ENOENT, 0, 0);
    assert_state(&w, SESSION_FAILED);
    assert_non_null(strstr(session_info(w.session)->error.msg, "/kernel"));
    assert_int_equal(session_info(w.session)->error.sys_errno, ENOENT);
    world_close(&w);
}

static void test_never_ready(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    open_sealed(&w);
    init_says(&w, GUEST_STARTED, 0, 0, 0);
    advance(&w, 29999);
    assert_state(&w, SESSION_CREATING);
    advance(&w, 1);
    assert_state(&w, SESSION_FAILED);
    assert_int_equal(session_info(w.session)->error.code, ERROR_TIMEOUT);
    expect_init(&w, GUEST_KILL, 0);
    init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    assert_int_equal(session_info(w.session)->error.code, ERROR_TIMEOUT); /* still that */
    assert_string_equal(strbuf_str(&w.states), "failed ");                /* and told once */
    world_close(&w);
}

static void test_death_between(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    kernel_dies(&w, 0, SIGSEGV);
    assert_state(&w, SESSION_FAILED);
    assert_string_equal(strbuf_str(&w.states), "ready failed ");
    assert_non_null(strstr(session_info(w.session)->error.msg, "signal 11"));
    assert_int_equal(w.ended_count, 0);
    world_close(&w);
}

struct death_case {
    const char *name;
    int exit_code, signal;
    struct spawn_stats stats;
    enum reason_kind kind;
};

static const struct death_case death_cases[] = {
    {"a kernel that exits", 3, 0, {0}, REASON_RUNNER_DIED},
    {"a kernel that exits well", 0, 0, {0}, REASON_RUNNER_DIED},
    {"a kernel that crashes", 0, SIGSEGV, {0}, REASON_RUNNER_DIED},
    {"a kernel that was too large", 0, SIGKILL, {.oom_kills = 1}, REASON_OOM},
    {"a kernel that met its process limit", 1, 0, {.pids_refused = 7}, REASON_PIDS},
    {"a kernel that filled the disk",
     1,
     0,
     {.disk_used_bytes = MEMORY / 2, .inodes_free = 9},
     REASON_DISK},
};

static void test_death_during(void **state)
{
    const struct death_case *row = *state;
    struct world w;
    struct error err;
    world_open(&w);
    execute(&w);
    assert_int_equal(try_execute(&w, true, -1, &err), 0);
    assert_int_equal(write(w.cell[1], "last words", 10), 10);
    close(take_fd(&w.channel));
    settle(&w);
    expect_init(&w, GUEST_KILL, 0); /* whatever it left */
    init_says(&w, GUEST_EXITED, 0, row->exit_code, row->signal);
    assert_int_equal(w.ended_count, 0); /* first the counters */
    reply(&w, SPAWN_STATS, row->stats);
    assert_state(&w, SESSION_FAILED);
    last_ended(&w, 2);
    assert_int_equal(w.ended[0].kind, row->kind);
    assert_string_equal(w.ended[0].out, "last words");
    assert_int_equal(w.ended[1].state, EXECUTION_CANCELLED); /* the one that waited */
    world_close(&w);
}

/* Init's news may be quicker than the end of the channel. */
static void test_exit_before_end(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    execute(&w);
    init_says(&w, GUEST_EXITED, 0, 7, 0);
    reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    assert_non_null(strstr(last_ended(&w, 1)->message, "status 7"));
    close(take_fd(&w.channel));
    settle(&w);
    assert_state(&w, SESSION_FAILED);
    last_ended(&w, 1);
    world_close(&w);
}

/* It closes its channel and lives on: killed, and not waited for without end. */
static void test_closed_and_alive(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    execute(&w);
    close(take_fd(&w.channel));
    settle(&w);
    expect_init(&w, GUEST_KILL, 0);
    advance(&w, 500);
    reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    assert_int_equal(last_ended(&w, 1)->kind, REASON_RUNNER_DIED);
    assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

/* The counters of a sandbox that went as a whole come with the spawner's news. */
static void test_init_dies(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    execute(&w);
    close(take_fd(&w.init));
    settle(&w);
    assert_int_equal(w.ended_count, 0);
    tell_event(&w, SPAWN_EXITED, (struct spawn_stats){.oom_kills = 1, .is_over = 1});
    assert_int_equal(last_ended(&w, 1)->kind, REASON_OOM);
    assert_state(&w, SESSION_TERMINATING);
    world_close(&w);
}

static void test_init_dies_silently(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    execute(&w);
    close(take_fd(&w.init));
    settle(&w);
    advance(&w, 500); /* no news */
    if (is_asked(&w, SPAWN_STATS))
        reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    assert_int_equal(last_ended(&w, 1)->kind, REASON_RUNNER_DIED);
    world_close(&w);
}

/* After its DONE the code is over; how its kernel fares later is another matter. */
static void test_death_after_done(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = execute(&w);
    w.requests[0].cell.wants_artifacts = true;
    say_done(&w, generation, 0);
    expect_init(&w, GUEST_FILES, GUEST_FILES_LIST_NOW);
    assert_int_equal(w.ended_count, 0);
    init_says(&w, GUEST_EXITED, 0, 9, 0);
    expect_silence(&w); /* a kill would hit the one that looks for files */
    init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
    const struct ended *e = last_ended(&w, 1);
    assert_int_equal(e->state, EXECUTION_COMPLETED);
    assert_int_equal(e->exit_code, 0);
    assert_false(e->artifacts_cut);
    assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

/* --- kernels that lie ------------------------------------------------------------------------ */

static void test_old_frames(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t first = execute(&w);
    say_done(&w, first, 0);
    say_done(&w, first, 5); /* twice */
    last_ended(&w, 1);
    uint32_t second = execute(&w);
    assert_true(second > first);
    say(&w, KERNEL_DATA, KERNEL_FIRST, first, "text/plain\0x", 12);
    say(&w, KERNEL_ERROR, 0, first, "{}", 2);
    say_done(&w, first, 0);
    say(&w, KERNEL_READY, 0, 0, "{}", 2);
    assert_int_equal(w.ended_count, 1);
    assert_state(&w, SESSION_BUSY);
    say_done(&w, second, 0);
    const struct ended *e = last_ended(&w, 2);
    assert_int_equal(e->state, EXECUTION_COMPLETED);
    assert_false(e->has_results);
    world_close(&w);
}

static void test_future_frames(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = execute(&w);
    say_done(&w, generation + 1, 0); /* of a request that was never made */
    expect_init(&w, GUEST_KILL, 0);
    init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    const struct ended *e = last_ended(&w, 1);
    assert_int_equal(e->kind, REASON_RUNNER_DIED);
    assert_non_null(strstr(e->message, "nonsense"));
    assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

static void test_poison_between(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(send(w.channel, "x", 1, MSG_NOSIGNAL), 1);
    settle(&w);
    assert_state(&w, SESSION_FAILED);
    assert_non_null(strstr(session_info(w.session)->error.msg, "nonsense"));
    expect_init(&w, GUEST_KILL, 0);
    init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    assert_non_null(strstr(session_info(w.session)->error.msg, "nonsense")); /* still that */
    assert_string_equal(strbuf_str(&w.states), "ready failed ");
    world_close(&w);
}

/* --- limits of time -------------------------------------------------------------------------- */

static void test_timeout(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = execute(&w);
    advance(&w, 999);
    expect_silence(&w);
    advance(&w, 1);
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    say(&w, KERNEL_ERROR, 0, generation, "{\"name\": \"KeyboardInterrupt\"}", 29);
    say_done(&w, generation, 130);
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_TIMEOUT);
    assert_state(&w, SESSION_READY); /* its state lives on */
    advance(&w, 1000);
    expect_silence(&w);
    world_close(&w);
}

static void test_timeout_kill(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    execute(&w);
    advance(&w, 1000);
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    advance(&w, 119);
    expect_silence(&w);
    advance(&w, 1);
    expect_init(&w, GUEST_KILL, 0);
    advance(&w, 24);
    assert_false(is_asked(&w, SPAWN_CULL));
    advance(&w, 1);
    assert_true(is_asked(&w, SPAWN_CULL)); /* a spawner that does not answer */
    advance(&w, 999);
    assert_false(is_asked(&w, SPAWN_KILL)); /* which would take the files along */
    advance(&w, 1);
    assert_true(is_asked(&w, SPAWN_KILL));
    init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_TIMEOUT);
    assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

/* A bomb leaves init no turn: the spawner's word is enough. */
static void test_timeout_cull(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    execute(&w);
    advance(&w, 1145);
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    expect_init(&w, GUEST_KILL, 0);
    reply(&w, SPAWN_CULL, (struct spawn_stats){0});
    reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_TIMEOUT);
    assert_state(&w, SESSION_FAILED);
    advance(&w, 2000);
    assert_false(is_asked(&w, SPAWN_KILL));
    init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    assert_int_equal(w.ended_count, 1);
    world_close(&w);
}

/* The answer may come when nobody waits for it. */
static void test_cull_after_end(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    execute(&w);
    advance(&w, 1145);
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    expect_init(&w, GUEST_KILL, 0);
    init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_TIMEOUT);
    reply(&w, SPAWN_CULL, (struct spawn_stats){0});
    assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

/* It answers when the kill is on its way: the interpreter dies all the same. */
static void test_done_after_kill(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    uint32_t generation = execute(&w);
    assert_int_equal(try_execute(&w, true, -1, &err), 0);
    advance(&w, 1120);
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    expect_init(&w, GUEST_KILL, 0);
    say_done(&w, generation, 0);
    if (is_asked(&w, SPAWN_STATS))
        reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    last_ended(&w, 2);
    assert_int_equal(w.ended[0].state, EXECUTION_TIMEOUT);
    assert_int_equal(w.ended[1].state, EXECUTION_CANCELLED); /* and not runner_died */
    assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

static void test_interrupt(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    session_interrupt(w.session); /* nothing runs */
    session_cancel(w.session);
    expect_silence(&w);
    uint32_t generation = execute(&w);
    session_interrupt(w.session);
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    say_done(&w, generation, 130);
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_CANCELLED);
    assert_state(&w, SESSION_READY);
    execute(&w);
    session_interrupt(w.session);
    session_interrupt(w.session); /* the second one kills */
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    expect_init(&w, GUEST_KILL, 0);
    kernel_dies(&w, 0, SIGKILL);
    assert_int_equal(last_ended(&w, 2)->state, EXECUTION_CANCELLED);
    assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

static void test_cancel(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    execute(&w);
    session_cancel(w.session);
    session_cancel(w.session);
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    expect_silence(&w);
    advance(&w, 40); /* the code had perhaps not begun */
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    advance(&w, 40);
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    advance(&w, 919);
    expect_silence(&w);
    advance(&w, 1);
    expect_init(&w, GUEST_KILL, 0);
    kernel_dies(&w, 0, SIGKILL);
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_CANCELLED);
    world_close(&w);
}

static void test_idle(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.template.idle_ms = 500;
    open_sealed(&w);
    become_ready(&w);
    advance(&w, 499);
    uint32_t generation = execute(&w);
    advance(&w, 900); /* longer than it may be idle, but it is not */
    assert_state(&w, SESSION_BUSY);
    say_done(&w, generation, 0);
    advance(&w, 499);
    assert_state(&w, SESSION_READY);
    advance(&w, 1);
    assert_state(&w, SESSION_TERMINATING);
    world_close(&w);
}

static void test_idle_failed(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.template.idle_ms = 500;
    open_sealed(&w);
    become_ready(&w);
    kernel_dies(&w, 1, 0);
    assert_state(&w, SESSION_FAILED);
    advance(&w, 499);
    assert_state(&w, SESSION_FAILED);
    advance(&w, 1);
    assert_state(&w, SESSION_TERMINATING);
    world_close(&w);
}

/* --- questions ------------------------------------------------------------------------------- */

static uint32_t ask(struct world *w)
{
    struct error err;
    assert_int_equal(session_ask(w->session, KERNEL_VARIABLES, NULL, 0, on_answer, w, &err), 0);
    assert_state(w, SESSION_BUSY);
    return hear(w, KERNEL_VARIABLES);
}

static void test_question(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    uint32_t generation = ask(&w);
    assert_int_equal(try_execute(&w, true, -1, &err), 0); /* waits */
    say(&w, KERNEL_REPLY, 0, generation, "first", 5);
    say(&w, KERNEL_REPLY, 0, generation, "second", 6);
    assert_int_equal(w.answers, 0);
    say_done(&w, generation, 0);
    assert_int_equal(w.answers, 1);
    assert_string_equal(strbuf_str(&w.answer), "first");
    assert_state(&w, SESSION_BUSY); /* with the one that waited */
    say_done(&w, hear(&w, KERNEL_EXECUTE), 0);
    generation = ask(&w);
    say(&w, KERNEL_ERROR, 0, generation, "{\"name\": \"NameError\", \"value\": \"x\"}", 35);
    say_done(&w, generation, 0);
    assert_int_equal(w.answer_error.code, ERROR_NOT_FOUND);
    generation = ask(&w);
    say_done(&w, generation, 0); /* without an answer */
    assert_int_equal(w.answer_error.code, ERROR_UNAVAILABLE);
    assert_int_equal(w.answers, 3);
    assert_state(&w, SESSION_READY);
    world_close(&w);
}

static void test_question_late(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = ask(&w);
    advance(&w, 5000);
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    assert_int_equal(w.answers, 0);
    say_done(&w, generation, 0); /* in time not to be killed */
    assert_int_equal(w.answer_error.code, ERROR_TIMEOUT);
    assert_state(&w, SESSION_READY);
    advance(&w, 2000);
    expect_silence(&w);
    ask(&w);
    advance(&w, 6000);
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    expect_init(&w, GUEST_KILL, 0);
    kernel_dies(&w, 0, SIGKILL);
    assert_int_equal(w.answers, 2);
    assert_int_equal(w.answer_error.code, ERROR_TIMEOUT); /* not how it was ended */
    assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

static void test_question_ends(void **state)
{
    (void)state;
    for (int way = 0; way < 5; way++) {
        struct world w;
        world_open(&w);
        ask(&w);
        if (way == 0)
            kernel_dies(&w, 1, 0);
        else if (way == 1)
            say(&w, 99, 0, 0, "", 0);
        else if (way == 2)
            tell_event(&w, SPAWN_EXITED, (struct spawn_stats){.is_over = 1});
        else if (way == 3)
            session_on_event(w.session, NULL);
        else
            reset(&w);
        assert_int_equal(w.answers, 1);
        assert_true(w.answer_error.msg[0] != '\0');
        world_close(&w);
        assert_int_equal(w.answers, 1);
    }
}

/* --- resets ---------------------------------------------------------------------------------- */

static void test_reset(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t old = execute(&w);
    say_done(&w, old, 0);
    reset(&w);
    assert_state(&w, SESSION_CREATING);
    say(&w, KERNEL_READY, 0, 0, "{}", 2); /* the old one has nothing more to say */
    assert_state(&w, SESSION_CREATING);
    expect_init(&w, GUEST_KILL, 0);
    init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    expect_start(&w);
    become_ready(&w);
    uint32_t generation = execute(&w);
    assert_true(generation > old);
    say_done(&w, generation, 0);
    last_ended(&w, 2);
    world_close(&w);
}

static void test_reset_while_busy(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    execute(&w);
    assert_int_equal(try_execute(&w, true, -1, &err), 0);
    reset(&w);
    expect_init(&w, GUEST_KILL, 0);
    kernel_dies(&w, 0, SIGKILL);
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_CANCELLED); /* the caller wanted it so */
    assert_state(&w, SESSION_CREATING);
    expect_start(&w);
    init_says(&w, GUEST_STARTED, 0, 0, 0);
    say(&w, KERNEL_READY, 0, 0, "{}", 2);
    say_done(&w, hear(&w, KERNEL_EXECUTE), 0); /* what waited goes on in the new one */
    assert_int_equal(last_ended(&w, 2)->state, EXECUTION_COMPLETED);
    world_close(&w);
}

/* The code is over and its files are looked for: the reset comes after that. */
static void test_reset_while_collecting(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = execute(&w);
    w.requests[0].cell.wants_artifacts = true;
    say_done(&w, generation, 0);
    expect_init(&w, GUEST_FILES, GUEST_FILES_LIST_NOW);
    reset(&w);
    expect_silence(&w);
    init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
    last_ended(&w, 1);
    assert_state(&w, SESSION_CREATING);
    expect_init(&w, GUEST_KILL, 0);
    init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    expect_start(&w);
    become_ready(&w);
    world_close(&w);
}

/* Between the order to start and the news that it did, a second order would be refused. */
static void test_reset_while_starting(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    open_sealed(&w);
    reset(&w);
    expect_init(&w, GUEST_KILL, 0);
    expect_silence(&w);
    init_says(&w, GUEST_STARTED, 0, 0, 0);
    init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    expect_start(&w);
    become_ready(&w);
    world_close(&w);
}

static void test_reset_refused(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    session_close(w.session);
    assert_int_equal(session_reset(w.session, &err), -1);
    assert_int_equal(err.code, ERROR_CONFLICT);
    world_close(&w);
}

/* --- the end of all -------------------------------------------------------------------------- */

static void test_close_while_busy(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = execute(&w);
    session_close(w.session);
    session_close(w.session);
    assert_true(is_asked(&w, SPAWN_DESTROY));
    say_done(&w, generation, 0); /* it answers in the last moment */
    if (is_asked(&w, SPAWN_STATS))
        reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    tell_event(&w, SPAWN_EXITED, (struct spawn_stats){.is_over = 1});
    reply(&w, SPAWN_DESTROY, (struct spawn_stats){.is_over = 1});
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_CANCELLED);
    assert_state(&w, SESSION_TERMINATED);
    world_close(&w);
}

/* The counters that were asked for may come after the end, or never. */
static void test_close_while_counting(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = execute(&w);
    w.requests[0].cell.wants_usage = true;
    say_done(&w, generation, 0);
    assert_true(is_asked(&w, SPAWN_STATS));
    assert_int_equal(w.ended_count, 0);
    session_close(w.session);
    reply(&w, SPAWN_DESTROY, (struct spawn_stats){.is_over = 1});
    last_ended(&w, 1);
    world_close(&w);
    assert_int_equal(w.ended_count, 1);
}

static void test_close_while_creating(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    struct spawn_message m = {.verb = SPAWN_CREATE, .flags = SPAWN_REPLY, .sandbox = SANDBOX};
    int pair[2];
    world_init(&w);
    assert_int_equal(
        session_open(&w.session, w.loop, &w.spawner, &w.template, &session_events, &w, &err), 0);
    assert_int_equal(try_execute(&w, true, -1, &err), 0);
    session_close(w.session);
    assert_false(is_asked(&w, SPAWN_DESTROY)); /* of what, nobody knows yet */
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w.init = pair[1];
    reply_with(&w, SPAWN_CREATE, &m, pair[0]);
    assert_true(is_asked(&w, SPAWN_DESTROY));
    world_close(&w);
    last_ended(&w, 1);
}

static void test_not_created(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_init(&w);
    assert_int_equal(
        session_open(&w.session, w.loop, &w.spawner, &w.template, &session_events, &w, &err), 0);
    assert_int_equal(try_execute(&w, true, -1, &err), 0);
    reply_with(&w, SPAWN_CREATE, NULL, -1);
    assert_state(&w, SESSION_FAILED);
    last_ended(&w, 1);
    assert_int_equal(session_reset(w.session, &err), -1); /* there is nothing to start it in */
    world_close(&w);
}

static void test_not_sealed(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    struct spawn_message m = {.verb = SPAWN_SEALED, .flags = SPAWN_FAILED, .sandbox = SANDBOX};
    snprintf(m.failure.step, sizeof(m.failure.step), "mount /proc");
    world_init(&w);
    struct spawn_message created = {.verb = SPAWN_CREATE, .flags = SPAWN_REPLY, .sandbox = SANDBOX};
    int pair[2];
    assert_int_equal(
        session_open(&w.session, w.loop, &w.spawner, &w.template, &session_events, &w, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w.init = pair[1];
    reply_with(&w, SPAWN_CREATE, &created, pair[0]);
    assert_int_equal(try_execute(&w, true, -1, &err), 0);
    session_on_event(w.session, &m);
    assert_state(&w, SESSION_FAILED);
    assert_string_equal(session_info(w.session)->error.msg, "mount /proc");
    last_ended(&w, 1);
    world_close(&w);
}

static void test_spawner_gone(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    execute(&w);
    assert_int_equal(try_execute(&w, true, -1, &err), 0);
    session_on_event(w.session, NULL);
    last_ended(&w, 2);
    assert_state(&w, SESSION_TERMINATED);
    session_on_event(w.session, NULL);
    world_close(&w);
    assert_int_equal(w.ended_count, 2);
}

static void test_lifetime(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    execute(&w);
    tell_event(&w, SPAWN_EXITED, (struct spawn_stats){.lifetime_over = 1, .is_over = 1});
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_TIMEOUT);
    assert_int_equal(session_info(w.session)->error.code, ERROR_TIMEOUT);
    world_close(&w);
}

static void test_other_sandboxes(void **state)
{
    (void)state;
    struct world w;
    struct spawn_message m = {.verb = SPAWN_EXITED, .sandbox = SANDBOX + 1};
    world_open(&w);
    session_on_event(w.session, &m);
    assert_state(&w, SESSION_READY);
    world_close(&w);
}

/* Children of earlier executions hold their pipes: all but the last few lose them. */
static void test_late_pipes(void **state)
{
    (void)state;
    struct world w;
    int held[8];
    world_open(&w);
    for (int i = 0; i < 8; i++) {
        uint32_t generation = execute(&w);
        held[i] = take_fd(&w.cell[1]);
        close_cell(&w);
        say_done(&w, generation, 0);
        assert_int_equal(write(held[i], "late", 4), 4);
        settle(&w);
    }
    for (int i = 0; i < 8; i++) {
        bool is_lost = write(held[i], "later", 5) < 0;
        assert_int_equal(is_lost, i < 4);
        close(held[i]);
    }
    for (size_t i = 0; i < 8; i++)
        assert_string_equal(w.ended[i].out, "");
    settle(&w);
    world_close(&w);
}

/* One seat: taken from the first moment to the last trace. */
static void test_seat(void **state)
{
    (void)state;
    struct world w;
    struct session *second;
    struct capacity *capacity;
    struct error err;
    const struct capacity_order order = {.max_sandboxes = 1};
    assert_int_equal(capacity_open(&capacity, &order, &err), 0);
    world_init(&w);
    w.template.capacity = capacity;
    open_sealed(&w);
    become_ready(&w);
    assert_int_equal(
        session_open(&second, w.loop, &w.spawner, &w.template, &session_events, &w, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    assert_false(is_asked(&w, SPAWN_CREATE));
    session_close(w.session);
    assert_false(capacity_has_room(capacity, &w.template.limits)); /* it is not gone yet */
    reply(&w, SPAWN_DESTROY, (struct spawn_stats){0});
    assert_state(&w, SESSION_TERMINATED);
    assert_true(capacity_has_room(capacity, &w.template.limits));
    world_close(&w);
    capacity_free(capacity);
}

static void test_give_way(void **state)
{
    (void)state;
    struct world w;
    struct capacity *capacity;
    struct error err;
    const struct capacity_order order = {.max_sandboxes = 1};
    assert_int_equal(capacity_open(&capacity, &order, &err), 0);
    world_init(&w);
    w.template.capacity = capacity;
    open_sealed(&w);
    become_ready(&w);
    session_give_way(w.session);
    assert_state(&w, SESSION_TERMINATING);
    assert_true(capacity_has_room(capacity, &w.template.limits));
    reply(&w, SPAWN_DESTROY, (struct spawn_stats){0});
    assert_state(&w, SESSION_TERMINATED);
    world_close(&w);
    capacity_free(capacity);
}

/* --- the sessions of another host ------------------------------------------------------------ */

#define KNOWN 7 /* the last request that was written down */

static void begin_attach(struct world *w, bool has_execution)
{
    struct error err;
    struct session_record record = {
        .id = "ses_other", .sandbox = SANDBOX, .generation = KNOWN, .has_execution = has_execution};
    world_init(w);
    struct request *r = &w->requests[w->request_count++];
    *r = (struct request){.w = w};
    r->cell = (struct cell_request){.stdin_fd = -1, .timeout_ms = 1000, .output_bytes = 1000};
    const struct session_resumption resumption = {
        .request = &r->cell, .events = &streamed_events, .ctx = r};
    record.execution.generation = KNOWN;
    record.execution.start_ns = clock_now_ns();
    record.execution.told_results = 1;
    assert_int_equal(session_attach(&w->session, w->loop, &w->spawner, &w->template, &record,
                                    &resumption, &session_events, w, &err),
                     0);
    assert_state(w, SESSION_CREATING);
}

/* The spawner gives its fds back; those of the output are fresh. */
static void give_back(struct world *w, bool has_channel, bool has_output)
{
    struct error err;
    struct spawn_message m = {.verb = SPAWN_TAKE, .flags = SPAWN_REPLY, .sandbox = SANDBOX};
    struct output_file file;
    int fds[6], pair[2], count = 0;
    m.entry.state = SPAWN_IS_LIVE;
    m.entry.counts[0] = has_channel;
    m.entry.counts[1] = has_output ? 4 : 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    fds[count++] = pair[0];
    w->init = pair[1];
    if (has_channel) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        fds[count++] = pair[0];
        w->channel = pair[1];
    }
    for (int i = 1; has_output && i < 3; i++) {
        assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
        assert_int_equal(output_file_open(&file, 1000, &err), 0);
        assert_true(output_file_add(&file, "before ", 7));
        fds[count++] = pair[0];
        fds[count++] = file.fd;
        w->cell[i] = pair[1];
    }
    reply_with_all(w, SPAWN_TAKE, &m, fds, (size_t)count);
    reply(w, SPAWN_THAW, (struct spawn_stats){0});
    expect_init(w, GUEST_TELL, 0);
    if (has_channel)
        hear(w, KERNEL_SYNC);
}

static void test_attach_idle(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, false);
    give_back(&w, true, false);
    say(&w, KERNEL_DATA, KERNEL_FIRST, KNOWN + 1, "text/plain\0x", 12); /* the end of a question */
    say_done(&w, KNOWN + 1, 0);
    init_says(&w, GUEST_EXITED, 0, 1, 0); /* of a kernel before a reset */
    init_says(&w, GUEST_TOLD, 1, 1, 0);
    assert_state(&w, SESSION_CREATING);
    say(&w, KERNEL_SYNCED, 0, KNOWN + 1, "", 0);
    assert_state(&w, SESSION_READY);
    assert_string_equal(session_info(w.session)->id, "ses_other");
    say(&w, KERNEL_DATA, KERNEL_FIRST, KNOWN + 1, "text/plain\0x", 12);
    say_done(&w, KNOWN + 1, 0);
    assert_int_equal(execute(&w), KNOWN + 2);
    say_done(&w, KNOWN + 2, 0);
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_COMPLETED);
    world_close(&w);
}

static void test_attach_busy(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, true);
    give_back(&w, true, true);
    assert_state(&w, SESSION_BUSY);
    init_says(&w, GUEST_TOLD, 1, 0, 0);
    say(&w, KERNEL_ERROR, 0, KNOWN, "{}", 2); /* all this comes again */
    say_done(&w, KNOWN, 3);
    assert_state(&w, SESSION_BUSY);
    assert_int_equal(write(w.cell[1], "after", 5), 5);
    say(&w, KERNEL_SYNCED, 0, KNOWN, "", 0);
    say(&w, KERNEL_ERROR, 0, KNOWN, "{}", 2);
    show(&w, KERNEL_FIRST | KERNEL_LAST, KNOWN, "told before");
    show(&w, KERNEL_FIRST | KERNEL_LAST, KNOWN, "new");
    say(&w, KERNEL_SYNCED, 0, KNOWN, "", 0); /* a host in between had asked, too */
    show(&w, KERNEL_FIRST | KERNEL_LAST, KNOWN, "told before");
    show(&w, KERNEL_FIRST | KERNEL_LAST, KNOWN, "new");
    say(&w, KERNEL_DATA, KERNEL_FIRST | KERNEL_MAIN, KNOWN, "text/plain\0002", 12);
    say_done(&w, KNOWN, 0);
    const struct ended *e = last_ended(&w, 1);
    assert_int_equal(e->state, EXECUTION_COMPLETED);
    assert_string_equal(e->out, "before after");
    assert_true(e->has_results);
    assert_non_null(strstr(w.told, "=new "));
    assert_null(strstr(strstr(w.told, "=new ") + 1, "=new "));
    assert_null(strstr(w.told, "told before"));
    assert_true(is_asked(&w, SPAWN_KEEP)); /* its output is of no use any more */
    assert_state(&w, SESSION_READY);
    world_close(&w);
}

static void test_attach_not_begun(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, true);
    give_back(&w, true, false);
    init_says(&w, GUEST_TOLD, 1, 0, 0);
    say(&w, KERNEL_SYNCED, 0, KNOWN - 1, "", 0);
    const struct ended *e = last_ended(&w, 1);
    assert_int_equal(e->state, EXECUTION_LOST);
    assert_string_equal(e->message, "the host ended before the code began");
    assert_state(&w, SESSION_READY);
    assert_int_equal(execute(&w), KNOWN + 1);
    say_done(&w, KNOWN + 1, 0);
    last_ended(&w, 2);
    world_close(&w);
}

static void test_attach_late(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, true);
    give_back(&w, true, true);
    init_says(&w, GUEST_TOLD, 1, 0, 0);
    advance(&w, 1001);
    expect_init(&w, GUEST_SIGNAL, SIGINT);
    say_done(&w, KNOWN, 0);
    say(&w, KERNEL_SYNCED, 0, KNOWN, "", 0);
    say_done(&w, KNOWN, 0);
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_TIMEOUT);
    assert_state(&w, SESSION_READY);
    world_close(&w);
}

static void test_attach_dead(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, true);
    give_back(&w, true, true);
    init_says(&w, GUEST_TOLD, 0, 0, SIGKILL);
    while (init_hears(&w, NULL) == GUEST_KILL)
        ;
    reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    const struct ended *e = last_ended(&w, 1);
    assert_int_equal(e->state, EXECUTION_FAILED);
    assert_int_equal(e->kind, REASON_RUNNER_DIED);
    assert_string_equal(e->out, "before ");
    assert_state(&w, SESSION_FAILED);
    reset(&w); /* whatever is heard from now on is our own */
    expect_start(&w);
    become_ready(&w);
    world_close(&w);
}

/* Started, but its channel was never kept: nobody can speak to it. */
static void test_attach_without_channel(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, false);
    give_back(&w, false, false);
    init_says(&w, GUEST_TOLD, 1, 0, 0);
    expect_init(&w, GUEST_KILL, 0);
    init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

static void test_attach_refused(void **state)
{
    (void)state;
    struct world w;
    begin_attach(&w, true);
    reply_with(&w, SPAWN_TAKE, NULL, -1);
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_LOST);
    assert_state(&w, SESSION_TERMINATED);
    assert_false(is_asked(&w, SPAWN_DESTROY));
    world_close(&w);
}

static void test_attach_closed(void **state)
{
    (void)state;
    struct world w;
    struct spawn_message m = {.verb = SPAWN_TAKE, .flags = SPAWN_REPLY, .sandbox = SANDBOX};
    begin_attach(&w, true);
    session_close(w.session);
    assert_false(is_asked(&w, SPAWN_DESTROY)); /* not before it is known to be there */
    reply_with(&w, SPAWN_TAKE, &m, -1);
    assert_int_equal(last_ended(&w, 1)->state, EXECUTION_LOST);
    assert_true(is_asked(&w, SPAWN_DESTROY));
    world_close(&w);
}

/* It is kept under its label, also after a reset; let go of, it lives on. */
static void test_keep(void **state)
{
    (void)state;
    struct world w;
    struct session_record record;
    uint8_t label[SPAWN_LABEL_BYTES] = {1, 2, 3};
    world_open(&w);
    session_keep(w.session, label);
    reply(&w, SPAWN_KEEP, (struct spawn_stats){0});
    uint32_t generation = execute(&w);
    assert_false(is_asked(&w, SPAWN_KEEP)); /* most executions are over soon */
    advance(&w, 2);
    reply(&w, SPAWN_KEEP, (struct spawn_stats){0});
    assert_int_equal(write(w.cell[1], "hello", 5), 5);
    settle(&w);
    session_get_record(w.session, &record);
    assert_true(record.has_execution);
    assert_int_equal(record.sandbox, SANDBOX);
    assert_int_equal(record.execution.generation, generation);
    assert_int_equal(record.execution.told[0], 5);
    assert_memory_equal(record.label, label, sizeof(label));
    say_done(&w, generation, 0);
    assert_string_equal(last_ended(&w, 1)->out, "hello");
    reply(&w, SPAWN_KEEP, (struct spawn_stats){0}); /* the slot is empty again */
    assert_false(is_asked(&w, SPAWN_KEEP));
    reset(&w);
    init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    expect_start(&w);
    assert_true(is_asked(&w, SPAWN_KEEP));
    become_ready(&w);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "executions come and go", test_life);
    check_one(&check, "results are told as they come, each once", test_results_are_told);
    check_one(&check, "an exception is a failure, whatever its words", test_exception);
    check_one(&check, "busy is a conflict", test_busy);
    check_one(&check, "what waits has its turn in order, up to a limit", test_queue);
    check_one(&check, "a close refuses what waits", test_queue_at_close);
    check_one(&check, "an input that was refused is closed", test_refused_input);
    check_one(&check, "it can be closed when an execution ends", test_close_at_end);
    check_one(&check, "a kernel that dies before it is ready says why", test_death_before_ready);
    check_one(&check, "a kernel that cannot be started", test_not_started);
    check_one(&check, "a kernel that is never ready", test_never_ready);
    check_one(&check, "a kernel that dies between executions", test_death_between);
    check_rows(&check, death_cases, test_death_during);
    check_one(&check, "init's news may come before the channel's end", test_exit_before_end);
    check_one(&check, "a closed channel ends a kernel that lives", test_closed_and_alive);
    check_one(&check, "a sandbox that went is judged by its counters", test_init_dies);
    check_one(&check, "a sandbox that went without a word", test_init_dies_silently);
    check_one(&check, "a death after DONE changes no verdict", test_death_after_done);
    check_one(&check, "frames of an older request are dropped", test_old_frames);
    check_one(&check, "frames of a request to come end it", test_future_frames);
    check_one(&check, "nonsense between executions fails the session", test_poison_between);
    check_one(&check, "a timeout interrupts, and the state lives on", test_timeout);
    check_one(&check, "a timeout kills what does not listen", test_timeout_kill);
    check_one(&check, "a timeout needs no turn of init's", test_timeout_cull);
    check_one(&check, "a kill by the spawner may come too late", test_cull_after_end);
    check_one(&check, "a DONE after the kill saves nothing", test_done_after_kill);
    check_one(&check, "an interrupt, and a second one", test_interrupt);
    check_one(&check, "a cancel kills after a while", test_cancel);
    check_one(&check, "an idle session is closed", test_idle);
    check_one(&check, "so is one that has failed", test_idle_failed);
    check_one(&check, "a question has one answer", test_question);
    check_one(&check, "a question has its time", test_question_late);
    check_one(&check, "a question is answered whatever ends it", test_question_ends);
    check_one(&check, "a reset starts another kernel", test_reset);
    check_one(&check, "a reset cancels what runs", test_reset_while_busy);
    check_one(&check, "a reset waits for the files", test_reset_while_collecting);
    check_one(&check, "a reset of one that starts", test_reset_while_starting);
    check_one(&check, "a reset of one that ends is refused", test_reset_refused);
    check_one(&check, "a close cancels what runs, once", test_close_while_busy);
    check_one(&check, "a close does not wait for counters", test_close_while_counting);
    check_one(&check, "a close while it is created", test_close_while_creating);
    check_one(&check, "a sandbox that cannot be made", test_not_created);
    check_one(&check, "a sandbox that cannot be sealed", test_not_sealed);
    check_one(&check, "without a spawner all ends", test_spawner_gone);
    check_one(&check, "a lifetime ends it", test_lifetime);
    check_one(&check, "news of other sandboxes", test_other_sandboxes);
    check_one(&check, "pipes of earlier executions are few", test_late_pipes);
    check_one(&check, "it has a seat as long as it lives", test_seat);
    check_one(&check, "one that gives way has none", test_give_way);
    check_one(&check, "another host's idle session goes on at its SYNCED", test_attach_idle);
    check_one(&check, "so does its execution, output and all", test_attach_busy);
    check_one(&check, "one that never arrived is lost", test_attach_not_begun);
    check_one(&check, "its time limit counts on", test_attach_late);
    check_one(&check, "a death that the host before was told is told again", test_attach_dead);
    check_one(&check, "a kernel that nobody can speak to is killed", test_attach_without_channel);
    check_one(&check, "a sandbox that is no more", test_attach_refused);
    check_one(&check, "a close before the spawner's answer", test_attach_closed);
    check_one(&check, "what the next host needs is kept", test_keep);
    return check_run(&check, "session");
}
