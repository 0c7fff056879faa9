/* test_spawner_client.c - requests and answers, with a spawner that this program plays itself
 *
 * Started as "cove-spawner", it acts one of the parts below, named by the value of --run-dir. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/spawner_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "check.h"

/* --- the parts ------------------------------------------------------------------------------- */

static bool hear(struct spawn_message *m)
{
    int fds[FD_PASS_MAX];
    size_t count;
    return fd_recv(SPAWN_CLIENT_FD, m, sizeof(*m), fds, &count) == sizeof(*m) && count == 0;
}

static void say(const struct spawn_message *m, size_t fd_count)
{
    static const int fds[2] = {0, 1};
    (void)!fd_send(SPAWN_CLIENT_FD, m, sizeof(*m), fds, fd_count);
}

static void say_yes(const struct spawn_message *m, size_t fd_count)
{
    struct spawn_message reply = {
        .serial = m->serial, .verb = m->verb, .flags = SPAWN_REPLY, .sandbox = m->sandbox};
    say(&reply, fd_count);
}

static void play_good(void)
{
    struct spawn_message m;
    while (hear(&m))
        say_yes(&m, m.verb == SPAWN_CREATE ? 1 : 0);
}

/* Hello, then three requests answered from the last to the first. */
static void play_reverse(void)
{
    struct spawn_message m[3], hello;
    bool has_all = hear(&hello);
    say_yes(&hello, 0);
    for (size_t i = 0; i < 3; i++)
        has_all = has_all && hear(&m[i]);
    for (size_t i = 3; has_all && i-- > 0;)
        say_yes(&m[i], 0);
    play_good();
}

static void play_dead(void)
{
}

static void play_mute(void)
{
    struct spawn_message m;
    (void)(hear(&m) && hear(&m)); /* dies with two requests open */
}

static void play_short(void)
{
    struct spawn_message m;
    static const int fds[2] = {0, 1};
    if (hear(&m))
        (void)!fd_send(SPAWN_CLIENT_FD, &m, sizeof(m) - 1, fds, 2);
    (void)hear(&m); /* until the client closes */
}

/* Answers and news that nobody asked for, with fds, before the real answer. */
static void play_gossip(void)
{
    struct spawn_message m;
    if (!hear(&m))
        return;
    say(&(struct spawn_message){.serial = 777, .verb = SPAWN_PING, .flags = SPAWN_REPLY}, 2);
    say(&(struct spawn_message){.verb = SPAWN_EXITED, .sandbox = 5}, 2);
    say(&(struct spawn_message){.verb = SPAWN_KILL, .sandbox = 5}, 1);
    say_yes(&m, 0);
    play_good();
}

static void play_failing(void)
{
    static const struct spawn_failure failures[] = {
        {.code = ERROR_ISOLATION, .sys_errno = EPERM, .layer = LAYER_LANDLOCK, .step = "rules"},
        {.code = ERROR_NOT_FOUND, .layer = -1, .step = "open image"},
        {.code = ERROR_UNAVAILABLE, .sys_errno = ENOSPC, .layer = LAYER_COUNT, .step = "slots"},
        {.code = 9999, .sys_errno = 9999, .layer = -7, .step = "x"},
    };
    struct spawn_message m;
    for (size_t i = 0; hear(&m); i = (i + 1) % (ARRAY_LEN(failures) + 1)) {
        struct spawn_message reply = {
            .serial = m.serial, .verb = m.verb, .flags = SPAWN_REPLY | SPAWN_FAILED};
        reply.failure = failures[MIN(i, ARRAY_LEN(failures) - 1)];
        if (i == ARRAY_LEN(failures)) {
            reply.failure.sys_errno = 0;
            memset(reply.failure.step, 's', sizeof(reply.failure.step)); /* without an end */
        }
        say(&reply, 0);
    }
}

/* Answers the first request and goes, with the second one unread: the connection is reset. */
static void play_hasty(void)
{
    struct spawn_message m;
    struct pollfd second = {.fd = SPAWN_CLIENT_FD, .events = POLLIN};
    if (hear(&m) && poll(&second, 1, -1) == 1)
        say_yes(&m, 0);
}

static const struct {
    const char *name;
    void (*play)(void);
} parts[] = {
    {"good", play_good},       {"reverse", play_reverse}, {"dead", play_dead},
    {"mute", play_mute},       {"short", play_short},     {"gossip", play_gossip},
    {"failing", play_failing}, {"hasty", play_hasty},
};

/* argv as the client builds it; a wrong one ends the connection, which fails the test. */
static int play(int argc, char **argv)
{
    extern char **environ;
    bool is_right = argc == 9 && strcmp(argv[1], "--run-dir") == 0 &&
                    strcmp(argv[3], "--cgroup-parent") == 0 && strcmp(argv[4], "parent") == 0 &&
                    strcmp(argv[5], "--store") == 0 && strcmp(argv[6], "/one") == 0 &&
                    strcmp(argv[7], "--store") == 0 && strcmp(argv[8], "/two") == 0 &&
                    environ[0] == NULL && getpgrp() == getpid();
    for (size_t i = 0; is_right && i < ARRAY_LEN(parts); i++) {
        if (strcmp(argv[2], parts[i].name) == 0)
            parts[i].play();
    }
    _exit(0);
}

/* --- the client ------------------------------------------------------------------------------ */

#define ANSWERS_MAX 16

struct world {
    struct loop *loop;
    struct spawner_client *client;
    unsigned answers, wanted; /* the loop stops at `wanted` */
    struct {
        bool is_good;
        uint32_t serial;
        int fd;
        struct error err;
    } got[ANSWERS_MAX];
    unsigned exits;
    uint64_t exited_sandbox;
    bool is_gone;
};

static void on_reply(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    struct world *w = ctx;
    assert_true(w->answers < ANSWERS_MAX);
    assert_true(!m == !!err);
    w->got[w->answers].is_good = m;
    w->got[w->answers].serial = m ? m->serial : 0;
    w->got[w->answers].fd = take_fd(&fds[0]);
    if (err)
        w->got[w->answers].err = *err;
    if (++w->answers == w->wanted)
        loop_stop(w->loop);
}

static void on_exited(void *ctx, const struct spawn_message *m)
{
    struct world *w = ctx;
    w->exits++;
    w->is_gone = !m;
    if (m)
        w->exited_sandbox = m->sandbox;
    else
        loop_stop(w->loop);
}

static void world_open(struct world *w, const char *part)
{
    static const char *const stores[] = {"/one", "/two", NULL};
    const struct spawner_settings settings = {
        .program = "/proc/self/exe", .run_dir = part, .cgroup_parent = "parent", .stores = stores};
    struct error err;
    *w = (struct world){.answers = 0};
    assert_int_equal(loop_open(&w->loop, &err), 0);
    assert_int_equal(
        spawner_client_open(&w->client, w->loop, &settings, on_reply, on_exited, w, &err), 0);
}

static void world_close(struct world *w)
{
    spawner_client_free(w->client);
    loop_free(w->loop);
}

static void run_until(struct world *w, unsigned answers)
{
    w->wanted = answers;
    if (w->answers < answers)
        loop_run(w->loop);
}

static void ask(struct world *w, enum spawn_verb verb)
{
    struct spawn_message m = {.verb = verb};
    spawner_client_ask(w->client, &m, on_reply, w);
}

static void test_good(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, "good");
    run_until(&w, 1);
    assert_true(w.answers == 1 && w.got[0].is_good && w.got[0].fd == -1);
    ask(&w, SPAWN_CREATE);
    run_until(&w, 2);
    assert_true(w.got[1].is_good && w.got[1].fd >= 0);
    assert_true(fcntl(w.got[1].fd, F_GETFD) & FD_CLOEXEC);
    close(w.got[1].fd);
    ask(&w, SPAWN_DESTROY);
    run_until(&w, 3);
    assert_true(w.got[2].is_good);
    assert_int_equal(w.exits, 0);
    world_close(&w);
}

/* An answer that nobody waits for, and the fds with it. */
static void test_unheard(void **state)
{
    (void)state;
    static const char *const ways[] = {"good", "mute"};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        unsigned fds_before = check_count_fds();
        struct world w;
        struct spawn_message m = {.verb = SPAWN_CREATE};
        world_open(&w, ways[i]);
        spawner_client_ask(w.client, &m, NULL, NULL);
        ask(&w, SPAWN_PING);
        run_until(&w, 2);
        assert_int_equal(w.answers, 2);
        world_close(&w);
        check_fds(fds_before);
    }
}

/* Somebody else hears the answers that one waits for, and no others. */
static void test_redirected(void **state)
{
    (void)state;
    struct world w;
    struct spawn_message m = {.verb = SPAWN_PING};
    int gone;
    world_open(&w, "reverse");
    run_until(&w, 1);
    spawner_client_ask(w.client, &m, on_reply, &gone);
    spawner_client_ask(w.client, &m, NULL, NULL);
    ask(&w, SPAWN_PING);
    spawner_client_redirect(w.client, &gone, on_reply, &w);
    run_until(&w, 3);
    assert_int_equal(w.answers, 3);
    assert_int_equal(w.got[1].serial, 4);
    assert_int_equal(w.got[2].serial, 2);
    world_close(&w);
}

/* With a sandbox left, the free waits for the spawner to remove it. */
static void test_waits(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, "good");
    ask(&w, SPAWN_CREATE);
    run_until(&w, 2);
    close(w.got[1].fd);
    world_close(&w);
}

static void test_reverse(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, "reverse");
    run_until(&w, 1);
    for (int i = 0; i < 3; i++)
        ask(&w, SPAWN_PING);
    run_until(&w, 4);
    assert_int_equal(w.answers, 4);
    assert_int_equal(w.got[1].serial, 4);
    assert_int_equal(w.got[2].serial, 3);
    assert_int_equal(w.got[3].serial, 2);
    world_close(&w);
}

static void test_gone(void **state)
{
    (void)state;
    static const char *const ways[] = {"dead", "mute", "short"};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        unsigned fds_before = check_count_fds();
        struct world w;
        world_open(&w, ways[i]);
        ask(&w, SPAWN_PING);
        ask(&w, SPAWN_PING);
        w.wanted = ANSWERS_MAX; /* not the answers end it, but the news that it is gone */
        loop_run(w.loop);
        assert_int_equal(w.answers, 3); /* each request is answered, once */
        for (size_t a = 0; a < 3; a++) {
            assert_false(w.got[a].is_good);
            assert_int_equal(w.got[a].err.code, ERROR_UNAVAILABLE);
        }
        assert_true(w.exits == 1 && w.is_gone);
        world_close(&w);
        check_fds(fds_before);
    }
}

static void test_gossip(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, "gossip");
    unsigned fds_before = check_count_fds();
    run_until(&w, 1);
    assert_true(w.answers == 1 && w.got[0].is_good && w.got[0].serial == 1);
    assert_true(w.exits == 1 && !w.is_gone);
    assert_int_equal(w.exited_sandbox, 5);
    check_fds(fds_before); /* nobody owned those fds */
    world_close(&w);
}

static void test_failing(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, "failing");
    for (int i = 0; i < 4; i++)
        ask(&w, SPAWN_CREATE);
    run_until(&w, 5);
    assert_int_equal(w.answers, 5);
    const struct error *layer = &w.got[0].err, *plain = &w.got[1].err;
    assert_int_equal(layer->code, ERROR_ISOLATION);
    assert_int_equal(layer->sys_errno, EPERM);
    assert_non_null(strstr(layer->msg, "landlock"));
    assert_non_null(strstr(layer->msg, "rules"));
    assert_true(layer->hint[0] != '\0');
    assert_int_equal(plain->code, ERROR_NOT_FOUND);
    assert_string_equal(plain->msg, "open image");
    assert_int_equal(w.got[2].err.code, ERROR_UNAVAILABLE);
    assert_non_null(strstr(w.got[2].err.msg, "slots: "));
    assert_int_equal(w.got[3].err.code, ERROR_INTERNAL); /* a code that we do not know */
    assert_int_equal(w.got[4].err.code, ERROR_INTERNAL);
    assert_int_equal(strspn(w.got[4].err.msg, "s"), SPAWN_STEP_BYTES);
    world_close(&w);
}

static void test_hasty(void **state)
{
    (void)state;
    struct world w;
    siginfo_t info;
    world_open(&w, "hasty");
    ask(&w, SPAWN_PING);
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
    run_until(&w, 2);
    assert_true(w.answers == 2 && w.got[0].is_good && w.got[0].serial == 1);
    assert_false(w.got[1].is_good);
    assert_int_equal(w.got[1].err.code, ERROR_UNAVAILABLE);
    world_close(&w);
}

static void test_drop(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, "good");
    ask(&w, SPAWN_PING);
    world_close(&w); /* no call comes for what was open */
    assert_int_equal(w.answers, 0);
    assert_int_equal(w.exits, 0);
}

static void test_no_program(void **state)
{
    (void)state;
    static const char *const stores[] = {NULL};
    const struct spawner_settings settings = {.program = "/nonexistent/spawner", .stores = stores};
    struct spawner_client *client = NULL;
    struct world w = {.answers = 0};
    struct error err;
    unsigned fds_before = check_count_fds();
    assert_int_equal(loop_open(&w.loop, &err), 0);
    assert_int_equal(spawner_client_open(&client, w.loop, &settings, on_reply, on_exited, &w, &err),
                     -1);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_null(client);
    loop_free(w.loop);
    check_fds(fds_before);
}

int main(int argc, char **argv)
{
    if (strcmp(argv[0], "cove-spawner") == 0)
        return play(argc, argv);
    struct check check = {.count = 0};
    check_one(&check, "requests are answered, a new sandbox brings its fd", test_good);
    check_one(&check, "an answer that nobody waits for is dropped", test_unheard);
    check_one(&check, "an answer goes to whom it was redirected to", test_redirected);
    check_one(&check, "with a sandbox left the end is waited for", test_waits);
    check_one(&check, "answers find their requests in any order", test_reverse);
    check_one(&check, "a spawner that goes away answers every request", test_gone);
    check_one(&check, "what nobody asked for is dropped, with its fds", test_gossip);
    check_one(&check, "failures become errors that say what is missing", test_failing);
    check_one(&check, "the last answer of a spawner that went is not lost", test_hasty);
    check_one(&check, "open requests are dropped without a call", test_drop);
    check_one(&check, "a program that is not there is an error", test_no_program);
    return check_run(&check, "spawner_client");
}
