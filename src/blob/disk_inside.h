/* disk_inside.h - what the files of disk*.c share
 *
 * Functions marked "blocks" belong to the threads of loop_work(). An operation holds a reference to
 * the disk, so that work which outlives blob_free() still has its fds. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "blob/blob_ops.h"
#include "blob/disk.h"

struct stat;

#define DISK_PATH_BYTES (BLOB_KEY_MAX_BYTES + 2) /* a key, "@", NUL */

struct disk {
    struct blob blob;
    struct loop *loop;
    int objects_fd, tmp_fd;
    bool is_full_sync;
    size_t refs;                /* one for the owner, one for each operation */
    struct disk_op *first;      /* the operations that somebody waits for */
    struct blob_health figures; /* of done and failed ones */
};

/* Begins each operation. One that was dropped calls nobody any more. */
struct disk_op {
    struct disk *disk;
    struct disk_op *next, **at;
    bool is_dropped;
    void (*drop)(struct disk_op *op); /* its owner or the disk gives it up */
    char path[DISK_PATH_BYTES];       /* of the file below objects */
    bool has_failed;
    struct error err;
};

void disk_op_begin(struct disk *disk, struct disk_op *op, const char *key,
                   void (*drop)(struct disk_op *op));
void disk_op_leave(struct disk_op *op); /* nobody waits for it any more */
void disk_op_end(struct disk_op *op);   /* and it is over; the memory stays its own */

/* Before the callback of one that nobody dropped: counts it, for /health. */
void disk_op_count(struct disk_op *op);

/* "key" of the path, for people. */
int disk_op_key_len(const struct disk_op *op);

/* errno as an error about `op`; the second for who looks for a blob that may not be there. */
int disk_op_fail(struct disk_op *op, const char *what);
int disk_op_miss(struct disk_op *op, const char *what);

/* A path below `dir_fd` that leads over no link. Blocks. */
int disk_open_at(int dir_fd, const char *path, int flags);
void disk_fill_info(struct blob_info *out, const struct stat *st);

struct blob_put *disk_put_open(struct blob *blob, const struct blob_put_order *order);
bool disk_put_write(struct blob_put *put, const void *data, size_t len);
void disk_put_end(struct blob_put *put);
void disk_put_abort(struct blob_put *put);

struct blob_get *disk_get_open(struct blob *blob, const struct blob_get_order *order);
void disk_get_pause(struct blob_get *get);
void disk_get_resume(struct blob_get *get);
void disk_get_abort(struct blob_get *get);

void disk_stat(struct blob *blob, const char *key, blob_stat_fn fn, void *ctx);
void disk_remove(struct blob *blob, const char *key, blob_fn fn, void *ctx);
void disk_list(struct blob *blob, const struct blob_list_order *order, blob_list_fn fn, void *ctx);
