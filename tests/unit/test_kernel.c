/* test_kernel.c - the channel to a kernel, with a kernel that this program plays itself */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"
#include "pattern.h"

struct world {
    struct loop *loop;
    struct kernel *kernel;
    int theirs;
    unsigned messages, wanted; /* the loop stops at `wanted` */
    struct frame_message last; /* body: a copy, owned */
    char *body;
    unsigned ends;
    const char *why;
    bool frees_itself;
};

static void on_message(void *ctx, const struct frame_message *m, const char *why)
{
    struct world *w = ctx;
    if (m) {
        w->last = *m;
        free(w->body);
        w->body = xmalloc(m->len + 1);
        memcpy(w->body, m->body, m->len);
        w->messages++;
    } else {
        w->ends++;
        w->why = why;
    }
    if (w->frees_itself)
        kernel_free(take_ptr(&w->kernel));
    if (!m || w->messages == w->wanted)
        loop_stop(w->loop);
}

static void world_open(struct world *w)
{
    struct error err;
    int pair[2];
    *w = (struct world){0};
    assert_int_equal(loop_open(&w->loop, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w->theirs = pair[1];
    assert_int_equal(kernel_open(&w->kernel, w->loop, pair[0], on_message, w, &err), 0);
}

static void world_close(struct world *w)
{
    kernel_free(w->kernel);
    scoped_close_fd(&w->theirs);
    loop_free(w->loop);
    free(w->body);
}

static void say(struct world *w, unsigned type, unsigned flags, uint32_t generation,
                const void *body, size_t len)
{
    static char datagram[KERNEL_FRAME_MAX];
    const struct kernel_frame f = {.length = (uint32_t)len,
                                   .type = (uint16_t)type,
                                   .flags = (uint16_t)flags,
                                   .generation = generation};
    memcpy(datagram, &f, sizeof(f));
    if (len > 0)
        memcpy(datagram + sizeof(f), body, len);
    assert_int_equal(send(w->theirs, datagram, sizeof(f) + len, MSG_NOSIGNAL), sizeof(f) + len);
}

static void run_until(struct world *w, unsigned messages)
{
    w->wanted = messages;
    if (w->messages < messages && w->ends == 0)
        loop_run(w->loop);
}

/* Takes one frame of the host's; answers the length of its body. */
static size_t hear(struct world *w, struct kernel_frame *f, char *body, int fds[FD_PASS_MAX],
                   size_t *count)
{
    static char datagram[KERNEL_FRAME_MAX + 1];
    ssize_t n = fd_recv(w->theirs, datagram, sizeof(datagram), fds, count);
    assert_in_range(n, sizeof(*f), KERNEL_FRAME_MAX);
    memcpy(f, datagram, sizeof(*f));
    assert_int_equal(f->length, (size_t)n - sizeof(*f));
    assert_int_equal(f->reserved, 0);
    memcpy(body, datagram + sizeof(*f), f->length);
    return f->length;
}

/* --- receiving ------------------------------------------------------------------------------- */

static void test_receive(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    say(&w, KERNEL_READY, 0, 0, "{}", 2);
    run_until(&w, 1);
    assert_int_equal(w.last.type, KERNEL_READY);
    assert_int_equal(w.last.generation, 0);
    assert_memory_equal(w.body, "{}", 2);
    assert_int_equal(w.ends, 0);
    world_close(&w);
}

static void test_many(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    assert_int_equal(kernel_send(w.kernel, KERNEL_VARIABLES, 1, NULL, 0, NULL, 0, &err), 0);
    for (int i = 0; i < 100; i++) /* more than one turn of the loop takes */
        say(&w, KERNEL_DATA, 0, 1, &i, sizeof(i));
    run_until(&w, 100);
    assert_int_equal(w.messages, 100);
    assert_int_equal(w.body[0], 99);
    world_close(&w);
}

struct fault_case {
    const char *name;
    const char *bytes;
    size_t len;
    const char *why;
};

static const struct fault_case fault_cases[] = {
    {"one byte", "x", 1, "a datagram without a frame"},
    {"text", "HTTP/1.1 200 OK\r\n\r\n", 19, "a frame that is longer than its datagram"},
    {"a request that was never made", "\0\0\0\0\x41\0\0\0\1\0\0\0\0\0\0\0", 16,
     "a frame of a request that was never made"},
};

static void test_fault(void **state)
{
    const struct fault_case *row = *state;
    struct world w;
    world_open(&w);
    assert_int_equal(send(w.theirs, row->bytes, row->len, MSG_NOSIGNAL), row->len);
    say(&w, KERNEL_READY, 0, 0, "{}", 2); /* too late */
    run_until(&w, 1);
    assert_int_equal(w.ends, 1);
    assert_int_equal(w.messages, 0);
    assert_string_equal(w.why, row->why);
    loop_run(w.loop); /* nothing is watched any more, and nothing is told twice */
    assert_int_equal(w.ends, 1);
    assert_int_equal(w.messages, 0);
    world_close(&w);
}

static void test_too_long(void **state)
{
    (void)state;
    static char datagram[KERNEL_FRAME_MAX + 1];
    struct world w;
    world_open(&w);
    assert_int_equal(send(w.theirs, datagram, sizeof(datagram), MSG_NOSIGNAL), sizeof(datagram));
    run_until(&w, 1);
    assert_int_equal(w.ends, 1);
    assert_string_equal(w.why, "a datagram that is too long");
    world_close(&w);
}

static void test_closed(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    say(&w, KERNEL_READY, 0, 0, NULL, 0);
    close(take_fd(&w.theirs));
    run_until(&w, 2);
    assert_int_equal(w.messages, 1); /* what it said before is heard */
    assert_int_equal(w.ends, 1);
    assert_null(w.why);
    world_close(&w);
}

/* A kernel that ends with something of ours unread resets the connection. */
static void test_reset(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    assert_int_equal(kernel_send(w.kernel, KERNEL_ACK, 1, NULL, 0, NULL, 0, &err), 0);
    say(&w, KERNEL_DATA, 0, 1, "last", 4);
    say(&w, KERNEL_DONE, 0, 1, "\0\0\0\0", 4);
    close(take_fd(&w.theirs));
    run_until(&w, 3);
    assert_int_equal(w.messages, 2); /* its last words are heard all the same */
    assert_int_equal(w.last.type, KERNEL_DONE);
    assert_int_equal(w.ends, 1);
    assert_null(w.why);
    world_close(&w);
}

static void test_unwanted_fds(void **state)
{
    (void)state;
    struct world w;
    int pipe_fds[2];
    char byte;
    const struct kernel_frame f = {.type = KERNEL_READY};
    world_open(&w);
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    assert_int_equal(fd_send(w.theirs, &f, sizeof(f), &pipe_fds[1], 1), 0);
    close(pipe_fds[1]);
    run_until(&w, 1);
    assert_int_equal(w.messages, 0);
    assert_int_equal(w.ends, 1);
    assert_ptr_equal(w.why, kernel_is_violating);
    assert_int_equal(read(pipe_fds[0], &byte, 1), 0); /* closed here, too */
    close(pipe_fds[0]);
    world_close(&w);
}

/* Sends from inside the loop, since a socket holds less than that. */
struct speaker {
    struct world *w;
    const char *body;
    size_t len, at;
    struct loop_watch *watch;
};

static void on_writable(void *ctx, unsigned events)
{
    (void)events;
    struct speaker *s = ctx;
    size_t piece = MIN(s->len - s->at, (size_t)KERNEL_BODY_MAX);
    bool is_last = s->at + piece == s->len;
    say(s->w, KERNEL_DATA, is_last ? 0 : KERNEL_MORE, 1, s->body + s->at, piece);
    s->at += piece;
    if (is_last)
        loop_watch_free(take_ptr(&s->watch));
}

static void test_big_in(void **state)
{
    (void)state;
    const size_t len = 5 * MIB + 7;
    scoped_free char *body = xmalloc(len);
    struct world w;
    struct error err;
    pattern_fill(body, 0, len);
    world_open(&w);
    struct speaker speaker = {.w = &w, .body = body, .len = len};
    assert_int_equal(kernel_send(w.kernel, KERNEL_VARIABLES, 1, NULL, 0, NULL, 0, &err), 0);
    assert_int_equal(
        loop_watch_new(&speaker.watch, w.loop, w.theirs, LOOP_WRITE, on_writable, &speaker, &err),
        0);
    run_until(&w, 1);
    assert_int_equal(w.messages, 1);
    assert_int_equal(w.last.len, len);
    assert_memory_equal(w.body, body, len);
    world_close(&w);
}

/* --- freed from inside ----------------------------------------------------------------------- */

static void test_free_inside(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.frees_itself = true;
    say(&w, KERNEL_READY, 0, 0, NULL, 0);
    say(&w, KERNEL_READY, 0, 0, NULL, 0); /* is not read any more */
    run_until(&w, 1);
    assert_int_equal(w.messages, 1);
    assert_null(w.kernel);
    loop_run(w.loop);
    assert_int_equal(w.messages, 1);
    world_close(&w);
}

static void test_free_inside_end(void **state)
{
    (void)state;
    for (int is_bad = 0; is_bad < 2; is_bad++) {
        struct world w;
        world_open(&w);
        w.frees_itself = true;
        if (is_bad)
            assert_int_equal(send(w.theirs, "x", 1, MSG_NOSIGNAL), 1);
        else
            close(take_fd(&w.theirs));
        run_until(&w, 1);
        assert_int_equal(w.ends, 1);
        assert_null(w.kernel);
        world_close(&w);
    }
}

/* --- sending --------------------------------------------------------------------------------- */

struct listener {
    struct world *w;
    char *body;
    size_t len, wanted;
    size_t frames, fds;
    struct loop_watch *watch;
};

static void on_readable(void *ctx, unsigned events)
{
    (void)events;
    struct listener *l = ctx;
    struct kernel_frame f;
    int fds[FD_PASS_MAX];
    size_t count;
    size_t len = hear(l->w, &f, l->body + l->len, fds, &count);
    assert_int_equal(f.type, KERNEL_EXECUTE);
    assert_int_equal(f.generation, 9);
    assert_int_equal(count, l->frames == 0 ? 3 : 0); /* with the first frame only */
    l->fds += count;
    while (count > 0)
        close(fds[--count]);
    l->len += len;
    l->frames++;
    assert_int_equal(f.flags, l->len < l->wanted ? KERNEL_MORE : 0);
    if (l->len == l->wanted)
        loop_stop(l->w->loop);
}

static void test_big_out(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        1,           KERNEL_BODY_MAX - 1, KERNEL_BODY_MAX, KERNEL_BODY_MAX + 1, 2 * KERNEL_BODY_MAX,
        10 * MIB + 3};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        const size_t len = sizes[i];
        const int fds[3] = {0, 1, 2};
        scoped_free char *body = xmalloc(len);
        scoped_free char *heard = xmalloc(len + KERNEL_FRAME_MAX);
        struct world w;
        struct error err;
        pattern_fill(body, 0, len);
        world_open(&w);
        struct listener l = {.w = &w, .body = heard, .wanted = len};
        assert_int_equal(kernel_send(w.kernel, KERNEL_EXECUTE, 9, body, len, fds, 3, &err), 0);
        assert_int_equal(
            loop_watch_new(&l.watch, w.loop, w.theirs, LOOP_READ, on_readable, &l, &err), 0);
        loop_run(w.loop);
        assert_int_equal(l.len, len);
        assert_int_equal(l.frames, (len + KERNEL_BODY_MAX - 1) / KERNEL_BODY_MAX);
        assert_memory_equal(heard, body, len);
        loop_watch_free(l.watch);
        world_close(&w);
    }
}

static void test_empty_out(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    struct kernel_frame f;
    char body[1];
    int fds[FD_PASS_MAX];
    size_t count;
    world_open(&w);
    assert_int_equal(kernel_send(w.kernel, KERNEL_VARIABLES, 3, NULL, 0, NULL, 0, &err), 0);
    assert_int_equal(hear(&w, &f, body, fds, &count), 0);
    assert_true(f.type == KERNEL_VARIABLES && f.generation == 3 && f.flags == 0);
    world_close(&w);
}

/* A kernel that reads nothing costs the host no more than the queue may hold. */
static void test_deaf(void **state)
{
    (void)state;
    const size_t len = 8 * MIB;
    scoped_free char *body = xcalloc(1, len);
    struct world w;
    struct error err;
    unsigned sent = 0;
    world_open(&w);
    while (sent < 8 && kernel_send(w.kernel, KERNEL_EXECUTE, 1, body, len, NULL, 0, &err) == 0)
        sent++;
    assert_in_range(sent, 3, 5);
    assert_int_equal(err.code, ERROR_TOO_LARGE);
    world_close(&w);
}

static void test_send_to_dead(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    close(take_fd(&w.theirs));
    assert_int_equal(kernel_send(w.kernel, KERNEL_ACK, 1, NULL, 0, NULL, 0, &err), 0);
    run_until(&w, 1);
    assert_int_equal(w.ends, 1);
    assert_int_equal(kernel_send(w.kernel, KERNEL_ACK, 1, NULL, 0, NULL, 0, &err), 0);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "a message is told", test_receive);
    check_one(&check, "more messages than one turn takes are all told", test_many);
    check_rows(&check, fault_cases, test_fault);
    check_one(&check, "a datagram that is too long ends it", test_too_long);
    check_one(&check, "a channel that is closed ends after its last message", test_closed);
    check_one(&check, "last words are heard when the connection is reset", test_reset);
    check_one(&check, "descriptors from a kernel are closed", test_unwanted_fds);
    check_one(&check, "a large message comes in pieces", test_big_in);
    check_one(&check, "it can be freed from inside its callback", test_free_inside);
    check_one(&check, "it can be freed from inside its last callback", test_free_inside_end);
    check_one(&check, "a large message goes out in pieces, its fds with the first", test_big_out);
    check_one(&check, "an empty body is one frame", test_empty_out);
    check_one(&check, "a kernel that does not read fills a bounded queue", test_deaf);
    check_one(&check, "sending to a dead kernel is no error", test_send_to_dead);
    return check_run(&check, "kernel");
}
