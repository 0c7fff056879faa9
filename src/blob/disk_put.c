/* disk_put.c - writing: two buffers, one that fills and one that a thread writes
 *
 * At most one work is under way for a put; whatever changes meanwhile is looked at when it is done.
 * The file in tmp goes with the put unless it was moved into its place. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "blob/disk_inside.h"

#define HIGH_WATER_BYTES (512 * KIB) /* more waits: the writer should, too */
#define WAITING_MAX      (256 * MIB) /* a caller that does not listen */
#define TEMP_LETTERS     26
#define MOVE_TRIES       16 /* each lost to a removal that took the folder away */

struct disk_put {
    struct disk_op op;
    struct blob_put put;
    struct blob_put_order order; /* without the key, which is in op */
    struct strbuf waiting;
    bool is_busy, is_ended, wants_drain;

    /* the thread's while it is busy */
    struct strbuf writing;
    bool is_last;
    int fd;
    uint64_t written;
    char temp[TEMP_LETTERS + 1]; /* "": there is none */
};

static struct disk_put *of(struct blob_put *put)
{
    return (struct disk_put *)((char *)put - offsetof(struct disk_put, put));
}

/* --- on a thread ----------------------------------------------------------------------------- */

/* A full disk is found out before anything was sent in vain, where the size is known. */
static int open_temp(struct disk_put *p)
{
    char name[TEMP_LETTERS + 1];
    if (id_random(name, TEMP_LETTERS, &p->op.err) < 0) {
        p->op.has_failed = true;
        return -1;
    }
    p->fd = openat(p->op.disk->tmp_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (p->fd < 0)
        return disk_op_fail(&p->op, "begin");
    memcpy(p->temp, name, sizeof(name));
    if (p->order.size != BLOB_SIZE_UNKNOWN && p->order.size > HIGH_WATER_BYTES &&
        fallocate(p->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)p->order.size) < 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
        return disk_op_fail(&p->op, "make room for");
    return 0;
}

static int check_size(struct disk_put *p)
{
    if (p->order.size == BLOB_SIZE_UNKNOWN || p->order.size == p->written)
        return 0;
    p->op.has_failed = true;
    error_set(&p->op.err, ERROR_INVALID, "blob '%.*s' was to have %llu bytes, and %llu came",
              disk_op_key_len(&p->op), p->op.path, (unsigned long long)p->order.size,
              (unsigned long long)p->written);
    return error_word(&p->op.err, "size_mismatch");
}

static int make_folders(struct disk_put *p)
{
    char path[DISK_PATH_BYTES];
    memcpy(path, p->op.path, sizeof(path));
    for (char *slash = path; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        if (mkdirat(p->op.disk->objects_fd, path, 0700) < 0 && errno != EEXIST)
            return -1;
    }
    return 0;
}

/* A power cut must not leave a name without its folder: all of them up to the top, also those that
 * were there already, for who made one may not have come to this yet. */
static int sync_folders(struct disk_put *p)
{
    const struct disk *disk = p->op.disk;
    char path[DISK_PATH_BYTES];
    if (!disk->is_full_sync)
        return 0;
    memcpy(path, p->op.path, sizeof(path));
    for (char *slash; (slash = strrchr(path, '/'));) {
        *slash = '\0';
        scoped_fd int fd = disk_open_at(disk->objects_fd, path, O_RDONLY | O_DIRECTORY);
        if (fd < 0 || fsync(fd) < 0)
            return -1;
    }
    return fsync(disk->objects_fd);
}

static int move(struct disk_put *p)
{
    const struct disk *disk = p->op.disk;
    for (int i = 0; i < MOVE_TRIES; i++) {
        if (renameat(disk->tmp_fd, p->temp, disk->objects_fd, p->op.path) == 0) {
            p->temp[0] = '\0';
            return sync_folders(p);
        }
        if (errno != ENOENT)
            return -1;
        if (make_folders(p) < 0 && errno != ENOENT)
            return -1;
    }
    errno = EBUSY;
    return -1;
}

static void close_temp(struct disk_put *p)
{
    if (p->fd >= 0)
        close(take_fd(&p->fd));
    if (p->temp[0])
        unlinkat(p->op.disk->tmp_fd, p->temp, 0);
    p->temp[0] = '\0';
}

static int write_step(struct disk_put *p)
{
    struct error err;
    if (p->fd < 0 && open_temp(p) < 0)
        return -1;
    if (fd_write_all(p->fd, p->writing.data, p->writing.len, &err) < 0) {
        errno = err.sys_errno;
        return disk_op_fail(&p->op, "write");
    }
    p->written += p->writing.len;
    if (!p->is_last)
        return 0;
    if (check_size(p) < 0)
        return -1;
    if (fdatasync(p->fd) < 0 || move(p) < 0)
        return disk_op_fail(&p->op, "keep");
    return 0;
}

static void run_step(void *ctx)
{
    struct disk_put *p = ctx;
    if (write_step(p) < 0 || p->is_last)
        close_temp(p);
}

static void run_discard(void *ctx)
{
    close_temp(ctx);
}

/* --- on the loop's thread -------------------------------------------------------------------- */

static void put_free(void *ctx)
{
    struct disk_put *p = ctx;
    disk_op_end(&p->op);
    strbuf_release(&p->waiting);
    strbuf_release(&p->writing);
    free(p);
}

static void on_step(void *ctx);

static void step(struct disk_put *p)
{
    struct strbuf written = p->writing;
    p->writing = p->waiting;
    p->waiting = written;
    strbuf_clear(&p->waiting);
    p->is_last = p->is_ended;
    p->is_busy = true;
    loop_work(p->op.disk->loop, run_step, on_step, p);
}

static void discard(struct disk_put *p)
{
    loop_work(p->op.disk->loop, run_discard, put_free, p);
}

static void finish(struct disk_put *p)
{
    disk_op_leave(&p->op);
    disk_op_count(&p->op);
    p->order.on_done(p->order.ctx, p->op.has_failed ? &p->op.err : NULL);
    put_free(p);
}

/* on_drain() may write, end or abort: what is to be done is decided after it. */
static void tell_drained(struct disk_put *p)
{
    bool was_wanted = p->wants_drain;
    p->wants_drain = false;
    if (was_wanted && p->order.on_drain && !p->is_ended)
        p->order.on_drain(p->order.ctx);
}

static void on_step(void *ctx)
{
    struct disk_put *p = ctx;
    if (!p->op.is_dropped && (p->op.has_failed || p->is_last)) {
        finish(p);
        return;
    }
    if (!p->op.is_dropped)
        tell_drained(p);
    p->is_busy = false;
    if (p->op.is_dropped)
        discard(p);
    else if (p->waiting.len > 0 || p->is_ended)
        step(p);
}

static void drop_put(struct disk_op *op)
{
    struct disk_put *p = (struct disk_put *)op;
    op->is_dropped = true;
    disk_op_leave(op);
    if (!p->is_busy)
        discard(p);
}

struct blob_put *disk_put_open(struct blob *blob, const struct blob_put_order *order)
{
    struct disk *disk = (struct disk *)blob;
    struct disk_put *p = xcalloc(1, sizeof(*p));
    *p = (struct disk_put){.put = {.ops = blob->ops}, .order = *order, .fd = -1};
    strbuf_init(&p->waiting, WAITING_MAX);
    strbuf_init(&p->writing, WAITING_MAX);
    disk_op_begin(disk, &p->op, order->key, drop_put);
    p->order.key = NULL;
    step(p); /* the file; and whether there is room for it */
    return &p->put;
}

bool disk_put_write(struct blob_put *put, const void *data, size_t len)
{
    struct disk_put *p = of(put);
    BUG_ON(p->is_ended);
    strbuf_add(&p->waiting, data, len);
    BUG_ON(p->waiting.overflow);
    p->wants_drain = p->waiting.len >= HIGH_WATER_BYTES;
    bool is_welcome = !p->wants_drain;
    if (!p->is_busy && len > 0)
        step(p);
    return is_welcome;
}

void disk_put_end(struct blob_put *put)
{
    struct disk_put *p = of(put);
    BUG_ON(p->is_ended);
    p->is_ended = true;
    if (!p->is_busy)
        step(p);
}

void disk_put_abort(struct blob_put *put)
{
    drop_put(&of(put)->op);
}
