/* porter.c - one errand of the host's with the files of the workspace
 *
 * It runs in a fork of init with the tenant's own rights and limits, so whatever a tenant puts into
 * its way it reaches only what the tenant could reach anyway; and paths resolve strictly below the
 * workspace all the same. Nobody inside can look into it. It holds at most one frame: who does not
 * take makes it wait, and it makes wait who sends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "init/porter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/scoped.h"
#include "init/init.h"
#include "init/tree.h"

#define CHANNEL_FD  GUEST_CONTROL_FD /* in its place: a porter has nothing to tell init's host */
#define FRAME_BYTES sizeof(struct files_frame)

/* Out of the stack; pages are touched only as far as they are used. */
static struct message {
    struct files_frame frame;
    char bytes[FILES_BYTES_MAX];
} message;

static struct porter porter;

static int (*const errands[FILES_OPS])(struct porter *p) = {
    [FILES_STAT] = porter_stat,   [FILES_LIST] = porter_list,     [FILES_READ] = porter_read,
    [FILES_WRITE] = porter_write, [FILES_MKDIR] = porter_mkdir,   [FILES_MOVE] = porter_move,
    [FILES_PACK] = porter_pack,   [FILES_REMOVE] = porter_remove, [FILES_UNPACK] = porter_unpack,
};

/* --- frames ---------------------------------------------------------------------------------- */

static void send_frame(const struct files_frame *frame, const void *data, size_t len)
{
    struct iovec parts[2] = {{(void *)frame, FRAME_BYTES}, {(void *)data, len}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n;
    do
        n = sendmsg(CHANNEL_FD, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        _exit(1); /* nobody wants it any more */
}

void porter_tell_entry(const struct stat *st, const char *name)
{
    const struct files_frame frame = {
        .type = FILES_ENTRY,
        .mode = st->st_mode,
        .size = (uint64_t)st->st_size,
        .inode = st->st_ino,
        .mtime_ns = tree_to_ns(&st->st_mtim),
        .ctime_ns = tree_to_ns(&st->st_ctim),
    };
    send_frame(&frame, name, strlen(name));
}

void porter_tell_bytes(const void *data, size_t len)
{
    send_frame(&(struct files_frame){.type = FILES_BYTES}, data, len);
}

void porter_tell_alive(void)
{
    send_frame(&(struct files_frame){.type = FILES_ALIVE}, NULL, 0);
}

const struct files_frame *porter_receive(const char **bytes, size_t *len)
{
    ssize_t n;
    do
        n = recv(CHANNEL_FD, &message, sizeof(message), 0);
    while (n < 0 && errno == EINTR);
    if (n < (ssize_t)FRAME_BYTES)
        _exit(1);
    *bytes = message.bytes;
    *len = (size_t)n - FRAME_BYTES;
    return &message.frame;
}

size_t porter_next_bytes(const char **bytes)
{
    size_t len;
    const struct files_frame *frame = porter_receive(bytes, &len);
    if (frame->type == FILES_COMMIT)
        return 0;
    if (frame->type != FILES_BYTES || len == 0)
        _exit(1);
    return len;
}

/* --- its life -------------------------------------------------------------------------------- */

/* Nothing of init's stays but the channel. No signal ends it but SIGKILL, and those that the C
 * library keeps for itself. */
static int settle(int channel)
{
    sigset_t all;
    sigfillset(&all);
    setsid();
    umask(022);
    if (dup3(channel, CHANNEL_FD, O_CLOEXEC) < 0 ||
        syscall(SYS_close_range, CHANNEL_FD + 1, ~0u, 0) < 0 ||
        prctl(PR_SET_NAME, "cove-files") < 0 || sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return errno;
    return 0;
}

/* Two texts, each with its end. */
static int read_order(struct porter *p)
{
    const char *bytes;
    size_t len;
    p->order = *porter_receive(&bytes, &len);
    size_t path_len = strnlen(bytes, len);
    size_t other_len = path_len < len ? strnlen(bytes + path_len + 1, len - path_len - 1) : 0;
    if (p->order.type != FILES_ORDER || p->order.op >= FILES_OPS || !errands[p->order.op] ||
        path_len + other_len + 2 != len || path_len >= sizeof(p->path) ||
        other_len >= sizeof(p->other))
        return EPROTO;
    memcpy(p->path, bytes, path_len + 1);
    memcpy(p->other, bytes + path_len + 1, other_len + 1);
    p->root = open(GUEST_WORKSPACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return p->root < 0 ? errno : 0;
}

void porter_serve(void)
{
    struct porter *p = &porter;
    *p = (struct porter){.root = -1};
    int error = read_order(p);
    if (!error)
        error = errands[p->order.op](p);
    scoped_close_fd(&p->root);
    send_frame(&(struct files_frame){.type = FILES_DONE, .error = error, .flags = p->flags}, NULL,
               0);
}

void init_refuse_porter(int channel, int error)
{
    const struct files_frame frame = {.type = FILES_DONE, .error = error};
    (void)!send(channel, &frame, sizeof(frame), MSG_NOSIGNAL | MSG_DONTWAIT);
}

NORETURN void init_run_porter(int channel)
{
    int error = settle(channel);
    if (error)
        init_refuse_porter(CHANNEL_FD, error);
    else
        porter_serve();
    _exit(error != 0);
}

pid_t init_start_porter(int channel)
{
    pid_t pid = fork();
    if (pid == 0)
        init_run_porter(channel);
    return pid;
}
