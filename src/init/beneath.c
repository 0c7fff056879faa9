/* beneath.c - openat2 with every promise that it can give, one part at a time where parts are made
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "init/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scoped.h"
#include "wire/files.h"
#include "wire/guest.h"

#define DIRECTORY (O_PATH | O_DIRECTORY)

int beneath_open(int root, const char *path, int flags, mode_t mode)
{
    struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK),
                           .mode = mode,
                           .resolve =
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof(how));
}

/* Another may make it at the same moment, and may remove it again: then it is not there. */
static int enter(int at, const char *part)
{
    int fd = beneath_open(at, part, DIRECTORY, 0);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    if (mkdirat(at, part, 0755) < 0 && errno != EEXIST)
        return -1;
    return beneath_open(at, part, DIRECTORY, 0);
}

/* All parts of the first `len` bytes, which end where a part does. */
static int make(int root, const char *path, size_t len)
{
    scoped_fd int fd = beneath_open(root, "", DIRECTORY, 0);
    for (size_t at = 0; at < len && fd >= 0;) {
        char part[FILES_NAME_MAX + 1];
        size_t part_len = strcspn(path + at, "/");
        if (part_len == 0 || part_len > FILES_NAME_MAX) {
            errno = part_len ? ENAMETOOLONG : ENOENT;
            return -1;
        }
        memcpy(part, path + at, part_len);
        part[part_len] = '\0';
        int next = enter(fd, part);
        scoped_close_fd(&fd);
        fd = next;
        at += part_len + 1;
    }
    return take_fd(&fd);
}

int beneath_make(int root, const char *path)
{
    return make(root, path, strlen(path));
}

int beneath_open_parent(int root, const char *path, bool makes, const char **name)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    *name = slash ? slash + 1 : path;
    if (slash == path) {
        errno = ENOENT; /* it would be a part without a name */
        return -1;
    }
    if (makes)
        return make(root, path, len);
    char parent[GUEST_PATH_MAX];
    if (len >= sizeof(parent)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(parent, path, len);
    parent[len] = '\0';
    return beneath_open(root, parent, DIRECTORY, 0);
}
