/* files.c - the files worker: reads, lists and writes the workspace from inside
 *
 * It runs in a fork of init with the tenant's own rights, so a link, a FIFO or a race can lead it
 * only to what the tenant could reach anyway. Paths still resolve strictly below the workspace,
 * with no links, and only regular files are opened for content. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/scoped.h"
#include "init/beneath.h"
#include "init/init.h"
#include "init/tree.h"

#define COPY_BYTES 65536
#define DEPTH_MAX  64
#define WALK_MAX   1000000 /* names that are looked at, each about a microsecond of the tenant's */
#define TOLD_MAX   20000   /* of which so many are told, when they have changed */
#define GLANCE_MAX 500     /* names that pid 1 itself looks at */

/* What comes in, or what is to go out: a write for each name would wake the host each time. */
static char copy_buffer[COPY_BYTES];
static size_t out_len;

static bool write_whole(int fd, const void *data, size_t len)
{
    struct error err;
    return fd_write_all(fd, data, len, &err) == 0;
}

static bool read_whole(int fd, void *data, size_t len)
{
    return fd_read_full(fd, data, len) == (ssize_t)len;
}

/* The header and path of the next entry; false at the end of the stream or when it is broken. */
static bool read_entry(int in, struct guest_file *f, char path[GUEST_PATH_MAX])
{
    if (!read_whole(in, f, sizeof(*f))) {
        f->flags = 0; /* half a header is no end mark */
        return false;
    }
    if (f->flags & GUEST_FILE_END)
        return false;
    if (f->path_len == 0 || f->path_len >= GUEST_PATH_MAX || !read_whole(in, path, f->path_len))
        return false;
    path[f->path_len] = '\0';
    return strlen(path) == f->path_len;
}

static bool flush_out(int out)
{
    bool ok = write_whole(out, copy_buffer, out_len);
    out_len = 0;
    return ok;
}

/* `len` is less than the buffer has. */
static bool add_out(int out, const void *data, size_t len)
{
    if (len > COPY_BYTES - out_len && !flush_out(out))
        return false;
    memcpy(copy_buffer + out_len, data, len);
    out_len += len;
    return true;
}

static bool write_entry(int out, struct guest_file *f, const char *path)
{
    f->path_len = (uint32_t)strlen(path);
    return add_out(out, f, sizeof(*f)) && add_out(out, path, f->path_len);
}

/* The last of a stream. */
static int write_end(int out, uint32_t flags)
{
    const struct guest_file end = {.flags = GUEST_FILE_END | flags};
    return add_out(out, &end, sizeof(end)) && flush_out(out) ? 0 : EPIPE;
}

static void describe(struct guest_file *f, const struct stat *st)
{
    *f = (struct guest_file){
        .mode = st->st_mode,
        .size = (uint64_t)st->st_size,
        .mtime_ns = tree_to_ns(&st->st_mtim),
        .ctime_ns = tree_to_ns(&st->st_ctim),
    };
}

/* --- put ------------------------------------------------------------------------------------- */

static int put_file(int root, int in, const struct guest_file *f, const char *path)
{
    const char *name;
    scoped_fd int at = beneath_open_parent(root, path, true, &name);
    if (at < 0)
        return errno;
    int fd = beneath_open(at, name, O_WRONLY | O_CREAT | O_TRUNC, f->mode & 0777);
    if (fd < 0)
        return errno;
    int error = 0;
    for (uint64_t left = f->size; left > 0 && !error;) {
        size_t want = MIN(left, COPY_BYTES);
        if (!read_whole(in, copy_buffer, want))
            error = EPROTO;
        else if (!write_whole(fd, copy_buffer, want))
            error = errno;
        left -= want;
    }
    const struct timespec time = tree_from_ns(f->mtime_ns);
    const struct timespec times[2] = {time, time};
    if (!error && futimens(fd, times) < 0)
        error = errno;
    close(fd);
    return error;
}

static int put(int root, int in)
{
    struct guest_file f;
    char path[GUEST_PATH_MAX];
    while (read_entry(in, &f, path)) {
        int error = put_file(root, in, &f, path);
        if (error)
            return error;
    }
    return f.flags & GUEST_FILE_END ? 0 : EPROTO;
}

/* --- list ------------------------------------------------------------------------------------ */

struct walk {
    int out;
    int64_t since_ns;
    unsigned entries, entry_max;
    unsigned told;
    bool is_cut;
    DIR *dirs[DEPTH_MAX];
    size_t path_len[DEPTH_MAX]; /* of the directory itself */
    int depth;
    char path[GUEST_PATH_MAX];
};

static void push(struct walk *w, int fd, size_t len)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir || w->depth == DEPTH_MAX) {
        w->is_cut = true;
        if (dir)
            closedir(dir);
        else if (fd >= 0)
            close(fd);
        return;
    }
    w->dirs[w->depth] = dir;
    w->path_len[w->depth] = len;
    w->depth++;
}

/* One name of the innermost directory. False when the reader is gone. */
static bool visit(struct walk *w, const char *name)
{
    struct stat st;
    struct guest_file f;
    size_t at = w->path_len[w->depth - 1], len = strlen(name);
    int dir_fd = dirfd(w->dirs[w->depth - 1]);
    if (at + len + 2 > sizeof(w->path) || w->entries == w->entry_max) {
        w->is_cut = true;
        return true;
    }
    if (at > 0)
        w->path[at++] = '/';
    memcpy(w->path + at, name, len + 1);
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return true; /* gone meanwhile */

    w->entries++;
    describe(&f, &st);
    bool is_told = f.ctime_ns >= w->since_ns && w->told < TOLD_MAX;
    w->is_cut |= f.ctime_ns >= w->since_ns && !is_told;
    w->told += is_told;
    if (is_told && !write_entry(w->out, &f, w->path))
        return false;
    if (S_ISDIR(st.st_mode)) {
        int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        push(w, fd, at + len);
    }
    return true;
}

static int list(int root, int out, int64_t since_ns, unsigned entry_max)
{
    static struct walk w;
    w = (struct walk){.out = out, .since_ns = since_ns, .entry_max = entry_max};
    push(&w, dup(root), 0);
    while (w.depth > 0) {
        struct dirent *e = w.entries < entry_max ? readdir(w.dirs[w.depth - 1]) : NULL;
        if (!e) {
            if (w.entries == entry_max)
                w.is_cut = true;
            closedir(w.dirs[--w.depth]);
            continue;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (!visit(&w, e->d_name))
            return EPIPE;
    }
    if (w.is_cut && entry_max == GLANCE_MAX)
        return E2BIG;
    return write_end(out, w.is_cut ? GUEST_FILE_TRUNCATED : 0);
}

/* --- get ------------------------------------------------------------------------------------- */

/* The size that was announced is kept whatever happens to the file: a shorter one is padded. */
static bool send_content(int out, int fd, uint64_t size)
{
    bool is_over = false;
    for (uint64_t left = size; left > 0;) {
        if (out_len == COPY_BYTES && !flush_out(out))
            return false;
        size_t want = MIN(left, COPY_BYTES - out_len);
        char *at = copy_buffer + out_len;
        ssize_t n = is_over ? 0 : fd_read_full(fd, at, want);
        if (n < (ssize_t)want) {
            is_over = true;
            n = MAX(n, 0);
            memset(at + n, 0, want - (size_t)n);
        }
        out_len += want;
        left -= want;
    }
    return true;
}

static bool get_file(int root, int out, const char *path, uint64_t max_size)
{
    struct guest_file f = {.flags = GUEST_FILE_MISSING};
    struct stat st;
    int fd = beneath_open(root, path, O_RDONLY, 0);
    bool is_good =
        fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size <= max_size;
    if (is_good)
        describe(&f, &st);
    bool ok = write_entry(out, &f, path) && (!is_good || send_content(out, fd, f.size));
    if (fd >= 0)
        close(fd);
    return ok;
}

static int get(int root, int in, int out)
{
    struct guest_file f;
    char path[GUEST_PATH_MAX];
    while (read_entry(in, &f, path)) {
        if (!get_file(root, out, path, f.size))
            return EPIPE;
    }
    return write_end(out, 0);
}

static int serve(const struct guest_message *m, int root, int in_fd, int out_fd)
{
    switch ((enum guest_files_op)m->value) {
    case GUEST_FILES_PUT:
    case GUEST_FILES_PUT_NOW:
        return put(root, in_fd);
    case GUEST_FILES_LIST:
        return list(root, out_fd, m->since_ns, WALK_MAX);
    case GUEST_FILES_LIST_NOW:
        return list(root, out_fd, m->since_ns, GLANCE_MAX);
    case GUEST_FILES_GET:
        return get(root, in_fd, out_fd);
    case GUEST_FILES_PACK:
        return init_pack(root, out_fd);
    case GUEST_FILES_UNPACK:
        return init_unpack(root, in_fd);
    case GUEST_FILES_SAVE:
    case GUEST_FILES_RESTORE:
    case GUEST_FILES_FORGET:
        return init_snapshot(m, root);
    }
    return EINVAL;
}

int init_files(const struct guest_message *m, int in_fd, int out_fd)
{
    int root = open(GUEST_WORKSPACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        return errno;
    out_len = 0;
    int error = serve(m, root, in_fd, out_fd);
    close(root);
    return error;
}
