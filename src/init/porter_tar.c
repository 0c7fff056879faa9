/* porter_tar.c - what is in a directory as a tar stream, and a tar stream into a directory
 *
 * Out: links are told as links, FIFOs and sockets are left out, and so is what its owner may not
 * read. In: every name resolves below the directory and through no link, also through none that the
 * stream itself has brought; each file is there when it is whole; what is neither file, directory
 * nor link is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/scoped.h"
#include "init/beneath.h"
#include "init/porter.h"
#include "init/tar.h"
#include "init/tree.h"

#define DEPTH_MAX 64

/* --- out ------------------------------------------------------------------------------------- */

static struct pack {
    struct porter *porter;
    struct tar_entry entry;
    size_t len; /* of what waits to be sent */
    char bytes[FILES_BYTES_MAX];
} pack;

/* A directory on the way. */
struct place {
    int depth;
    size_t path_len;
};

static void flush(void)
{
    if (pack.len > 0)
        porter_tell_bytes(pack.bytes, pack.len);
    pack.len = 0;
}

static void put(const void *data, size_t len)
{
    for (const char *from = data; len > 0;) {
        size_t part = MIN(len, sizeof(pack.bytes) - pack.len);
        memcpy(pack.bytes + pack.len, from, part);
        pack.len += part;
        from += part;
        len -= part;
        if (pack.len == sizeof(pack.bytes))
            flush();
    }
}

static void put_zeros(size_t len)
{
    static const char zeros[2 * TAR_BLOCK];
    put(zeros, len);
}

static void put_header(enum tar_kind kind, const struct stat *st, uint64_t size)
{
    static char header[TAR_HEADER_MAX];
    pack.entry.kind = kind;
    pack.entry.mode = st->st_mode & 0777;
    pack.entry.mtime = st->st_mtim.tv_sec;
    pack.entry.size = size;
    put(header, tar_write_header(&pack.entry, header));
    pack.entry.target[0] = '\0';
}

/* What is shorter than it was is filled up: the stream keeps what it has announced. */
static int put_content(int fd, uint64_t size)
{
    static char buffer[FILES_BYTES_MAX];
    bool is_over = false;
    for (uint64_t left = size; left > 0;) {
        size_t want = (size_t)MIN(left, sizeof(buffer));
        ssize_t n = is_over ? 0 : read(fd, buffer, want);
        if (n < 0)
            return errno;
        if (n == 0) {
            is_over = true;
            memset(buffer, 0, want);
            n = (ssize_t)want;
        }
        put(buffer, (size_t)n);
        left -= (uint64_t)n;
    }
    put_zeros(tar_padding(size));
    return 0;
}

static int leave_out(void)
{
    pack.porter->flags |= FILES_CUT;
    return 0;
}

static int pack_file(int at, const char *name)
{
    struct stat st;
    scoped_fd int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return leave_out();
    put_header(TAR_FILE, &st, (uint64_t)st.st_size);
    return put_content(fd, (uint64_t)st.st_size);
}

static int pack_link(int at, const char *name, const struct stat *st)
{
    ssize_t n = readlinkat(at, name, pack.entry.target, sizeof(pack.entry.target) - 1);
    if (n <= 0)
        return leave_out();
    pack.entry.target[n] = '\0';
    put_header(TAR_LINK, st, 0);
    return 0;
}

static int pack_entry(int at, const char *name, const struct stat *st, void *ctx);

static int pack_dir(int at, const char *name, const struct stat *st, const struct place *place,
                    size_t len)
{
    char *path = pack.entry.path;
    scoped_fd int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return leave_out();
    if (place->depth == DEPTH_MAX)
        return ELOOP;
    path[len] = '/';
    path[len + 1] = '\0';
    put_header(TAR_DIRECTORY, st, 0);
    struct place inner = {.depth = place->depth + 1, .path_len = len + 1};
    return tree_each(fd, pack_entry, &inner);
}

static int pack_entry(int at, const char *name, const struct stat *st, void *ctx)
{
    const struct place *place = ctx;
    size_t len = place->path_len + strlen(name);
    if (len + 2 > sizeof(pack.entry.path))
        return ENAMETOOLONG;
    memcpy(pack.entry.path + place->path_len, name, strlen(name) + 1);
    if (S_ISREG(st->st_mode))
        return pack_file(at, name);
    if (S_ISDIR(st->st_mode))
        return pack_dir(at, name, st, place, len);
    return S_ISLNK(st->st_mode) ? pack_link(at, name, st) : leave_out();
}

int porter_pack(struct porter *p)
{
    struct place top = {0};
    scoped_fd int fd = beneath_open(p->root, p->path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return errno;
    pack.porter = p;
    pack.len = 0;
    int error = tree_each(fd, pack_entry, &top);
    if (error)
        return error;
    put_zeros(2 * TAR_BLOCK);
    flush();
    return 0;
}

/* --- in -------------------------------------------------------------------------------------- */

static struct unpack {
    struct tar_reader reader;
    int root;
    int at, draft; /* of the file that comes; -1: none */
    const char *name;
    uint64_t left;
} unpack;

/* Without what says nothing: "./a//b/" is "a/b". Empty: the directory itself. False: it would lead
 * out of it. */
static bool clean_path(char *path)
{
    char *to = path;
    if (*path == '/')
        return false;
    for (const char *from = path; *from;) {
        size_t len = strcspn(from, "/");
        if (len == 2 && memcmp(from, "..", 2) == 0)
            return false;
        if (len > 0 && !(len == 1 && *from == '.')) {
            if (to > path)
                *to++ = '/';
            memmove(to, from, len);
            to += len;
        }
        from += len + (from[len] == '/');
    }
    *to = '\0';
    return true;
}

static int finish_file(struct unpack *u)
{
    const struct tar_entry *e = &u->reader.entry;
    const struct timespec time = {.tv_sec = e->mtime}, times[2] = {time, time};
    bool is_new;
    scoped_fd int at = take_fd(&u->at);
    scoped_fd int draft = take_fd(&u->draft);
    if (fchmod(draft, e->mode) < 0 || futimens(draft, times) < 0)
        return errno;
    return porter_name_draft(draft, at, u->name, true, &is_new);
}

static int begin_file(struct unpack *u)
{
    u->at = beneath_open_parent(u->root, u->reader.entry.path, true, &u->name);
    u->draft = u->at < 0 ? -1 : porter_open_draft(u->at);
    if (u->draft < 0)
        return errno;
    u->left = u->reader.entry.size;
    return u->left == 0 ? finish_file(u) : 0;
}

static int make_dir(const struct unpack *u)
{
    const struct tar_entry *e = &u->reader.entry;
    scoped_fd int made = beneath_make(u->root, e->path);
    if (made < 0)
        return errno;
    scoped_fd int fd = beneath_open(made, "", O_RDONLY | O_DIRECTORY, 0);
    return fd < 0 || fchmod(fd, e->mode | 0700) < 0 ? errno : 0;
}

static int make_link(const struct unpack *u)
{
    const struct tar_entry *e = &u->reader.entry;
    const char *name;
    scoped_fd int at = beneath_open_parent(u->root, e->path, true, &name);
    if (at < 0)
        return errno;
    if (symlinkat(e->target, at, name) == 0)
        return 0;
    if (errno != EEXIST || unlinkat(at, name, 0) < 0)
        return errno;
    return symlinkat(e->target, at, name) < 0 ? errno : 0;
}

static int begin_entry(struct unpack *u)
{
    struct tar_entry *e = &u->reader.entry;
    if (!clean_path(e->path))
        return EXDEV;
    if (!*e->path)
        return e->kind == TAR_DIRECTORY ? 0 : EXDEV;
    switch (e->kind) {
    case TAR_FILE:
        return begin_file(u);
    case TAR_DIRECTORY:
        return make_dir(u);
    case TAR_LINK:
        return make_link(u);
    case TAR_OTHER:
        break;
    }
    return EOPNOTSUPP;
}

static int take_content(struct unpack *u, const char *data, size_t len)
{
    struct error err;
    if (u->draft < 0)
        return EPROTO;
    if (fd_write_all(u->draft, data, len, &err) < 0)
        return errno;
    u->left -= len;
    return u->left == 0 ? finish_file(u) : 0;
}

static int take_bytes(struct unpack *u, const char *bytes, size_t count)
{
    for (size_t at = 0; at < count;) {
        const char *data;
        size_t used, len;
        int error = 0;
        enum tar_step step = tar_read(&u->reader, bytes + at, count - at, &used, &data, &len);
        at += used;
        if (step == TAR_ENTRY)
            error = begin_entry(u);
        else if (step == TAR_CONTENT)
            error = take_content(u, data, len);
        else if (step == TAR_BAD)
            error = EBADMSG;
        if (error)
            return error;
    }
    return 0;
}

int porter_unpack(struct porter *p)
{
    struct unpack *u = &unpack;
    const char *bytes;
    size_t count;
    scoped_fd int root = beneath_make(p->root, p->path);
    if (root < 0)
        return errno;
    *u = (struct unpack){.root = root, .at = -1, .draft = -1};
    while ((count = porter_next_bytes(&bytes)) > 0) {
        int error = take_bytes(u, bytes, count);
        if (error)
            return error;
        porter_tell_alive();
    }
    return tar_is_complete(&u->reader) ? 0 : EBADMSG;
}
