/* cgroup_place.c - below which group sandboxes get theirs
 *
 * It is the group that we were started in, so that the limits of a unit, a container or a scope
 * hold for all that it starts. Version 2 hands controllers down only from groups without processes
 * (but for the root of all), so those that stand there move into a leaf of it: ours always, others
 * only out of what was delegated or is a container's own top. A shell that somebody works in is
 * left alone; root then takes the nearest group above that will do. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/scoped.h"
#include "box/cgroup_inside.h"
#include "box/syscalls.h"

#define LEAF       "cove-server"
#define TRIES_MAX  50 /* who is being moved may fork meanwhile */
#define TRY_US     2000
#define MEMORY_BIT (1u << CGROUP_MEMORY)
#define PIDS_BIT   (1u << CGROUP_PIDS)

static const char *const names[] = {
    [CGROUP_MEMORY] = "memory",
    [CGROUP_PIDS] = "pids",
    [CGROUP_CPU] = "cpu",
};

bool cgroup_has_word(const char *list, const char *word, const char *separators)
{
    size_t len = strlen(word);
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, separators);
        if (n == len && strncmp(p, word, len) == 0)
            return true;
        p += n;
        p += strspn(p, separators);
    }
    return false;
}

unsigned cgroup_controllers(int dir_fd, const char *file)
{
    char list[256];
    unsigned found = 0;
    if (!cgroup_read_file(dir_fd, file, list, sizeof(list)))
        return 0;
    for (size_t c = 0; c < ARRAY_LEN(names); c++)
        found |= (unsigned)cgroup_has_word(list, names[c], " \n") << c;
    return found;
}

static FILE *open_list(int dir_fd)
{
    int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? NULL : fdopen(fd, "r");
}

static bool has_processes(int dir_fd)
{
    int pid;
    FILE *list = open_list(dir_fd);
    bool has_one = list && fscanf(list, "%d", &pid) == 1;
    if (list)
        fclose(list);
    return has_one;
}

/* All but the root of all have a type. */
static bool is_root_of_all(int dir_fd)
{
    return faccessat(dir_fd, "cgroup.type", F_OK, 0) < 0;
}

/* Not where processes stand: memory would be refused, but pids and cpu make a domain of threads of
 * it, in which no group of ours could have a process. */
void cgroup_enable_controllers(int dir_fd)
{
    unsigned missing = cgroup_controllers(dir_fd, "cgroup.controllers") &
                       ~cgroup_controllers(dir_fd, "cgroup.subtree_control");
    if (!missing || (!is_root_of_all(dir_fd) && has_processes(dir_fd)))
        return;
    for (size_t c = 0; c < ARRAY_LEN(names); c++) {
        char word[32];
        if (!(missing & 1u << c))
            continue;
        snprintf(word, sizeof(word), "+%s", names[c]);
        cgroup_write_file(dir_fd, "cgroup.subtree_control", word);
    }
}

/* --- where we stand -------------------------------------------------------------------------- */

/* Below `root`, the part of the hierarchy that is mounted. */
static bool path_below(const char *path, const char *root, char *out, size_t size)
{
    size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);
    bool is_below = strncmp(path, root, len) == 0 && (path[len] == '/' || path[len] == '\0');
    if (!is_below || strncmp(path, "/..", 3) == 0)
        return false; /* of another namespace's part, which is not to be seen from here */
    const char *below = path + len + (path[len] == '/');
    snprintf(out, size, "%s", below);
    return strlen(below) < size;
}

bool cgroup_own_path(const char *controller, const char *root, char *out, size_t size)
{
    char text[8192];
    if (!cgroup_read_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)))
        return false;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        bool is_it = *controller ? cgroup_has_word(list + 1, controller, ",") : !list[1];
        if (is_it)
            return path_below(path, root, out, size);
    }
    return false;
}

/* --- making room in a group of version 2 ----------------------------------------------------- */

struct crowd {
    int dir_fd;
    pid_t client; /* who has started us and waits for us; 0: nobody does */
    bool is_top;  /* of all that we can see */
};

static bool is_ours(const struct crowd *crowd, pid_t pid)
{
    char path[64], name[32];
    if (pid == getpid() || (pid > 0 && pid == crowd->client))
        return true;
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    return cgroup_read_file(AT_FDCWD, path, name, sizeof(name)) && strncmp(name, "cove", 4) == 0;
}

/* systemd's mark of a unit whose groups it leaves to whoever runs in it. */
static bool is_delegated(int dir_fd)
{
    static const char *const marks[] = {"trusted.delegate", "user.delegate"};
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        char mark;
        if (fgetxattr(dir_fd, marks[i], &mark, sizeof(mark)) == 1 && mark == '1')
            return true;
    }
    return false;
}

static bool may_be_emptied(const struct crowd *crowd)
{
    bool all = true;
    int pid;
    /* A container's own, and all in it are the container's. */
    if ((crowd->is_top && !is_root_of_all(crowd->dir_fd)) || is_delegated(crowd->dir_fd))
        return true;
    FILE *list = open_list(crowd->dir_fd);
    while (list && all && fscanf(list, "%d", &pid) == 1)
        all = is_ours(crowd, pid);
    if (list)
        fclose(list);
    return list && all;
}

/* Answers how many there were. One of another pid namespace has the number 0, and stays. */
static unsigned move_all(const struct crowd *crowd)
{
    unsigned count = 0;
    int pid;
    FILE *list = open_list(crowd->dir_fd);
    for (; list && fscanf(list, "%d", &pid) == 1; count++) {
        char text[32];
        snprintf(text, sizeof(text), "%d", pid);
        if (pid > 0)
            cgroup_write_file(crowd->dir_fd, LEAF "/cgroup.procs", text);
    }
    if (list)
        fclose(list);
    return count;
}

static void empty(const struct crowd *crowd)
{
    if (mkdirat(crowd->dir_fd, LEAF, 0755) < 0 && errno != EEXIST)
        return;
    for (int tries = 0; tries < TRIES_MAX && move_all(crowd) > 0; tries++)
        usleep(tries > 1 ? TRY_US : 0);
}

static bool hands_down(int dir_fd, unsigned wanted)
{
    cgroup_enable_controllers(dir_fd);
    return (wanted & ~cgroup_controllers(dir_fd, "cgroup.subtree_control")) == 0;
}

static bool make_room(const struct crowd *crowd, unsigned wanted)
{
    if (hands_down(crowd->dir_fd, wanted))
        return true;
    if ((wanted & ~cgroup_controllers(crowd->dir_fd, "cgroup.controllers")) != 0 ||
        is_root_of_all(crowd->dir_fd) || !may_be_emptied(crowd))
        return false;
    empty(crowd);
    return hands_down(crowd->dir_fd, wanted);
}

/* --- choosing one ---------------------------------------------------------------------------- */

static int open_dir(int mount_fd, const char *path)
{
    return openat(mount_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Only root's: an ordinary user has the group that was delegated, or none. */
static void enable_above(int mount_fd, const char *own)
{
    char path[CGROUP_PATH_BYTES];
    snprintf(path, sizeof(path), "%s", own);
    for (char *at = path; *at;) {
        char *slash = strchr(at, '/');
        char kept = *at;
        *at = '\0';
        scoped_fd int fd = open_dir(mount_fd, path);
        cgroup_enable_controllers(fd);
        *at = kept;
        at = slash ? slash + 1 : at + strlen(at);
    }
}

/* "a/b" -> "a" -> "" */
static void cut_last(char *path)
{
    char *slash = strrchr(path, '/');
    *(slash ? slash : path) = '\0';
}

static int climb(const struct cgroup_wish *wish, int mount_fd, char *path, unsigned wanted)
{
    enable_above(mount_fd, path);
    for (;; cut_last(path)) {
        scoped_fd int dir = open_dir(mount_fd, path);
        const struct crowd crowd = {.dir_fd = dir, .client = wish->client, .is_top = !*path};
        if (dir >= 0 && make_room(&crowd, wanted))
            return take_fd(&dir);
        if (!*path)
            return -1;
    }
}

static int open_delegated(const struct cgroup_wish *wish, int mount_fd, const char *own)
{
    const unsigned wanted = MEMORY_BIT | PIDS_BIT;
    scoped_fd int dir = open_dir(mount_fd, own);
    const struct crowd crowd = {.dir_fd = dir, .client = wish->client};
    if (dir < 0 || faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) < 0 ||
        (wanted & ~cgroup_controllers(dir, "cgroup.controllers")) != 0)
        return -1;
    (void)make_room(&crowd, wanted); /* if not, the parent made there has no controllers */
    return take_fd(&dir);
}

/* Where the namespace's part is mounted nowhere, it can be. */
static int mount_own_part(void)
{
    scoped_fd int fs = sys_fsopen("cgroup2", FSOPEN_CLOEXEC);
    if (fs < 0 || sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return -1;
    return sys_fsmount(fs, FSMOUNT_CLOEXEC, 0);
}

int cgroup_place_v2(const struct cgroup_wish *wish, const char *mount, const char *root,
                    struct cgroup_place *out)
{
    struct cgroup_place place = {.kind = SPAWN_PLACE_OWN};
    char own[CGROUP_PATH_BYTES] = "";
    bool is_known = cgroup_own_path("", root, own, sizeof(own));
    scoped_fd int base = -1;
    if (!is_known && !wish->is_rootless && cgroup_own_path("", "/", own, sizeof(own)))
        base = mount_own_part();
    if (base < 0) {
        base = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        own[0] = is_known ? own[0] : '\0';
    }
    if (base < 0)
        return -1;
    char *leaf = strrchr(own, '/'); /* of our own making: above it is the place */
    if (strcmp(leaf ? leaf + 1 : own, LEAF) == 0)
        *(leaf ? leaf : own) = '\0';

    scoped_fd int dir = -1;
    snprintf(place.path, sizeof(place.path), "%s", wish->parent ? "" : own);
    if (wish->is_rootless) {
        snprintf(place.path, sizeof(place.path), "%s", own);
        dir = open_delegated(wish, base, own);
    } else {
        unsigned wanted = cgroup_controllers(base, "cgroup.controllers") & (MEMORY_BIT | PIDS_BIT);
        dir = climb(wish, base, place.path, wanted);
        if (dir < 0) { /* nobody hands controllers down; groups can be killed and frozen */
            snprintf(place.path, sizeof(place.path), "%s", wish->parent ? "" : own);
            dir = open_dir(base, place.path);
        }
    }
    if (dir < 0)
        return -1;
    if (wish->parent)
        place.kind = SPAWN_PLACE_NAMED;
    else if (strcmp(place.path, own) != 0)
        place.kind = SPAWN_PLACE_ABOVE;
    *out = place;
    return take_fd(&dir);
}

int cgroup_place_v1(const struct cgroup_wish *wish, const char *mount, const char *root,
                    const char *controller, struct cgroup_place *out)
{
    struct cgroup_place place = {.kind = wish->parent ? SPAWN_PLACE_NAMED : SPAWN_PLACE_OWN};
    scoped_fd int base = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_known = cgroup_own_path(controller, root, place.path, sizeof(place.path));
    if (wish->parent || !is_known)
        place.path[0] = '\0';
    if (!wish->parent && !is_known)
        place.kind = SPAWN_PLACE_ABOVE;
    scoped_fd int dir = base < 0 ? -1 : open_dir(base, place.path);
    if (dir < 0)
        return -1;
    *out = place;
    return take_fd(&dir);
}
