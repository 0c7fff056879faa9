/* mcp_room.c - making, locking and clearing the folders of private servers
 *
 * The folder of all of them is locked while one is made and others are looked at, so that a new one
 * is never taken for one that was left. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp_room.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/id.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "cli/folders.h"
#include "image/tree.h"

#define FOLDER     "mcp"
#define NAME_CHARS 8 /* short: the path of a socket has to fit into 107 bytes */

static const char *name_of(const struct mcp_room *room)
{
    return strrchr(room->path, '/') + 1;
}

/* --- what others left ------------------------------------------------------------------------- */

/* Nobody of its server is alive when nobody holds the lock, so nobody moves anything meanwhile. */
static void clear_one(int all_fd, const char *name)
{
    struct error ignored; /* who comes next tries again */
    scoped_fd int fd = openat(all_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)!tree_remove(all_fd, name, &ignored);
}

static void clear_others(int all_fd)
{
    int copy = openat(all_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    if (!list) {
        scoped_close_fd(&copy);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(list));) {
        if (entry->d_name[0] != '.')
            clear_one(all_fd, entry->d_name);
    }
    closedir(list);
}

/* --- its own ---------------------------------------------------------------------------------- */

static int open_all(const char *data_dir, char **path, struct error *err)
{
    bool is_root = geteuid() == 0;
    if (folders_make(data_dir, is_root ? 0755 : 0700, err) < 0)
        return -1;
    scoped_free char *full = realpath(data_dir, NULL); /* links on the way are resolved once */
    scoped_free char *all = full ? xasprintf("%s/" FOLDER, full) : NULL;
    /* Open to pass through: the server of root is another user. */
    if (!all || (mkdir(all, is_root ? 0711 : 0700) < 0 && errno != EEXIST))
        return error_sys(err, "make '%s/" FOLDER "'", data_dir);
    scoped_fd int fd = open(all, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        return error_sys(err, "open '%s'", all);
    *path = take_ptr(&all);
    return take_fd(&fd);
}

static int make_room(struct mcp_room *room, struct error *err)
{
    const char *name = name_of(room);
    if (mkdirat(room->all_fd, name, 0700) < 0)
        return error_sys(err, "make '%s'", room->path);
    room->fd = openat(room->all_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (room->fd < 0 || flock(room->fd, LOCK_EX | LOCK_NB) < 0)
        return error_sys(err, "lock '%s'", room->path);
    return 0;
}

int mcp_room_open(struct mcp_room *room, const char *data_dir, struct error *err)
{
    char name[NAME_CHARS + 1];
    scoped_free char *all = NULL;
    if (id_random(name, NAME_CHARS, err) < 0)
        return -1;
    *room = (struct mcp_room){.fd = -1, .all_fd = open_all(data_dir, &all, err)};
    if (room->all_fd < 0)
        return -1;
    room->path = xasprintf("%s/%s", all, name);
    clear_others(room->all_fd);
    int status = make_room(room, err);
    flock(room->all_fd, LOCK_UN);
    if (status < 0) {
        struct error ignored;
        (void)!mcp_room_close(room, &ignored);
    }
    return status;
}

int mcp_room_close(struct mcp_room *room, struct error *err)
{
    int status = tree_remove(room->all_fd, name_of(room), err);
    scoped_close_fd(&room->fd);
    scoped_close_fd(&room->all_fd);
    free(take_ptr(&room->path));
    return status;
}
