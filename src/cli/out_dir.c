/* out_dir.c - temporary file, then rename, relative to directory fds only */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/out_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/memory.h"
#include "base/scoped.h"

struct out_dir {
    int fd;
    char temp[ID_BYTES + 8]; /* name of an unfinished file; no sandbox can guess it */
    int parent_fd;           /* directory of the file that is being written; -1: none */
    int file_fd;
    char name[256]; /* its last component */
    uint32_t mode;
    bool has_failed;
    struct error failure;
};

static int open_beneath(int dir_fd, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve =
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
}

int out_dir_open(struct out_dir **out, const char *path, struct error *err)
{
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return error_sys(err, "make '%s'", path);
    scoped_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, "open '%s'", path);
    char id[ID_BYTES];
    if (id_make(ID_REQUEST, id, err) < 0)
        return -1;
    struct out_dir *dir = xcalloc(1, sizeof(*dir));
    *dir = (struct out_dir){.fd = take_fd(&fd), .parent_fd = -1, .file_fd = -1};
    snprintf(dir->temp, sizeof(dir->temp), ".cove-%s", id);
    *out = dir;
    return 0;
}

static void drop_file(struct out_dir *dir)
{
    if (dir->file_fd >= 0)
        unlinkat(dir->parent_fd, dir->temp, 0);
    scoped_close_fd(&dir->file_fd);
    scoped_close_fd(&dir->parent_fd);
    dir->file_fd = dir->parent_fd = -1;
}

void out_dir_free(struct out_dir *dir)
{
    if (!dir)
        return;
    drop_file(dir);
    close(dir->fd);
    free(dir);
}

static void remember(struct out_dir *dir, const char *what, const char *path)
{
    if (!dir->has_failed)
        error_sys(&dir->failure, "%s '%s'", what, path);
    dir->has_failed = true;
    drop_file(dir);
}

/* The directory of `path`, made as needed; *name is its last component. */
static int open_parent(int root, const char *path, const char **name)
{
    int dir = fcntl(root, F_DUPFD_CLOEXEC, 3);
    const char *slash;
    for (; dir >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        char part[256];
        snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        if (mkdirat(dir, part, 0755) < 0 && errno != EEXIST) {
            close(dir);
            return -1;
        }
        int next = open_beneath(dir, part);
        close(dir);
        dir = next;
    }
    *name = path;
    return dir;
}

void out_dir_begin(struct out_dir *dir, const char *path, uint32_t mode)
{
    const char *name;
    dir->parent_fd = open_parent(dir->fd, path, &name);
    if (dir->parent_fd < 0) {
        remember(dir, "make folder of", path);
        return;
    }
    snprintf(dir->name, sizeof(dir->name), "%s", name);
    dir->mode = mode & 0755; /* no set-uid bits, not writable by others */
    dir->file_fd = openat(dir->parent_fd, dir->temp,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (dir->file_fd < 0)
        remember(dir, "write", path);
}

void out_dir_data(struct out_dir *dir, const void *data, size_t len)
{
    struct error err;
    if (dir->file_fd >= 0 && fd_write_all(dir->file_fd, data, len, &err) < 0)
        remember(dir, "write", dir->name);
}

void out_dir_end(struct out_dir *dir)
{
    if (dir->file_fd < 0)
        return;
    if (fchmod(dir->file_fd, dir->mode) < 0 ||
        renameat(dir->parent_fd, dir->temp, dir->parent_fd, dir->name) < 0) {
        remember(dir, "write", dir->name);
        return;
    }
    scoped_close_fd(&dir->file_fd);
    scoped_close_fd(&dir->parent_fd);
    dir->file_fd = dir->parent_fd = -1;
}

int out_dir_failure(const struct out_dir *dir, struct error *err)
{
    if (!dir->has_failed)
        return 0;
    *err = dir->failure;
    return -1;
}
