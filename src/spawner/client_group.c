/* client_group.c - a leaf in each hierarchy that limits something, named by the spawner's pid */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/client_group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/scoped.h"

#define PREFIX    "coved-"
#define TRIES_MAX 1000 /* the kernel lets go of reaped processes a little later */
#define TRY_US    1000

static int open_place(const struct cgroup_tree *tree, size_t index)
{
    return openat(tree->parent_fd[index], "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool is_stale(const char *name)
{
    uint64_t pid;
    return strncmp(name, PREFIX, strlen(PREFIX)) == 0 && parse_u64(name + strlen(PREFIX), &pid) &&
           pid > 0 && pid <= INT32_MAX && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

/* Of a spawner that is no process here. One of another pid namespace may be alive: then its group
 * has somebody in it and stays, or is made again when the next one starts. */
static void remove_stale(const struct cgroup_tree *tree, size_t index)
{
    int fd = open_place(tree, index);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (is_stale(e->d_name))
            unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    if (dir)
        closedir(dir);
}

void client_group_open(struct client_group *g, const struct cgroup_tree *tree)
{
    *g = (struct client_group){.tree = tree->place == SPAWN_PLACE_OWN ? tree : NULL};
    snprintf(g->name, sizeof(g->name), PREFIX "%d", getpid());
    for (size_t i = 0; g->tree && i < tree->count; i++)
        remove_stale(tree, i);
}

void client_group_close(struct client_group *g)
{
    for (size_t i = 0; g->tree && i < g->tree->count; i++) {
        scoped_fd int place = open_place(g->tree, i);
        for (int tries = 0; tries < TRIES_MAX; tries++) {
            if (unlinkat(place, g->name, AT_REMOVEDIR) == 0 || errno != EBUSY)
                break;
            usleep(TRY_US);
        }
    }
    g->tree = NULL;
}

size_t client_group_doors(struct client_group *g, int fds[CGROUP_HIERARCHIES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; g->tree && i < g->tree->count; i++) {
        bool is_v2 = (int)i == g->tree->where[CGROUP_UNIFIED];
        scoped_fd int place = open_place(g->tree, i);
        if (mkdirat(place, g->name, 0755) < 0 && errno != EEXIST)
            continue;
        scoped_fd int dir = openat(place, g->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int fd = openat(dir, is_v2 ? "cgroup.procs" : "tasks", O_WRONLY | O_CLOEXEC);
        if (fd >= 0)
            fds[count++] = fd;
    }
    return count;
}
