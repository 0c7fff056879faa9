/* test_guest.c - what goes to cove-init, and what is made of its answers */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/guest.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "check.h"
#include "init/program.h"

struct world {
    struct loop *loop;
    struct guest *guest;
    int init_fd; /* the other end */
    unsigned fds_before;
    unsigned messages;
    bool is_gone;
    struct guest_message last;
};

static void on_message(void *ctx, const struct guest_message *m)
{
    struct world *w = ctx;
    w->messages++;
    w->is_gone = !m;
    if (m)
        w->last = *m;
    loop_stop(w->loop);
}

static void world_open(struct world *w)
{
    struct error err;
    int pair[2], size = 2 * GUEST_STRINGS_MAX;
    assert_int_equal(loop_open(&w->loop, &err), 0);
    loop_free(w->loop); /* the first one of a process keeps descriptors of its own */
    *w = (struct world){.fds_before = check_count_fds()};
    assert_int_equal(loop_open(&w->loop, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)); /* as the spawner does */
    w->init_fd = pair[1];
    assert_int_equal(guest_open(&w->guest, w->loop, pair[0], on_message, w, &err), 0);
}

static void world_close(struct world *w)
{
    guest_free(w->guest);
    loop_free(w->loop);
    if (w->init_fd >= 0)
        close(w->init_fd);
    check_fds(w->fds_before);
}

/* --- to init --------------------------------------------------------------------------------- */

static struct {
    struct guest_message m;
    char strings[GUEST_STRINGS_MAX];
} received;

static size_t receive(struct world *w, size_t *fd_count)
{
    int fds[FD_PASS_MAX];
    ssize_t n = fd_recv(w->init_fd, &received, sizeof(received), fds, fd_count);
    assert_true(n >= (ssize_t)sizeof(received.m));
    for (size_t i = 0; i < *fd_count; i++)
        close(fds[i]);
    return (size_t)n;
}

/* What is sent is what cove-init's own parser understands. */
static void test_start(void **state)
{
    (void)state;
    static const char *const argv[] = {"/bin/python3", "", "-c", "print(1)\n", NULL};
    static const char *const env[] = {"A=b", "EMPTY=", NULL};
    static struct program program;
    struct world w;
    struct error err;
    size_t fd_count;
    const int fds[3] = {0, 1, 2};
    const struct guest_program start = {.directory = "/workspace", .argv = argv, .env = env};
    world_open(&w);
    assert_int_equal(guest_start(w.guest, &start, fds, 3, &err), 0);
    size_t n = receive(&w, &fd_count);
    assert_int_equal(fd_count, 3);
    assert_int_equal(received.m.verb, GUEST_START);
    assert_int_equal(received.m.strings_len, n - sizeof(received.m));
    assert_true(program_parse(&program, &received.m, received.strings));
    assert_string_equal(program.directory, "/workspace");
    for (size_t i = 0; i < ARRAY_LEN(argv) - 1; i++)
        assert_string_equal(program.argv[i], argv[i]);
    assert_null(program.argv[4]);
    assert_string_equal(program.envp[0], "A=b");
    assert_string_equal(program.envp[1], "EMPTY=");
    assert_null(program.envp[2]);
    world_close(&w);
}

/* Up to the limit in bytes, and not one more. */
static void test_start_size(void **state)
{
    (void)state;
    static char text[GUEST_STRINGS_MAX];
    const char *const argv[] = {text, NULL};
    static const char *const env[] = {NULL};
    const struct guest_program start = {.directory = "/", .argv = argv, .env = env};
    const int fds[3] = {0, 1, 2};
    struct world w;
    struct error err;
    size_t fd_count;
    world_open(&w);
    memset(text, 'x', sizeof(text));
    text[GUEST_STRINGS_MAX - 2 - 1] = '\0'; /* "/" and both ends */
    assert_int_equal(guest_start(w.guest, &start, fds, 3, &err), 0);
    assert_int_equal(receive(&w, &fd_count), sizeof(received));
    memset(text, 'x', sizeof(text));
    text[GUEST_STRINGS_MAX - 2] = '\0';
    assert_int_equal(guest_start(w.guest, &start, fds, 3, &err), -1);
    assert_int_equal(err.code, ERROR_TOO_LARGE);
    world_close(&w);
}

static void test_start_count(void **state)
{
    (void)state;
    static const char *words[GUEST_ARGS_MAX + 2];
    static const char *const none[] = {NULL}, *const one[] = {"/bin/true", NULL};
    const int fds[3] = {0, 1, 2};
    struct world w;
    struct error err;
    size_t fd_count;
    world_open(&w);
    for (size_t i = 0; i < GUEST_ARGS_MAX; i++)
        words[i] = "w";
    const struct guest_program most = {.directory = "/", .argv = words, .env = none};
    assert_int_equal(guest_start(w.guest, &most, fds, 3, &err), 0);
    receive(&w, &fd_count);
    assert_int_equal(received.m.argc, GUEST_ARGS_MAX);
    words[GUEST_ARGS_MAX] = "w";
    assert_int_equal(guest_start(w.guest, &most, fds, 3, &err), -1);
    assert_int_equal(err.code, ERROR_TOO_LARGE);
    const struct guest_program variables = {.directory = "/", .argv = one, .env = words};
    assert_int_equal(guest_start(w.guest, &variables, fds, 3, &err), -1);
    assert_int_equal(err.code, ERROR_TOO_LARGE);
    world_close(&w);
}

static void test_verbs(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    size_t fd_count;
    world_open(&w);
    assert_int_equal(guest_files(w.guest, GUEST_FILES_GET, 0, 1, 0, &err), 0);
    assert_int_equal(receive(&w, &fd_count), sizeof(received.m));
    assert_int_equal(received.m.verb, GUEST_FILES);
    assert_int_equal(received.m.value, GUEST_FILES_GET);
    assert_int_equal(fd_count, 2);
    guest_signal(w.guest, SIGINT);
    receive(&w, &fd_count);
    assert_int_equal(received.m.verb, GUEST_SIGNAL);
    assert_int_equal(received.m.value, SIGINT);
    guest_kill(w.guest);
    receive(&w, &fd_count);
    assert_int_equal(received.m.verb, GUEST_KILL);
    world_close(&w);
}

static void test_dead_channel(void **state)
{
    (void)state;
    static const char *const argv[] = {"/bin/true", NULL}, *const env[] = {NULL};
    const struct guest_program start = {.directory = "/", .argv = argv, .env = env};
    const int fds[3] = {0, 1, 2};
    struct world w;
    struct error err;
    world_open(&w);
    close(w.init_fd);
    w.init_fd = -1;
    guest_signal(w.guest, SIGINT); /* no SIGPIPE, no word */
    guest_kill(w.guest);
    assert_int_equal(guest_start(w.guest, &start, fds, 3, &err), -1);
    assert_int_equal(err.sys_errno, EPIPE);
    assert_int_equal(guest_files(w.guest, GUEST_FILES_LIST, 0, 1, 0, &err), -1);
    loop_run(w.loop);
    assert_true(w.messages == 1 && w.is_gone);
    world_close(&w);
}

static void say_done(struct world *w, uint32_t epoch)
{
    const struct guest_message m = {.verb = GUEST_FILES_DONE, .flags = epoch};
    assert_int_equal(write(w->init_fd, &m, sizeof(m)), sizeof(m));
}

/* The end of what an earlier host asked for, or of what was given up, is nobody's. */
static void test_stale_files(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    size_t fd_count;
    world_open(&w);
    assert_int_equal(guest_files(w.guest, GUEST_FILES_LIST, 0, 1, 0, &err), 0);
    receive(&w, &fd_count);
    uint32_t before = received.m.flags;
    guest_forget_files(w.guest);
    assert_int_equal(guest_files(w.guest, GUEST_FILES_LIST, 0, 1, 0, &err), 0);
    receive(&w, &fd_count);
    assert_int_not_equal(received.m.flags, before);
    say_done(&w, before);
    say_done(&w, received.m.flags);
    loop_run(w.loop);
    assert_int_equal(w.messages, 1);
    assert_int_equal(w.last.flags, received.m.flags);
    world_close(&w);
}

/* --- from init ------------------------------------------------------------------------------- */

static void test_message(void **state)
{
    (void)state;
    struct world w;
    const struct guest_message m = {.verb = GUEST_EXITED, .exit_code = 3};
    world_open(&w);
    unsigned fds_before = check_count_fds();
    assert_int_equal(fd_send(w.init_fd, &m, sizeof(m), NULL, 0), 0);
    loop_run(w.loop);
    assert_memory_equal(&w.last, &m, sizeof(m));
    const int gift[2] = {0, 1}; /* init has none to give: they are closed */
    assert_int_equal(fd_send(w.init_fd, &m, sizeof(m), gift, 2), 0);
    loop_run(w.loop);
    assert_int_equal(w.messages, 2);
    check_fds(fds_before);
    world_close(&w);
}

struct nonsense_case {
    const char *name;
    size_t len;
    size_t fd_count;
};

static const struct nonsense_case nonsense[] = {
    {"a message of one byte", 1, 0},
    {"a message one byte too short", sizeof(struct guest_message) - 1, 0},
    {"a message one byte too long", sizeof(struct guest_message) + 1, 0},
    {"a short message with fds", 5, 3},
    {"a long message with fds", 500, 3},
};

static void test_nonsense(void **state)
{
    const struct nonsense_case *row = *state;
    struct world w;
    char data[512] = {0};
    const int fds[3] = {0, 1, 2};
    world_open(&w);
    unsigned fds_before = check_count_fds();
    assert_int_equal(fd_send(w.init_fd, data, row->len, fds, row->fd_count), 0);
    loop_run(w.loop);
    assert_true(w.messages == 1 && w.is_gone);
    check_fds(fds_before);
    loop_run(w.loop); /* it is not watched any more, so this ends */
    assert_int_equal(w.messages, 1);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "a start is what cove-init's parser reads", test_start);
    check_one(&check, "strings may fill the message, and no more", test_start_size);
    check_one(&check, "words are counted", test_start_count);
    check_one(&check, "files, signals and kills are one message each", test_verbs);
    check_one(&check, "the end of what nobody waits for is not told", test_stale_files);
    check_one(&check, "a dead channel is told once", test_dead_channel);
    check_one(&check, "a message is handed on, its fds are not", test_message);
    check_rows(&check, nonsense, test_nonsense);
    return check_run(&check, "guest");
}
