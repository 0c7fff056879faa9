/* kernel.c - frames to and from a kernel, with a queue for what it does not read yet */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "runtime/outbox.h"
#include "runtime/sandbox_socket.h"

#define READS_PER_TURN 32
#define QUEUE_MAX      (32u * 1024 * 1024)

const char kernel_is_violating[] = "a descriptor, which no kernel has to give";

/* Of all kernels that this process has. */
static struct budget answers = {.max = KERNEL_ANSWERS_MAX_BYTES};

struct budget *kernel_answers(void)
{
    return &answers;
}

struct kernel {
    int fd;
    struct loop *loop;
    struct loop_watch *watch;
    struct outbox outbox;
    kernel_message_fn fn;
    void *ctx;
    struct frame_inbox inbox;
    bool is_answered; /* what came last ends a request: nothing is expected behind it */
    bool is_calling;  /* a callback is under way, and may free us */
    bool is_doomed;
};

/* --- ends ------------------------------------------------------------------------------------ */

static void end(struct kernel *k, const char *why)
{
    loop_watch_free(take_ptr(&k->watch));
    outbox_release(&k->outbox);
    k->fn(k->ctx, NULL, why);
}

void kernel_free(struct kernel *k)
{
    if (!k)
        return;
    loop_watch_free(take_ptr(&k->watch));
    outbox_release(&k->outbox);
    k->is_doomed = true;
    if (k->is_calling)
        return; /* the rest follows when the callback is back */
    frame_inbox_release(&k->inbox);
    sandbox_socket_close(k->loop, &k->fd);
    free(k);
}

/* --- receiving ------------------------------------------------------------------------------- */

/* False when the channel, or the kernel itself, is no more. */
static bool take_frame(struct kernel *k, const char *at, size_t len, size_t *used)
{
    struct frame_message m;
    const char *why;
    switch (frame_inbox_add(&k->inbox, at, len, used, &m, &why)) {
    case FRAME_PART:
        return true;
    case FRAME_BAD:
        end(k, why);
        return false;
    case FRAME_WHOLE:
        break;
    }
    k->is_answered = m.type == KERNEL_DONE;
    k->is_calling = true;
    k->fn(k->ctx, &m, NULL);
    k->is_calling = false;
    frame_inbox_forget(&k->inbox);
    if (!k->is_doomed)
        return true;
    kernel_free(k);
    return false;
}

/* False also when there is nothing more for now. */
static bool take_datagram(struct kernel *k)
{
    static char datagram[KERNEL_FRAME_MAX];
    size_t used = 0;
    ssize_t n = sandbox_socket_recv(k->loop, k->fd, datagram, sizeof(datagram));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (sandbox_socket_is_violated(n)) {
        end(k, kernel_is_violating);
        return false;
    }
    if (n <= 0) {
        end(k, n < 0 && errno == EMSGSIZE ? "a datagram that is too long" : NULL);
        return false;
    }
    for (size_t at = 0; at < (size_t)n; at += used) {
        if (!take_frame(k, datagram + at, (size_t)n - at, &used))
            return false;
    }
    return true;
}

/* After an error on the channel the loop does not call again. */
static void on_readable(void *ctx, unsigned events)
{
    struct kernel *k = ctx;
    bool is_last = events & LOOP_HANGUP;
    for (int i = 0; i < READS_PER_TURN && take_datagram(k) && (is_last || !k->is_answered); i++)
        ;
}

int kernel_open(struct kernel **out, struct loop *loop, int fd, kernel_message_fn fn, void *ctx,
                struct error *err)
{
    struct kernel *k = xcalloc(1, sizeof(*k));
    *k = (struct kernel){.fd = fd, .loop = loop, .fn = fn, .ctx = ctx};
    outbox_init(&k->outbox, loop, fd, QUEUE_MAX);
    frame_inbox_init(&k->inbox);
    k->inbox.budget = kernel_answers();
    if (loop_watch_new(&k->watch, loop, fd, LOOP_READ, on_readable, k, err) < 0) {
        kernel_free(k);
        return -1;
    }
    *out = k;
    return 0;
}

/* --- sending --------------------------------------------------------------------------------- */

int kernel_send(struct kernel *k, enum kernel_frame_type type, uint32_t generation,
                const void *body, size_t len, const int *fds, size_t fd_count, struct error *err)
{
    static char datagram[KERNEL_FRAME_MAX];
    const char *at = body;
    frame_inbox_expect(&k->inbox, generation);
    do {
        size_t piece = MIN(len, (size_t)KERNEL_BODY_MAX);
        const struct kernel_frame f = {
            .length = (uint32_t)piece,
            .type = (uint16_t)type,
            .flags = len > piece ? KERNEL_MORE : 0,
            .generation = generation,
        };
        memcpy(datagram, &f, sizeof(f));
        if (piece > 0)
            memcpy(datagram + sizeof(f), at, piece);
        if (outbox_send(&k->outbox, datagram, sizeof(f) + piece, fds, fd_count, err) < 0)
            return error_wrap(err, "send to the kernel");
        fd_count = 0;
        at += piece;
        len -= piece;
    } while (len > 0);
    return 0;
}

int kernel_sync(struct kernel *k, uint32_t generation, struct error *err)
{
    frame_inbox_await_sync(&k->inbox, generation);
    return kernel_send(k, KERNEL_SYNC, 0, NULL, 0, NULL, 0, err);
}

int kernel_fd(const struct kernel *k)
{
    return k->fd;
}
