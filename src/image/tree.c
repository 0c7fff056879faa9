/* tree.c - a walk with a list of open folders in place of recursion
 *
 * Invariant: walk->frames[0..depth) are the folders from the root to the one being read, and
 * walk->path is the path of the last. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"

#define PATH_MAX_BYTES (TREE_DEPTH_MAX * 256)
#define OPEN_TRIES     1000

struct frame {
    int fd;
    char **names; /* sorted; owned */
    size_t count;
    size_t next;     /* the one to visit */
    size_t path_len; /* of walk->path when this folder is the current one */
};

struct walk {
    struct frame frames[TREE_DEPTH_MAX];
    size_t depth;
    dev_t device;
    struct strbuf path;
    tree_visit_fn visit;
    void *ctx;
};

static void frame_release(struct frame *frame)
{
    for (size_t i = 0; i < frame->count; i++)
        free(frame->names[i]);
    free(frame->names);
    close(frame->fd);
    *frame = (struct frame){.fd = -1};
}

static void walk_free(struct walk *walk)
{
    if (!walk)
        return;
    while (walk->depth > 0)
        frame_release(&walk->frames[--walk->depth]);
    strbuf_release(&walk->path);
    free(walk);
}
SCOPED_DEFINE(walk)

/* A rename or mount anywhere on the host, while the kernel walks a "..", makes it answer EAGAIN. */
static int open_resolved(int dir_fd, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC), .resolve = resolve};
    int fd, tries = 0;
    do
        fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
    while (fd < 0 && errno == EAGAIN && ++tries < OPEN_TRIES);
    return fd;
}

int tree_open(int dir_fd, const char *path, int flags)
{
    return open_resolved(dir_fd, path, flags,
                         RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int tree_open_in_root(int root_fd, const char *path, int flags)
{
    return open_resolved(root_fd, path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void close_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

/* All at once: a visit may add and remove names, and then readdir() promises nothing. */
static int read_names(struct frame *frame, struct error *err)
{
    scoped_fd int copy = openat(frame->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0)
        return error_sys(err, "open");
    __attribute__((cleanup(close_dir))) DIR *dir = fdopendir(copy);
    if (!dir)
        return error_sys(err, "read");
    take_fd(&copy);

    size_t room = 0;
    struct dirent *item;
    while (errno = 0, (item = readdir(dir))) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        if (frame->count == TREE_ENTRIES_MAX)
            return error_set(err, ERROR_TOO_LARGE, "more than %d entries", TREE_ENTRIES_MAX);
        if (frame->count == room) {
            room = room ? 2 * room : 32;
            frame->names = xrealloc(frame->names, room * sizeof(*frame->names));
        }
        frame->names[frame->count++] = xstrdup(item->d_name);
    }
    if (errno)
        return error_sys(err, "read");
    if (frame->count > 0)
        qsort(frame->names, frame->count, sizeof(*frame->names), compare_names);
    return 0;
}

/* Takes `fd`, which is the folder of walk->path. */
static int push(struct walk *walk, int fd, struct error *err)
{
    if (walk->depth == TREE_DEPTH_MAX) {
        close(fd);
        return error_set(err, ERROR_TOO_LARGE, "folders lie deeper than %d levels", TREE_DEPTH_MAX);
    }
    struct frame *frame = &walk->frames[walk->depth++];
    *frame = (struct frame){.fd = fd, .path_len = walk->path.len};
    if (read_names(frame, err) < 0)
        return error_wrap(err, "folder '%s'", strbuf_str(&walk->path));
    return 0;
}

static void cut_path(struct walk *walk, size_t len)
{
    walk->path.len = len;
    if (walk->path.data)
        walk->path.data[len] = '\0';
}

static int call(struct walk *walk, struct frame *frame, const char *name, bool is_leaving,
                struct tree_entry *entry, struct error *err)
{
    *entry = (struct tree_entry){.dir_fd = frame->fd,
                                 .name = name,
                                 .path = strbuf_str(&walk->path),
                                 .is_leaving = is_leaving};
    if (fstatat(frame->fd, name, &entry->st, AT_SYMLINK_NOFOLLOW) < 0)
        return error_sys(err, "stat '%s'", entry->path);
    return walk->visit(walk->ctx, entry, err);
}

/* Visits the next name of the innermost folder, and steps into it when it is a folder. */
static int visit_next(struct walk *walk, struct error *err)
{
    struct frame *frame = &walk->frames[walk->depth - 1];
    const char *name = frame->names[frame->next++];
    strbuf_add_fmt(&walk->path, "%s%s", frame->path_len ? "/" : "", name);

    struct tree_entry entry;
    int answer = call(walk, frame, name, false, &entry, err);
    if (answer < 0)
        return -1;
    if (answer == TREE_SKIP || !S_ISDIR(entry.st.st_mode)) {
        cut_path(walk, frame->path_len);
        return 0;
    }
    if (entry.st.st_dev != walk->device)
        return error_set(err, ERROR_CONFLICT, "'%s' is a mount point", entry.path);
    int fd = openat(frame->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, "open '%s'", entry.path);
    return push(walk, fd, err);
}

/* Leaves the innermost folder, and tells its visitor unless it was the root. */
static int leave(struct walk *walk, struct error *err)
{
    frame_release(&walk->frames[--walk->depth]);
    if (walk->depth == 0)
        return 0;
    struct frame *frame = &walk->frames[walk->depth - 1];
    struct tree_entry entry;
    int answer = call(walk, frame, frame->names[frame->next - 1], true, &entry, err);
    cut_path(walk, frame->path_len);
    return answer < 0 ? -1 : 0;
}

int tree_walk(int root_fd, tree_visit_fn visit, void *ctx, struct error *err)
{
    struct stat st;
    if (fstat(root_fd, &st) < 0)
        return error_sys(err, "stat");
    int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, "open");

    scoped(walk) struct walk *walk = xcalloc(1, sizeof(*walk));
    *walk = (struct walk){.device = st.st_dev, .visit = visit, .ctx = ctx};
    strbuf_init(&walk->path, PATH_MAX_BYTES);
    if (push(walk, fd, err) < 0)
        return -1;
    while (walk->depth > 0) {
        struct frame *frame = &walk->frames[walk->depth - 1];
        int answer = frame->next < frame->count ? visit_next(walk, err) : leave(walk, err);
        if (answer < 0)
            return -1;
    }
    return 0;
}

/* --- removal ------------------------------------------------------------------------------------
 * Depth is no excuse here: a folder that lies too deep for one walk is moved up to the root of the
 * removal, and a next walk finds it there. */
#define REMOVE_DEPTH (TREE_DEPTH_MAX - 2)

struct removal {
    int root_fd;
    unsigned moved;
};

static unsigned path_depth(const char *path)
{
    unsigned depth = 0;
    for (; *path; path++)
        depth += *path == '/';
    return depth;
}

static int remove_visit(void *ctx, const struct tree_entry *entry, struct error *err)
{
    struct removal *removal = ctx;
    if (!S_ISDIR(entry->st.st_mode) || entry->is_leaving) {
        int flags = S_ISDIR(entry->st.st_mode) ? AT_REMOVEDIR : 0;
        if (unlinkat(entry->dir_fd, entry->name, flags) < 0)
            return error_sys(err, "remove '%s'", entry->path);
        return 0;
    }
    if ((entry->st.st_mode & 0700) != 0700 &&
        fchmodat(entry->dir_fd, entry->name, entry->st.st_mode | 0700, 0) < 0)
        return error_sys(err, "remove '%s'", entry->path);
    if (path_depth(entry->path) < REMOVE_DEPTH)
        return 0;
    char name[32];
    do { /* a name may be taken by what an interrupted removal left */
        snprintf(name, sizeof(name), ".deep-%u", removal->moved++);
        if (renameat2(entry->dir_fd, entry->name, removal->root_fd, name, RENAME_NOREPLACE) == 0)
            return TREE_SKIP;
    } while (errno == EEXIST);
    return error_sys(err, "move '%s'", entry->path);
}

int tree_remove(int dir_fd, const char *name, struct error *err)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return error_sys(err, "remove '%s'", name);
    (void)!fchmodat(dir_fd, name, 0700, 0); /* when it is not ours, the next call says so */
    scoped_fd int root = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        return error_sys(err, "remove '%s'", name);

    struct removal removal = {.root_fd = root};
    unsigned before;
    do {
        before = removal.moved;
        if (tree_walk(root, remove_visit, &removal, err) < 0)
            return error_wrap(err, "remove '%s'", name);
    } while (removal.moved != before);
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
        return error_sys(err, "remove '%s'", name);
    return 0;
}
