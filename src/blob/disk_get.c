/* disk_get.c - reading: one buffer, which a thread fills and the reader empties in turns */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "blob/disk_inside.h"

#define STEP_BYTES (256 * KIB)

struct disk_get {
    struct disk_op op;
    struct blob_get get;
    struct blob_get_order order; /* without the key */
    bool is_busy, is_paused, has_begun;
    bool is_told; /* inside of a callback: nothing is freed there */

    /* the thread's while it is busy */
    int fd;
    struct blob_info info;
    uint64_t offset, left;
    ssize_t got;
    char *buffer;
};

static struct disk_get *of(struct blob_get *get)
{
    return (struct disk_get *)((char *)get - offsetof(struct disk_get, get));
}

/* --- on a thread ----------------------------------------------------------------------------- */

static int open_blob(struct disk_get *g)
{
    struct stat st;
    g->fd = disk_open_at(g->op.disk->objects_fd, g->op.path, O_RDONLY | O_NONBLOCK);
    if (g->fd < 0 || fstat(g->fd, &st) < 0)
        return disk_op_miss(&g->op, "open");
    disk_fill_info(&g->info, &st);
    if (g->order.offset > g->info.size) {
        g->op.has_failed = true;
        error_set(&g->op.err, ERROR_INVALID, "blob '%.*s' has %llu bytes, and no byte %llu",
                  disk_op_key_len(&g->op), g->op.path, (unsigned long long)g->info.size,
                  (unsigned long long)g->order.offset);
        return error_word(&g->op.err, "range_not_satisfiable");
    }
    g->offset = g->order.offset;
    g->left = g->info.size - g->offset;
    if (g->order.length > 0)
        g->left = MIN(g->left, g->order.length);
    g->buffer = xmalloc(MIN(STEP_BYTES, g->left + 1));
    return 0;
}

static void run_step(void *ctx)
{
    struct disk_get *g = ctx;
    if (g->fd < 0 && open_blob(g) < 0)
        return;
    do {
        g->got = pread(g->fd, g->buffer, MIN(STEP_BYTES, g->left), (off_t)g->offset);
    } while (g->got < 0 && errno == EINTR);
    if (g->got == 0 && g->left > 0) {
        errno = EIO; /* somebody has cut it short */
        g->got = -1;
    }
    if (g->got < 0) {
        disk_op_fail(&g->op, "read");
        return;
    }
    g->offset += (uint64_t)g->got;
    g->left -= (uint64_t)g->got;
}

/* --- on the loop's thread -------------------------------------------------------------------- */

static void get_free(struct disk_get *g)
{
    disk_op_end(&g->op);
    if (g->fd >= 0)
        close(g->fd);
    free(g->buffer);
    free(g);
}

static void on_step(void *ctx);

static void step(struct disk_get *g)
{
    g->is_busy = true;
    loop_work(g->op.disk->loop, run_step, on_step, g);
}

static void finish(struct disk_get *g)
{
    disk_op_leave(&g->op);
    disk_op_count(&g->op);
    g->order.on_done(g->order.ctx, g->op.has_failed ? &g->op.err : NULL);
    get_free(g);
}

/* What was read, to who has not dropped the get meanwhile. */
static void tell(struct disk_get *g)
{
    g->is_told = true;
    if (!g->has_begun && g->order.on_begin)
        g->order.on_begin(g->order.ctx, &g->info);
    g->has_begun = true;
    if (!g->op.is_dropped && g->got > 0)
        g->order.on_data(g->order.ctx, g->buffer, (size_t)g->got);
    g->is_told = false;
}

/* Nothing is told while it is paused, not even that it is over. */
static void go_on(struct disk_get *g)
{
    if (!g->op.is_dropped && !g->is_paused && !g->op.has_failed && g->got >= 0) {
        tell(g);
        g->got = -1;
    }
    if (g->op.is_dropped)
        get_free(g);
    else if (g->is_paused)
        return;
    else if (g->op.has_failed || g->left == 0)
        finish(g);
    else
        step(g);
}

static void on_step(void *ctx)
{
    struct disk_get *g = ctx;
    g->is_busy = false;
    go_on(g);
}

static void drop_get(struct disk_op *op)
{
    struct disk_get *g = (struct disk_get *)op;
    op->is_dropped = true;
    disk_op_leave(op);
    if (!g->is_busy && !g->is_told)
        get_free(g);
}

struct blob_get *disk_get_open(struct blob *blob, const struct blob_get_order *order)
{
    struct disk *disk = (struct disk *)blob;
    struct disk_get *g = xcalloc(1, sizeof(*g));
    *g = (struct disk_get){.get = {.ops = blob->ops}, .order = *order, .fd = -1, .got = -1};
    disk_op_begin(disk, &g->op, order->key, drop_get);
    g->order.key = NULL;
    step(g);
    return &g->get;
}

void disk_get_pause(struct blob_get *get)
{
    of(get)->is_paused = true;
}

/* Resumed from inside of a callback it goes on after it; else right away, yet never from inside of
 * this call: a work comes between, which finds the buffer as it is. */
static void run_nothing(void *ctx)
{
    (void)ctx;
}

void disk_get_resume(struct blob_get *get)
{
    struct disk_get *g = of(get);
    bool was_paused = g->is_paused;
    g->is_paused = false;
    if (!was_paused || g->is_busy || g->is_told)
        return;
    g->is_busy = true;
    loop_work(g->op.disk->loop, run_nothing, on_step, g);
}

void disk_get_abort(struct blob_get *get)
{
    drop_get(&of(get)->op);
}
