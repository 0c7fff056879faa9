/* layer_copy.c - two walks without recursion: one that copies, one that removes */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/layer_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scoped.h"

#define OPEN_BELOW (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

struct level {
    DIR *from;
    int to_fd; /* -1: the caller's, or none */
};

#define LEVELS_MAX (LAYER_DEPTH_MAX + 4) /* a draft has directories around its copy */

struct walk {
    struct level levels[LEVELS_MAX];
    size_t depth; /* of the level in use, counted from 1 */
};

static int enter(struct walk *w, int from_fd, int to_fd)
{
    if (w->depth == LEVELS_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    DIR *from = fdopendir(from_fd);
    if (!from)
        return -1;
    w->levels[w->depth++] = (struct level){from, to_fd};
    return 0;
}

static void leave(struct walk *w)
{
    struct level *l = &w->levels[--w->depth];
    int error = errno;
    closedir(l->from);
    if (w->depth > 0) /* the first one is the caller's */
        scoped_close_fd(&l->to_fd);
    errno = error;
}

static void leave_all(struct walk *w)
{
    while (w->depth > 0)
        leave(w);
}

/* NULL with errno 0 at the end. */
static const char *next_name(struct walk *w)
{
    const struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(w->levels[w->depth - 1].from);
    } while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    return entry ? entry->d_name : NULL;
}

/* --- copying --------------------------------------------------------------------------------- */

static int refuse(struct layer_copy *c, int error, const char *step)
{
    c->step = step;
    errno = error;
    return -1;
}

static int count(struct layer_copy *c, uint64_t bytes)
{
    if (c->entries == c->entries_max)
        return refuse(c, EFBIG, "the packages have too many files");
    if (bytes > c->bytes_max - c->bytes)
        return refuse(c, EFBIG, "the packages are too large");
    c->entries++;
    c->bytes += bytes;
    return 0;
}

/* As many bytes as were counted: a hole in the file becomes zeros. */
static int copy_bytes(int from, int to, uint64_t left)
{
    static char buffer[128 * 1024];
    while (left > 0) {
        ssize_t n = read(from, buffer, MIN(left, sizeof(buffer)));
        if (n <= 0) {
            errno = n < 0 ? errno : EIO;
            return -1;
        }
        for (ssize_t done = 0, part; done < n; done += part) {
            part = write(to, buffer + done, (size_t)(n - done));
            if (part < 0)
                return -1;
        }
        left -= (uint64_t)n;
    }
    return 0;
}

/* The time of the last change stays: compiled Python is taken for valid by it. */
static int copy_file(struct layer_copy *c, int from_dir, int to_dir, const char *name)
{
    struct stat st;
    scoped_fd int from = openat(from_dir, name, OPEN_BELOW);
    if (from < 0 || fstat(from, &st) < 0)
        return refuse(c, errno, "a file of the packages cannot be read");
    if (st.st_mode & (S_ISUID | S_ISGID))
        return refuse(c, EINVAL, "the packages have a file that changes its user's identity");
    if (count(c, (uint64_t)st.st_size) < 0)
        return -1;
    const struct timespec times[2] = {st.st_mtim, st.st_mtim};
    mode_t mode = st.st_mode & 0111 ? 0755 : 0644;
    scoped_fd int to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (to < 0 || copy_bytes(from, to, (uint64_t)st.st_size) < 0 || futimens(to, times) < 0)
        return refuse(c, errno, "write a file of the packages");
    return 0;
}

/* Whether the target, read from a directory `depth` below the layer's root, never leaves it. */
static bool stays_inside(const char *target, size_t depth)
{
    if (target[0] == '/')
        return false;
    for (const char *part = target; *part;) {
        size_t len = strcspn(part, "/");
        bool is_up = len == 2 && memcmp(part, "..", 2) == 0;
        if (is_up && depth == 0)
            return false;
        if (is_up)
            depth--;
        else if (len > 0 && !(len == 1 && part[0] == '.'))
            depth++;
        part += len;
        part += strspn(part, "/");
    }
    return true;
}

static int copy_link(struct layer_copy *c, int from_dir, int to_dir, const char *name, size_t depth)
{
    char target[PATH_MAX];
    ssize_t len = readlinkat(from_dir, name, target, sizeof(target) - 1);
    if (len < 0)
        return refuse(c, errno, "a link of the packages cannot be read");
    target[len] = '\0';
    if (!stays_inside(target, depth))
        return refuse(c, EINVAL, "the packages have a link that leads out of them");
    if (count(c, (uint64_t)len) < 0)
        return -1;
    return symlinkat(target, to_dir, name) < 0 ? refuse(c, errno, "write a link of the packages")
                                               : 0;
}

static int copy_dir(struct layer_copy *c, struct walk *w, int from_dir, int to_dir,
                    const char *name)
{
    scoped_fd int from = openat(from_dir, name, OPEN_BELOW | O_DIRECTORY);
    if (from < 0)
        return refuse(c, errno, "a directory of the packages cannot be read");
    if (w->depth == LAYER_DEPTH_MAX)
        return refuse(c, EINVAL, "the packages have directories too deep inside each other");
    if (count(c, 0) < 0)
        return -1;
    scoped_fd int to =
        mkdirat(to_dir, name, 0755) < 0 ? -1 : openat(to_dir, name, OPEN_BELOW | O_DIRECTORY);
    if (to < 0)
        return refuse(c, errno, "write a directory of the packages");
    if (enter(w, from, to) < 0)
        return refuse(c, errno, "list a directory of the packages");
    (void)take_fd(&from);
    (void)take_fd(&to);
    return 0;
}

static int copy_entry(struct layer_copy *c, struct walk *w, const char *name)
{
    const struct level *l = &w->levels[w->depth - 1];
    int from = dirfd(l->from);
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return refuse(c, errno, "a file of the packages cannot be read");
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        return copy_file(c, from, l->to_fd, name);
    case S_IFDIR:
        return copy_dir(c, w, from, l->to_fd, name);
    case S_IFLNK:
        return copy_link(c, from, l->to_fd, name, w->depth - 1);
    default:
        return refuse(c, EINVAL, "the packages have what is neither file, directory nor link");
    }
}

int layer_copy_tree(struct layer_copy *c, int from_fd, int to_fd)
{
    static struct walk w;
    w.depth = 0;
    scoped_fd int from = openat(from_fd, ".", OPEN_BELOW | O_DIRECTORY);
    if (from < 0 || enter(&w, from, to_fd) < 0)
        return refuse(c, errno, "open the packages");
    (void)take_fd(&from);
    while (w.depth > 0) {
        const char *name = next_name(&w);
        if (!name && errno == 0) {
            leave(&w);
        } else if (!name || copy_entry(c, &w, name) < 0) {
            if (!name)
                refuse(c, errno, "list the packages");
            leave_all(&w);
            return -1;
        }
    }
    return 0;
}

/* --- removing -------------------------------------------------------------------------------- */

static int remove_entry(struct walk *w, const char *name)
{
    int dir = dirfd(w->levels[w->depth - 1].from);
    if (unlinkat(dir, name, 0) == 0 || unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -1;
    scoped_fd int below = openat(dir, name, OPEN_BELOW | O_DIRECTORY);
    if (below < 0 || enter(w, below, -1) < 0)
        return -1;
    (void)take_fd(&below);
    return 0;
}

/* A directory that was emptied is removed when its parent is listed again, from the beginning. */
int layer_empty(int dir_fd)
{
    static struct walk w;
    w.depth = 0;
    scoped_fd int top = openat(dir_fd, ".", OPEN_BELOW | O_DIRECTORY);
    if (top < 0 || enter(&w, top, -1) < 0)
        return -1;
    (void)take_fd(&top);
    while (w.depth > 0) {
        const char *name = next_name(&w);
        if (!name && errno == 0) {
            leave(&w);
            if (w.depth > 0)
                rewinddir(w.levels[w.depth - 1].from);
        } else if (!name || remove_entry(&w, name) < 0) {
            leave_all(&w);
            return -1;
        }
    }
    return 0;
}
