/* pack.c - the whole workspace as a stream, and back into the workspace of another sandbox
 *
 * Both ends are files workers, each with the rights of its own tenant; the host only lays the pipe.
 * An entry is a struct guest_file and its path; behind a regular file come its pieces (holes are
 * left out), behind a link its target. A directory comes twice: before what is in it, and behind.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/scoped.h"
#include "init/init.h"
#include "init/tree.h"

#define DEPTH_MAX  64
#define COPY_BYTES 65536

/* Of a regular file; one of length 0 ends it. */
struct piece {
    uint64_t at;
    uint64_t length;
};

static char buffer[COPY_BYTES];

/* The stream's own buffer: small files are many, and a system call for each part of each is most of
 * what they cost. A worker has one stream. */
static struct {
    char data[COPY_BYTES];
    size_t at, end;
} stream;

static int flush(int fd)
{
    struct error err;
    size_t len = stream.end;
    stream.end = 0;
    return fd_write_all(fd, stream.data, len, &err) < 0 ? errno : 0;
}

static int write_whole(int fd, const void *data, size_t len)
{
    for (const char *from = data; len > 0;) {
        size_t room = sizeof(stream.data) - stream.end, piece = MIN(len, room);
        memcpy(stream.data + stream.end, from, piece);
        stream.end += piece;
        from += piece;
        len -= piece;
        int error = stream.end == sizeof(stream.data) ? flush(fd) : 0;
        if (error)
            return error;
    }
    return 0;
}

static int read_whole(int fd, void *data, size_t len)
{
    for (char *to = data; len > 0;) {
        if (stream.at == stream.end) {
            ssize_t n = read(fd, stream.data, sizeof(stream.data));
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                return EPROTO;
            stream.at = 0;
            stream.end = (size_t)n;
        }
        size_t piece = MIN(len, stream.end - stream.at);
        memcpy(to, stream.data + stream.at, piece);
        stream.at += piece;
        to += piece;
        len -= piece;
    }
    return 0;
}

/* --- pack ------------------------------------------------------------------------------------ */

struct pack {
    int out;
    int depth;
    size_t len; /* of the path of the directory */
    char *path;
};

static int write_entry(const struct pack *p, const struct stat *st, uint64_t size)
{
    const struct guest_file f = {
        .mode = st->st_mode,
        .path_len = (uint32_t)strlen(p->path),
        .size = size,
        .mtime_ns = tree_to_ns(&st->st_mtim),
    };
    int error = write_whole(p->out, &f, sizeof(f));
    return error ? error : write_whole(p->out, p->path, f.path_len);
}

/* What is shorter than it was is filled up: the stream keeps what it has announced. */
static int write_piece(int out, int fd, const struct piece *piece)
{
    int error = write_whole(out, piece, sizeof(*piece));
    uint64_t at = piece->at;
    for (uint64_t left = piece->length; left > 0 && !error;) {
        size_t want = MIN(left, sizeof(buffer));
        ssize_t n = pread(fd, buffer, want, (off_t)at);
        if (n < 0)
            return errno;
        if (n == 0) {
            memset(buffer, 0, want);
            n = (ssize_t)want;
        }
        error = write_whole(out, buffer, (size_t)n);
        at += (uint64_t)n;
        left -= (uint64_t)n;
    }
    return error;
}

static int pack_file(int at, const char *name, const struct stat *seen, const struct pack *p)
{
    struct stat st;
    scoped_fd int fd = tree_open_file(at, name, seen->st_mode);
    if (fd < 0 || fstat(fd, &st) < 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return EAGAIN; /* another one meanwhile */
    int error = write_entry(p, &st, (uint64_t)st.st_size);
    for (off_t from = 0, end; from < st.st_size && !error; from = end) {
        from = lseek(fd, from, SEEK_DATA);
        if (from < 0 && errno == ENXIO)
            break; /* no data from there on */
        end = from < 0 ? -1 : lseek(fd, from, SEEK_HOLE);
        if (end < 0)
            return errno;
        if (end <= from || from >= st.st_size)
            break;
        end = MIN(end, st.st_size);
        const struct piece piece = {(uint64_t)from, (uint64_t)(end - from)};
        error = write_piece(p->out, fd, &piece);
    }
    const struct piece last = {0};
    return error ? error : write_whole(p->out, &last, sizeof(last));
}

static int pack_link(int at, const char *name, const struct stat *st, const struct pack *p)
{
    char target[GUEST_PATH_MAX];
    ssize_t n = readlinkat(at, name, target, sizeof(target) - 1);
    if (n <= 0)
        return n < 0 ? errno : EINVAL;
    int error = write_entry(p, st, (uint64_t)n);
    return error ? error : write_whole(p->out, target, (size_t)n);
}

static int pack_entry(int at, const char *name, const struct stat *st, void *ctx);

static int pack_dir(int at, const char *name, const struct stat *st, const struct pack *p)
{
    if (p->depth == DEPTH_MAX)
        return ELOOP;
    scoped_fd int fd = tree_open_dir(at, name);
    if (fd < 0)
        return errno;
    size_t len = strlen(p->path);
    struct pack inner = {.out = p->out, .depth = p->depth + 1, .len = len, .path = p->path};
    int error = write_entry(p, st, 0);
    if (!error)
        error = tree_each(fd, pack_entry, &inner);
    p->path[len] = '\0';
    return error ? error : write_entry(p, st, 0);
}

static int pack_entry(int at, const char *name, const struct stat *st, void *ctx)
{
    const struct pack *p = ctx;
    size_t len = strlen(name), from = p->len;
    if (from + len + 2 > GUEST_PATH_MAX)
        return ENAMETOOLONG;
    if (from > 0)
        p->path[from++] = '/';
    memcpy(p->path + from, name, len + 1);
    if (S_ISREG(st->st_mode))
        return pack_file(at, name, st, p);
    if (S_ISDIR(st->st_mode))
        return pack_dir(at, name, st, p);
    if (S_ISLNK(st->st_mode))
        return pack_link(at, name, st, p);
    return S_ISFIFO(st->st_mode) ? write_entry(p, st, 0) : 0; /* no socket outlives its listener */
}

int init_pack(int root, int out)
{
    static char path[GUEST_PATH_MAX];
    struct pack p = {.out = out, .path = path};
    const struct guest_file end = {.flags = GUEST_FILE_END};
    int error = tree_each(root, pack_entry, &p);
    if (!error)
        error = write_whole(out, &end, sizeof(end));
    return error ? error : flush(out);
}

/* --- unpack ---------------------------------------------------------------------------------- */

static int open_new(int root, const char *path, mode_t mode)
{
    struct open_how how = {.flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                           .mode = mode & 0777,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

static int read_piece(int in, int fd, const struct piece *piece)
{
    struct error err;
    if (lseek(fd, (off_t)piece->at, SEEK_SET) < 0)
        return EPROTO;
    for (uint64_t left = piece->length; left > 0;) {
        size_t want = MIN(left, sizeof(buffer));
        if (read_whole(in, buffer, want))
            return EPROTO;
        if (fd_write_all(fd, buffer, want, &err) < 0)
            return errno;
        left -= want;
    }
    return 0;
}

static int unpack_file(int root, int in, const struct guest_file *f, const char *path)
{
    const struct timespec time = tree_from_ns(f->mtime_ns), times[2] = {time, time};
    scoped_fd int fd = open_new(root, path, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)f->size) < 0)
        return errno;
    for (;;) {
        struct piece piece;
        if (read_whole(in, &piece, sizeof(piece)))
            return EPROTO;
        if (piece.length == 0)
            break;
        int error = read_piece(in, fd, &piece);
        if (error)
            return error;
    }
    return fchmod(fd, f->mode & 07777) < 0 || futimens(fd, times) < 0 ? errno : 0;
}

static int unpack_link(int root, int in, const struct guest_file *f, const char *path)
{
    char target[GUEST_PATH_MAX];
    if (f->size >= sizeof(target) || read_whole(in, target, f->size))
        return EPROTO;
    target[f->size] = '\0';
    return symlinkat(target, root, path) < 0 ? errno : 0;
}

/* The second time it is full. */
static int unpack_dir(int root, const struct guest_file *f, const char *path)
{
    const struct timespec time = tree_from_ns(f->mtime_ns);
    const struct stat st = {.st_mode = f->mode, .st_atim = time, .st_mtim = time};
    if (mkdirat(root, path, 0700) == 0)
        return 0;
    if (errno != EEXIST)
        return errno;
    return tree_finish_dir(root, path, &st);
}

static int unpack_entry(int root, int in, const struct guest_file *f)
{
    char path[GUEST_PATH_MAX];
    if (f->path_len == 0 || f->path_len >= sizeof(path) || read_whole(in, path, f->path_len))
        return EPROTO;
    path[f->path_len] = '\0';
    if (S_ISREG(f->mode))
        return unpack_file(root, in, f, path);
    if (S_ISDIR(f->mode))
        return unpack_dir(root, f, path);
    if (S_ISLNK(f->mode))
        return unpack_link(root, in, f, path);
    return mkfifoat(root, path, f->mode & 0777) < 0 ? errno : 0;
}

int init_unpack(int root, int in)
{
    for (;;) {
        struct guest_file f;
        if (read_whole(in, &f, sizeof(f)))
            return EPROTO;
        if (f.flags & GUEST_FILE_END)
            return 0;
        int error = unpack_entry(root, in, &f);
        if (error)
            return error;
    }
}
