/* test_run.c - one run whose spawner and cove-init are played by the test */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "check.h"
#include "stage.h"
#include "wire/guest.h"

#define SANDBOX    5
#define TIMEOUT_MS 1000

static const char *const argv[] = {"/program", NULL};

struct scene {
    struct loop *loop;
    struct spawner_client spawner;
    struct run *run;
    struct run_request request;
    int init;       /* cove-init's end of its socket */
    int streams[3]; /* the program's */
    unsigned endings;
    enum execution_state state;
    enum reason_kind kind;
    struct error error;
    unsigned fds_before;
};

static void on_ended(void *ctx, const struct execution *e)
{
    struct scene *s = ctx;
    s->endings++;
    s->state = e->verdict.state;
    s->kind = e->verdict.kind;
    s->error = e->error;
}

static const struct execution_events events = {.ended = on_ended};

static void begin(struct scene *s)
{
    struct error err;
    stage_begin();
    *s = (struct scene){.init = -1, .streams = {-1, -1, -1}};
    assert_int_equal(loop_open(&s->loop, &err), 0);
    loop_free(s->loop); /* the first one of a process keeps descriptors of its own */
    s->fds_before = check_count_fds();
    assert_int_equal(loop_open(&s->loop, &err), 0);
    s->request = (struct run_request){.argv = argv,
                                      .env = argv + 1,
                                      .stdin_fd = -1,
                                      .timeout_ms = TIMEOUT_MS,
                                      .output_bytes = 1000,
                                      .wants_usage = true};
    assert_int_equal(run_begin(&s->run, s->loop, &s->spawner, &s->request, &events, s, &err), 0);
}

static void close_scene(struct scene *s)
{
    assert_int_equal(s->endings, 1);
    run_free(s->run);
    scoped_close_fd(&s->init);
    for (int i = 0; i < 3; i++)
        scoped_close_fd(&s->streams[i]);
    stage_settle(s->loop);
    loop_free(s->loop);
    assert_false(stage_has_timers());
    check_fds(s->fds_before);
}

static void reply(struct scene *s, enum spawn_verb verb, int fd)
{
    struct spawn_message m = {.verb = (uint16_t)verb, .flags = SPAWN_REPLY, .sandbox = SANDBOX};
    stage_reply(&s->spawner, verb, &m, &fd, 1);
}

static void create(struct scene *s)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    s->init = pair[1];
    reply(s, SPAWN_CREATE, pair[0]);
}

static void tell(struct scene *s, enum spawn_verb verb)
{
    struct spawn_message m = {.verb = (uint16_t)verb, .sandbox = SANDBOX};
    if (verb == SPAWN_EXITED)
        m.stats.is_over = 1;
    run_on_event(s->run, &m);
}

/* The next word to init; the streams of a start are kept. */
static enum guest_verb hear(struct scene *s)
{
    static struct {
        struct guest_message m;
        char strings[GUEST_STRINGS_MAX];
    } request;
    int fds[FD_PASS_MAX];
    size_t count;
    assert_int_equal(fd_set_nonblock(s->init), 0);
    if (fd_recv(s->init, &request, sizeof(request), fds, &count) <= 0)
        return 0;
    for (size_t i = 0; request.m.verb == GUEST_START && i < count; i++)
        s->streams[i] = fds[i];
    return request.m.verb;
}

static void say(struct scene *s, enum guest_verb verb, int exit_code, int signal)
{
    const struct guest_message m = {.verb = verb, .exit_code = exit_code, .signal = signal};
    assert_int_equal(send(s->init, &m, sizeof(m), MSG_NOSIGNAL), sizeof(m));
    stage_settle(s->loop);
}

static void start(struct scene *s)
{
    create(s);
    tell(s, SPAWN_SEALED);
    assert_int_equal(hear(s), GUEST_START);
    say(s, GUEST_STARTED, 0, 0);
}

/* The program ends, and its streams with it. */
static void exit_with(struct scene *s, int exit_code, int signal)
{
    for (int i = 0; i < 3; i++)
        close(take_fd(&s->streams[i]));
    say(s, GUEST_EXITED, exit_code, signal);
}

static void expect(const struct scene *s, enum execution_state state, enum reason_kind kind)
{
    assert_int_equal(s->endings, 1);
    assert_int_equal(s->state, state);
    assert_int_equal(s->kind, kind);
}

static void test_good(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    start(&s);
    exit_with(&s, 0, 0);
    assert_int_equal(s.endings, 0); /* not before all of it is gone */
    reply(&s, SPAWN_DESTROY, -1);
    expect(&s, EXECUTION_COMPLETED, REASON_NONE);
    close_scene(&s);
}

static void test_timeout(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    start(&s);
    stage_advance(s.loop, TIMEOUT_MS);
    assert_int_equal(hear(&s), GUEST_KILL);
    stage_advance(s.loop, 100); /* it does not say that it did */
    reply(&s, SPAWN_KILL, -1);
    tell(&s, SPAWN_EXITED);
    stage_advance(s.loop, 500); /* nor do the streams end */
    reply(&s, SPAWN_DESTROY, -1);
    expect(&s, EXECUTION_TIMEOUT, REASON_TIMEOUT);
    close_scene(&s);
}

static void test_kill_while_creating(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    run_kill(s.run);
    assert_int_equal(s.endings, 0); /* there may be a sandbox to remove */
    create(&s);
    reply(&s, SPAWN_DESTROY, -1);
    expect(&s, EXECUTION_CANCELLED, REASON_CANCELLED);
    close_scene(&s);
}

/* It may run, and have said so, before init's word of it is read. */
static void test_interrupt_while_starting(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    create(&s);
    tell(&s, SPAWN_SEALED);
    assert_int_equal(hear(&s), GUEST_START);
    run_interrupt(s.run);
    assert_int_equal(hear(&s), GUEST_SIGNAL);
    assert_false(stage_is_asked(&s.spawner, SPAWN_DESTROY));
    say(&s, GUEST_STARTED, 0, 0);
    exit_with(&s, 0, 0);
    reply(&s, SPAWN_DESTROY, -1);
    expect(&s, EXECUTION_CANCELLED, REASON_CANCELLED);
    close_scene(&s);
}

/* Whoever is quicker, the end of its socket or the news that it had been sealed. */
static void test_init_dies_first(void **state)
{
    (void)state;
    for (int is_sealed = 0; is_sealed < 2; is_sealed++) {
        struct scene s;
        begin(&s);
        create(&s);
        if (is_sealed)
            tell(&s, SPAWN_SEALED);
        close(take_fd(&s.init));
        stage_settle(s.loop);
        if (!is_sealed)
            tell(&s, SPAWN_SEALED);
        tell(&s, SPAWN_EXITED);
        assert_true(stage_is_asked(&s.spawner, SPAWN_DESTROY));
        reply(&s, SPAWN_DESTROY, -1);
        expect(&s, EXECUTION_LOST, REASON_INFRASTRUCTURE);
        assert_int_equal(s.error.code, ERROR_UNAVAILABLE);
        close_scene(&s);
    }
}

/* Not even the first word reaches it: the reason is the spawner's to tell. */
static void test_seal_fails_first(void **state)
{
    (void)state;
    const struct spawn_message failed = {.verb = SPAWN_SEALED,
                                         .flags = SPAWN_FAILED,
                                         .sandbox = SANDBOX,
                                         .failure = {.step = "mount /proc"}};
    int pair[2];
    struct scene s;
    begin(&s);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    close(pair[1]);
    reply(&s, SPAWN_CREATE, pair[0]);
    stage_settle(s.loop);
    assert_int_equal(s.endings, 0);
    run_on_event(s.run, &failed);
    expect(&s, EXECUTION_LOST, REASON_INFRASTRUCTURE);
    assert_int_equal(s.error.code, ERROR_ISOLATION);
    close_scene(&s);
}

static void test_spawner_gone(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    start(&s);
    run_on_event(s.run, NULL);
    expect(&s, EXECUTION_LOST, REASON_INFRASTRUCTURE);
    run_on_event(s.run, NULL);
    close_scene(&s);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "a program runs, and nothing is left", test_good);
    check_one(&check, "a timeout kills, and does not wait for ever", test_timeout);
    check_one(&check, "a kill while it is created", test_kill_while_creating);
    check_one(&check, "an interrupt while it starts", test_interrupt_while_starting);
    check_one(&check, "a sandbox that dies before its program starts", test_init_dies_first);
    check_one(&check, "a seal that fails before it is spoken to", test_seal_fails_first);
    check_one(&check, "without a spawner it ends", test_spawner_gone);
    return check_run(&check, "run");
}
