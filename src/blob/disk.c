/* disk.c - opening the folder, what operations share, looking at a blob and removing it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "blob/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "blob/disk_inside.h"

#define FULL_RETRY_MS 5000

/* --- operations ------------------------------------------------------------------------------ */

static void unref(struct disk *disk)
{
    if (--disk->refs > 0)
        return;
    close(disk->objects_fd);
    close(disk->tmp_fd);
    free(disk);
}

void disk_op_begin(struct disk *disk, struct disk_op *op, const char *key,
                   void (*drop)(struct disk_op *op))
{
    op->disk = disk;
    op->drop = drop;
    snprintf(op->path, sizeof(op->path), "%s@", key);
    disk->refs++;
    op->next = disk->first;
    op->at = &disk->first;
    if (op->next)
        op->next->at = &op->next;
    disk->first = op;
}

void disk_op_leave(struct disk_op *op)
{
    if (!op->at)
        return;
    *op->at = op->next;
    if (op->next)
        op->next->at = op->at;
    op->at = NULL;
}

void disk_op_end(struct disk_op *op)
{
    disk_op_leave(op);
    unref(op->disk);
}

void disk_op_count(struct disk_op *op)
{
    struct blob_health *figures = &op->disk->figures;
    bool is_ours = op->has_failed && op->err.code == ERROR_UNAVAILABLE;
    figures->done += !op->has_failed;
    figures->failed += op->has_failed;
    figures->is_failing = is_ours;
    if (is_ours)
        memcpy(figures->why, op->err.msg, sizeof(figures->why));
}

int disk_op_key_len(const struct disk_op *op)
{
    return (int)strlen(op->path) - 1;
}

static int fail_full(struct disk_op *op, const char *what)
{
    error_set(&op->err, ERROR_UNAVAILABLE, "%s blob '%.*s': the disk is full", what,
              disk_op_key_len(op), op->path);
    error_word(&op->err, "storage_full");
    op->err.retry_ms = FULL_RETRY_MS;
    return error_hint(&op->err, "free space on the disk of the data directory; "
                                "what was kept before is untouched");
}

int disk_op_fail(struct disk_op *op, const char *what)
{
    op->has_failed = true;
    if (errno == ENOSPC || errno == EDQUOT)
        return fail_full(op, what);
    error_sys(&op->err, "%s blob '%.*s'", what, disk_op_key_len(op), op->path);
    op->err.code = ERROR_UNAVAILABLE;
    error_word(&op->err, "storage_unavailable");
    return error_hint(&op->err, "see whether the disk of the data directory works and belongs to "
                                "the user of the server");
}

int disk_op_miss(struct disk_op *op, const char *what)
{
    if (errno != ENOENT && errno != ENOTDIR)
        return disk_op_fail(op, what);
    op->has_failed = true;
    error_set(&op->err, ERROR_NOT_FOUND, "there is no blob '%.*s'", disk_op_key_len(op), op->path);
    return error_word(&op->err, "blob_not_found");
}

int disk_open_at(int dir_fd, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
                           .resolve =
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
}

void disk_fill_info(struct blob_info *out, const struct stat *st)
{
    *out =
        (struct blob_info){.size = (uint64_t)st->st_size,
                           .modified_ns = st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec};
    /* A put makes a new file, so its number differs as well should two have one time. */
    snprintf(out->etag, sizeof(out->etag), "%llx-%llx-%llx", (unsigned long long)st->st_ino,
             (unsigned long long)out->modified_ns, (unsigned long long)st->st_size);
}

/* --- one look, one removal ------------------------------------------------------------------- */

struct look {
    struct disk_op op;
    blob_stat_fn stat_fn; /* one of these two */
    blob_fn remove_fn;
    void *ctx;
    struct blob_info info;
};

static void drop_look(struct disk_op *op)
{
    op->is_dropped = true;
    disk_op_leave(op);
}

static void end_look(void *ctx)
{
    struct look *look = ctx;
    const struct error *err = look->op.has_failed ? &look->op.err : NULL;
    disk_op_leave(&look->op);
    if (!look->op.is_dropped) {
        disk_op_count(&look->op);
        if (look->stat_fn)
            look->stat_fn(look->ctx, err, err ? NULL : &look->info);
        else
            look->remove_fn(look->ctx, err);
    }
    disk_op_end(&look->op);
    free(look);
}

static void run_stat(void *ctx)
{
    struct look *look = ctx;
    struct stat st;
    scoped_fd int fd = disk_open_at(look->op.disk->objects_fd, look->op.path, O_PATH);
    if (fd < 0 || fstat(fd, &st) < 0)
        disk_op_miss(&look->op, "look at");
    else
        disk_fill_info(&look->info, &st);
}

/* Folders that are empty now go, too; a put that wants one makes it again. */
static void run_remove(void *ctx)
{
    struct look *look = ctx;
    int dir_fd = look->op.disk->objects_fd;
    char path[DISK_PATH_BYTES];
    if (unlinkat(dir_fd, look->op.path, 0) < 0 && errno != ENOENT && errno != ENOTDIR) {
        disk_op_fail(&look->op, "remove");
        return;
    }
    memcpy(path, look->op.path, sizeof(path));
    for (char *slash; (slash = strrchr(path, '/'));) {
        *slash = '\0';
        if (unlinkat(dir_fd, path, AT_REMOVEDIR) < 0)
            return;
    }
}

static void begin_look(struct blob *blob, const char *key, const struct look *wanted,
                       loop_work_fn run)
{
    struct disk *disk = (struct disk *)blob;
    struct look *look = xcalloc(1, sizeof(*look));
    *look = *wanted;
    disk_op_begin(disk, &look->op, key, drop_look);
    loop_work(disk->loop, run, end_look, look);
}

void disk_stat(struct blob *blob, const char *key, blob_stat_fn fn, void *ctx)
{
    begin_look(blob, key, &(struct look){.stat_fn = fn, .ctx = ctx}, run_stat);
}

void disk_remove(struct blob *blob, const char *key, blob_fn fn, void *ctx)
{
    begin_look(blob, key, &(struct look){.remove_fn = fn, .ctx = ctx}, run_remove);
}

/* --- open and end ---------------------------------------------------------------------------- */

static void disk_free(struct blob *blob)
{
    struct disk *disk = (struct disk *)blob;
    while (disk->first)
        disk->first->drop(disk->first);
    unref(disk);
}

static void disk_get_health(const struct blob *blob, struct blob_health *out)
{
    *out = ((const struct disk *)blob)->figures;
    out->kind = "disk";
}

static const struct blob_ops disk_ops = {
    .free = disk_free,
    .put_open = disk_put_open,
    .put_write = disk_put_write,
    .put_end = disk_put_end,
    .put_abort = disk_put_abort,
    .get_open = disk_get_open,
    .get_pause = disk_get_pause,
    .get_resume = disk_get_resume,
    .get_abort = disk_get_abort,
    .stat = disk_stat,
    .remove = disk_remove,
    .list = disk_list,
    .get_health = disk_get_health,
};

static int open_folder(int parent_fd, const char *name, int *out, struct error *err)
{
    if (mkdirat(parent_fd, name, 0700) < 0 && errno != EEXIST)
        return error_sys(err, "make the folder of blobs '%s'", name);
    *out = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return *out < 0 ? error_sys(err, "open the folder of blobs '%s'", name) : 0;
}

/* What is put later is found by way of these names. */
static int sync_names(int root_fd, struct error *err)
{
    scoped_fd int parent_fd = openat(root_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent_fd < 0 || fsync(parent_fd) < 0 || fsync(root_fd) < 0)
        return error_sys(err, "sync the folder of blobs");
    return 0;
}

/* What a process that was killed has not finished. */
static int empty_folder(int dir_fd, struct error *err)
{
    scoped_fd int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    int status = 0;
    if (!dir)
        return error_sys(err, "read the folder of unfinished blobs");
    take_fd(&copy);
    for (struct dirent *entry; status == 0 && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dir_fd, entry->d_name, 0) < 0 && errno != ENOENT)
            status = error_sys(err, "remove the unfinished blob '%s'", entry->d_name);
    }
    closedir(dir);
    return status;
}

int disk_open(struct blob **out, struct loop *loop, const struct disk_order *order,
              struct error *err)
{
    scoped_fd int root_fd = -1, objects_fd = -1, tmp_fd = -1;
    if (open_folder(AT_FDCWD, order->dir, &root_fd, err) < 0 ||
        open_folder(root_fd, "objects", &objects_fd, err) < 0 ||
        open_folder(root_fd, "tmp", &tmp_fd, err) < 0 || empty_folder(tmp_fd, err) < 0 ||
        (order->is_full_sync && sync_names(root_fd, err) < 0))
        return -1;
    struct disk *disk = xcalloc(1, sizeof(*disk));
    *disk = (struct disk){.blob = {.ops = &disk_ops},
                          .loop = loop,
                          .objects_fd = take_fd(&objects_fd),
                          .tmp_fd = take_fd(&tmp_fd),
                          .is_full_sync = order->is_full_sync,
                          .refs = 1};
    *out = &disk->blob;
    return 0;
}
