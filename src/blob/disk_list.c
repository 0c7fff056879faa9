/* disk_list.c - the keys of a folder in the order of their bytes, a page at a time
 *
 * A folder sorts as its name and a slash, so that walking it depth first, each folder sorted, meets
 * keys in the same order in which another back end lists them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "blob/disk_inside.h"

struct walk {
    struct disk_op op;
    blob_list_fn fn;
    void *ctx;
    char prefix[BLOB_KEY_MAX_BYTES + 1];
    char after[BLOB_KEY_MAX_BYTES + 1]; /* "": from the beginning */
    size_t limit;

    struct blob_entry *entries; /* their keys are owned */
    size_t count;
    bool has_more;
};

/* Names of one folder: "name/" of folders, "name" of blobs. */
struct names {
    char **items;
    size_t count;
};

static void names_release(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What is neither of ours (a file of somebody else's) is passed over. */
static char *name_of(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
        return xasprintf("%s/", entry->d_name);
    if (entry->d_type == DT_REG && len > 1 && entry->d_name[len - 1] == '@')
        return xstrndup(entry->d_name, len - 1);
    return NULL;
}

static int names_read(struct names *out, int parent_fd, const char *path)
{
    int fd = disk_open_at(parent_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return -1;
    size_t room = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char *name = name_of(entry);
        if (!name)
            continue;
        if (out->count == room) {
            room = room ? 2 * room : 64;
            out->items = xrealloc(out->items, room * sizeof(*out->items));
        }
        out->items[out->count++] = name;
    }
    closedir(dir);
    if (out->count > 0)
        qsort(out->items, out->count, sizeof(*out->items), by_bytes);
    return 0;
}

/* Could `path`, a key or a folder with its slash, be or hold something that is wanted? */
static bool is_wanted(const struct walk *w, const char *path, bool is_folder)
{
    size_t len = strlen(path), prefix_len = strlen(w->prefix);
    if (strncmp(path, w->prefix, MIN(len, prefix_len)) != 0 || (!is_folder && len < prefix_len))
        return false;
    if (!is_folder)
        return strcmp(path, w->after) > 0;
    return strncmp(w->after, path, len) <= 0;
}

/* One that was removed meanwhile is not there. */
static int add_entry(struct walk *w, const char *key)
{
    struct stat st;
    char path[DISK_PATH_BYTES];
    snprintf(path, sizeof(path), "%s@", key);
    scoped_fd int fd = disk_open_at(w->op.disk->objects_fd, path, O_PATH);
    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT ? 0 : -1;
    if (w->count == w->limit) {
        w->has_more = true;
        return 0;
    }
    struct blob_entry *entry = &w->entries[w->count++];
    entry->key = xstrdup(key);
    disk_fill_info(&entry->info, &st);
    return 0;
}

/* As deep as keys are, and no deeper. */
static int walk_folder(struct walk *w, const char *path, size_t depth)
{
    struct names names = {0};
    int status = names_read(&names, w->op.disk->objects_fd, path);
    if (status < 0 && (errno == ENOENT || errno == ENOTDIR))
        status = 0; /* removed meanwhile */
    for (size_t i = 0; status == 0 && i < names.count && !w->has_more; i++) {
        char *below = xasprintf("%s%s", path, names.items[i]);
        bool is_folder = below[strlen(below) - 1] == '/';
        if (strlen(below) > BLOB_KEY_MAX_BYTES || !is_wanted(w, below, is_folder))
            status = 0;
        else if (!is_folder)
            status = add_entry(w, below);
        else if (depth < BLOB_KEY_MAX_SEGMENTS)
            status = walk_folder(w, below, depth + 1);
        free(below);
    }
    names_release(&names);
    return status;
}

/* From the deepest folder that all of them share. */
static void run_walk(void *ctx)
{
    struct walk *w = ctx;
    char *slash = strrchr(w->prefix, '/');
    scoped_free char *top =
        slash ? xstrndup(w->prefix, (size_t)(slash - w->prefix) + 1) : xstrdup("");
    w->entries = xcalloc(w->limit, sizeof(*w->entries));
    if (walk_folder(w, top, 1) < 0)
        disk_op_fail(&w->op, "list");
}

static void walk_free(struct walk *w)
{
    disk_op_end(&w->op);
    for (size_t i = 0; i < w->count; i++)
        free((char *)w->entries[i].key);
    free(w->entries);
    free(w);
}

static void on_walk(void *ctx)
{
    struct walk *w = ctx;
    const struct blob_page page = {
        .entries = w->entries, .count = w->count, .has_more = w->has_more};
    disk_op_leave(&w->op);
    if (!w->op.is_dropped) {
        disk_op_count(&w->op);
        w->fn(w->ctx, w->op.has_failed ? &w->op.err : NULL, w->op.has_failed ? NULL : &page);
    }
    walk_free(w);
}

static void drop_walk(struct disk_op *op)
{
    op->is_dropped = true;
    disk_op_leave(op);
}

void disk_list(struct blob *blob, const struct blob_list_order *order, blob_list_fn fn, void *ctx)
{
    struct disk *disk = (struct disk *)blob;
    struct walk *w = xcalloc(1, sizeof(*w));
    *w = (struct walk){.fn = fn, .ctx = ctx, .limit = order->limit};
    snprintf(w->prefix, sizeof(w->prefix), "%s", order->prefix);
    snprintf(w->after, sizeof(w->after), "%s", order->after ? order->after : "");
    disk_op_begin(disk, &w->op, order->prefix, drop_walk);
    loop_work(disk->loop, run_walk, on_walk, w);
}
