/* layer_store.c - a list of layers in use, each with its lock and its mount */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/layer_store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "box/syscalls.h"
#include "box/veil.h"

#define IDLE_MAX      32 /* mounts that are kept for the next who wants one */
#define LOCK_TRIES    25
#define LOCK_PAUSE_US 200
#define TOUCH_NS      (60 * 1000000000ll)
#define NAME_BYTES    (2 * SPAWN_DIGEST_BYTES + 1)

struct package_layer {
    struct package_layer *next;
    uint8_t digest[SPAWN_DIGEST_BYTES];
    struct veil veil;
    int lock_fd; /* its directory; locked while anybody uses it */
    unsigned uses;
    int64_t touched_ns;
};

/* A place that is not ours to make: a folder without its parent, another user's, a read-only disk.
 */
static bool is_no_place(int error)
{
    return error == ENOENT || error == EACCES || error == EROFS;
}

static bool is_own_stat(const struct stat *st)
{
    return st->st_uid == geteuid() && (st->st_mode & 022) == 0;
}

static bool is_own(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && is_own_stat(&st);
}

int layer_store_open(struct layer_store *store, const char *path, struct error *err)
{
    *store = (struct layer_store){.fd = -1};
    if (!path)
        return 0;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return is_no_place(errno) ? 0 : error_sys(err, "make the folder of package layers");
    scoped_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && is_no_place(errno))
        return 0;
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_sys(err, "open the folder of package layers");
    if (is_own_stat(&st))
        store->fd = take_fd(&fd);
    return 0;
}

static void free_layer(struct package_layer *l)
{
    veil_close(&l->veil);
    scoped_close_fd(&l->lock_fd);
    free(l);
}

static void drop(struct layer_store *store, struct package_layer *l)
{
    struct package_layer **at = &store->layers;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    store->count--;
    free_layer(l);
}

void layer_store_close(struct layer_store *store)
{
    while (store->layers)
        drop(store, store->layers);
    scoped_close_fd(&store->fd);
    store->fd = -1;
}

/* --- taking ---------------------------------------------------------------------------------- */

/* Behind the lock: whoever removes one has taken its name away first. */
static bool has_name(const struct layer_store *store, int fd, const char *name)
{
    struct stat named, own;
    return fstatat(store->fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &own) == 0 &&
           named.st_ino == own.st_ino && named.st_dev == own.st_dev;
}

/* Somebody who lists or removes layers has it for a moment only. */
static bool lock(const struct layer_store *store, int fd, const char *name)
{
    for (int tries = 0; tries < LOCK_TRIES; tries++) {
        if (flock(fd, LOCK_SH | LOCK_NB) == 0)
            return has_name(store, fd, name);
        if (errno != EWOULDBLOCK || !has_name(store, fd, name))
            return false;
        usleep(LOCK_PAUSE_US);
    }
    return false;
}

static int open_layer(const struct layer_store *store, struct package_layer *l, const char *name,
                      struct error *err)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    l->lock_fd = sys_openat2(store->fd, name, &how);
    if (l->lock_fd < 0 || !lock(store, l->lock_fd, name))
        return error_set(err, ERROR_NOT_FOUND, "no such package layer");
    scoped_fd int tree = sys_openat2(l->lock_fd, "tree", &how);
    if (tree < 0 || !is_own(l->lock_fd) || !is_own(tree))
        return error_set(err, ERROR_DENIED, "package layer can be written by others");
    return veil_open(&l->veil, VEIL_LAYER, tree, err);
}

static struct package_layer *find(const struct layer_store *store,
                                  const uint8_t digest[SPAWN_DIGEST_BYTES])
{
    struct package_layer *l = store->layers;
    while (l && memcmp(l->digest, digest, SPAWN_DIGEST_BYTES) != 0)
        l = l->next;
    return l;
}

static void touch(const struct layer_store *store, struct package_layer *l, const char *name)
{
    int64_t now = clock_now_ns();
    if (l->touched_ns && now - l->touched_ns < TOUCH_NS)
        return;
    l->touched_ns = now;
    (void)!utimensat(store->fd, name, NULL, AT_SYMLINK_NOFOLLOW);
}

int layer_store_take(struct layer_store *store, const uint8_t digest[SPAWN_DIGEST_BYTES],
                     struct package_layer **out, struct error *err)
{
    char name[NAME_BYTES];
    format_hex(digest, SPAWN_DIGEST_BYTES, name);
    struct package_layer *l = find(store, digest);
    if (l && l->uses == 0 && !lock(store, l->lock_fd, name)) {
        drop(store, l); /* removed while nobody used it; another may have its name */
        l = NULL;
    }
    if (!l) {
        l = xcalloc(1, sizeof(*l));
        l->veil.dir_fd = l->lock_fd = -1;
        memcpy(l->digest, digest, sizeof(l->digest));
        if (open_layer(store, l, name, err) < 0) {
            free_layer(l);
            return -1;
        }
        l->next = store->layers;
        store->layers = l;
        store->count++;
    }
    touch(store, l, name);
    l->uses++;
    *out = l;
    return 0;
}

/* The one that nobody uses and that was opened first. */
static struct package_layer *find_idle(const struct layer_store *store)
{
    struct package_layer *found = NULL;
    for (struct package_layer *l = store->layers; l; l = l->next) {
        if (l->uses == 0)
            found = l;
    }
    return found;
}

void layer_store_give(struct layer_store *store, struct package_layer *l)
{
    if (!l || --l->uses > 0)
        return;
    flock(l->lock_fd, LOCK_UN);
    struct package_layer *idle = store->count > IDLE_MAX ? find_idle(store) : NULL;
    if (idle)
        drop(store, idle);
}

/* His lock ends with him, so there is no mark that a crash could leave. */
bool layer_store_is_unwanted(const struct package_layer *l)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    scoped_fd int tree = sys_openat2(l->lock_fd, "tree", &how);
    return tree >= 0 && flock(tree, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

int layer_store_mount(const struct package_layer *l, int *out, struct error *err)
{
    return veil_mount(&l->veil, out, err);
}

/* --- adding ---------------------------------------------------------------------------------- */

int layer_store_add(struct layer_store *store, const char *draft,
                    const uint8_t digest[SPAWN_DIGEST_BYTES], struct error *err)
{
    char name[NAME_BYTES];
    format_hex(digest, SPAWN_DIGEST_BYTES, name);
    if (syscall(SYS_renameat2, store->fd, draft, store->fd, name, RENAME_NOREPLACE) == 0 ||
        errno == EEXIST)
        return 0;
    return error_sys(err, "name the package layer");
}
