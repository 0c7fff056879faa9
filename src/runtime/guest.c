/* guest.c - datagrams to and from cove-init */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/guest.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "runtime/sandbox_socket.h"

struct guest {
    int fd;
    struct loop *loop;
    struct loop_watch *watch;
    guest_message_fn fn;
    void *ctx;
    int32_t keep[GUEST_KEEP_MAX];
    size_t keep_count;
    uint32_t files_epoch; /* what is done with files and has another one was somebody else's wish */
};

static void on_readable(void *ctx, unsigned events)
{
    (void)events;
    struct guest *g = ctx;
    struct guest_message m;
    ssize_t n = sandbox_socket_recv(g->loop, g->fd, &m, sizeof(m));
    if (n < 0 && errno == EAGAIN)
        return;
    if (n != sizeof(m)) {
        loop_watch_free(g->watch);
        g->watch = NULL;
        g->fn(g->ctx, NULL);
        return;
    }
    if (m.verb != GUEST_FILES_DONE || m.flags == g->files_epoch)
        g->fn(g->ctx, &m);
}

int guest_open(struct guest **out, struct loop *loop, int fd, guest_message_fn fn, void *ctx,
               struct error *err)
{
    struct guest *g = xcalloc(1, sizeof(*g));
    *g = (struct guest){.fd = fd, .loop = loop, .fn = fn, .ctx = ctx};
    if (loop_watch_new(&g->watch, loop, fd, LOOP_READ, on_readable, g, err) < 0) {
        guest_free(g);
        return -1;
    }
    *out = g;
    return 0;
}

void guest_free(struct guest *g)
{
    if (!g)
        return;
    loop_watch_free(g->watch);
    sandbox_socket_close(g->loop, &g->fd);
    free(g);
}

static uint32_t add_strings(struct strbuf *b, const char *const *list)
{
    uint32_t count = 0;
    for (; list[count]; count++)
        strbuf_add(b, list[count], strlen(list[count]) + 1);
    return count;
}

static int send_program(struct guest *g, struct guest_message m, const struct guest_program *p,
                        const int *fds, size_t fd_count, struct error *err)
{
    scoped_strbuf struct strbuf b;
    strbuf_init(&b, sizeof(m) + GUEST_STRINGS_MAX);
    strbuf_add(&b, &m, sizeof(m)); /* filled in below */
    strbuf_add(&b, p->directory, strlen(p->directory) + 1);
    m.argc = add_strings(&b, p->argv);
    m.envc = add_strings(&b, p->env);
    m.strings_len = (uint32_t)(b.len - sizeof(m));
    if (b.overflow || m.argc > GUEST_ARGS_MAX || m.envc > GUEST_ARGS_MAX)
        return error_set(err, ERROR_TOO_LARGE,
                         "arguments and environment are more than %d bytes or %d words",
                         GUEST_STRINGS_MAX, GUEST_ARGS_MAX);
    memcpy(b.data, &m, sizeof(m));
    if (fd_send(g->fd, b.data, b.len, fds, fd_count) < 0)
        return error_sys(err, "start the program");
    return 0;
}

int guest_start(struct guest *g, const struct guest_program *p, const int *fds, size_t fd_count,
                struct error *err)
{
    const struct guest_message m = {.verb = GUEST_START,
                                    .flags = p->is_plain ? GUEST_START_PLAIN : 0};
    return send_program(g, m, p, fds, fd_count, err);
}

int guest_terminal(struct guest *g, const struct guest_program *p, unsigned columns, unsigned rows,
                   int channel, struct error *err)
{
    const struct guest_message m = {.verb = GUEST_TERMINAL,
                                    .value = (int32_t)(columns << 16 | rows)};
    return send_program(g, m, p, &channel, 1, err);
}

int guest_porter(struct guest *g, int channel, struct error *err)
{
    const struct guest_message m = {.verb = GUEST_PORTER};
    if (fd_send(g->fd, &m, sizeof(m), &channel, 1) < 0)
        return error_sys(err, "start the work on files");
    return 0;
}

/* Two hosts of one sandbox must not come upon the same one: the clock of the machine goes on. */
void guest_forget_files(struct guest *g)
{
    g->files_epoch = (uint32_t)(clock_now_ns() / 1000) | 1;
}

int guest_files(struct guest *g, enum guest_files_op op, int in_fd, int out_fd, int64_t since_ns,
                struct error *err)
{
    const struct guest_message m = {
        .verb = GUEST_FILES, .value = (int32_t)op, .flags = g->files_epoch, .since_ns = since_ns};
    const int fds[2] = {in_fd, out_fd};
    if (fd_send(g->fd, &m, sizeof(m), fds, 2) < 0)
        return error_sys(err, "start the files worker");
    return 0;
}

void guest_signal(struct guest *g, int signal)
{
    const struct guest_message m = {.verb = GUEST_SIGNAL, .value = signal};
    (void)!fd_send(g->fd, &m, sizeof(m), NULL, 0);
}

/* With the pids that are kept behind it. */
static void send_keeping(struct guest *g, struct guest_message m, const int *fds, size_t fd_count)
{
    struct {
        struct guest_message m;
        int32_t keep[GUEST_KEEP_MAX];
    } order;
    m.strings_len = (uint32_t)(g->keep_count * sizeof(g->keep[0]));
    order.m = m;
    memcpy(order.keep, g->keep, sizeof(order.keep));
    (void)!fd_send(g->fd, &order, sizeof(m) + m.strings_len, fds, fd_count);
}

void guest_kill(struct guest *g)
{
    send_keeping(g, (struct guest_message){.verb = GUEST_KILL}, NULL, 0);
}

void guest_kill_and_tell(struct guest *g)
{
    send_keeping(
        g,
        (struct guest_message){.verb = GUEST_KILL, .value = GUEST_KILL_TELL | GUEST_KILL_TERMINALS},
        NULL, 0);
}

void guest_keep(struct guest *g, const int32_t *pids, size_t count)
{
    g->keep_count = MIN(count, (size_t)GUEST_KEEP_MAX);
    memcpy(g->keep, pids, g->keep_count * sizeof(pids[0]));
}

const int32_t *guest_kept(const struct guest *g, size_t *count)
{
    *count = g->keep_count;
    return g->keep;
}

void guest_snapshot(struct guest *g, enum guest_files_op op, uint32_t number, uint32_t base)
{
    send_keeping(g,
                 (struct guest_message){.verb = GUEST_FILES,
                                        .value = (int32_t)op,
                                        .flags = g->files_epoch,
                                        .argc = number,
                                        .envc = base},
                 NULL, 0);
}

void guest_pack(struct guest *g, enum guest_files_op op, int fd)
{
    const int fds[2] = {fd, fd};
    send_keeping(
        g,
        (struct guest_message){.verb = GUEST_FILES, .value = (int32_t)op, .flags = g->files_epoch},
        fds, 2);
}

void guest_forget(struct guest *g, uint32_t number, int32_t pid, int32_t other)
{
    const struct guest_message m = {.verb = GUEST_FILES,
                                    .value = GUEST_FILES_FORGET,
                                    .flags = g->files_epoch,
                                    .argc = number,
                                    .envc = (uint32_t)pid,
                                    .exit_code = other};
    send_keeping(g, m, NULL, 0);
}

void guest_adopt(struct guest *g, int32_t pid)
{
    const struct guest_message m = {.verb = GUEST_ADOPT, .value = pid};
    (void)!fd_send(g->fd, &m, sizeof(m), NULL, 0);
}

void guest_ask(struct guest *g)
{
    const struct guest_message m = {.verb = GUEST_TELL};
    (void)!fd_send(g->fd, &m, sizeof(m), NULL, 0);
}
