/* cgroup_tree.c - the hierarchies that this host offers, and the directories in which groups are
 * made
 *
 * Everything goes through directory fds below the hierarchies' own mounts; no path here comes from
 * a client. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "box/cgroup_inside.h"

#define MOUNTINFO_MAX_BYTES (16 * MIB)

static const char *const v1_names[CGROUP_CONTROLLER_COUNT] = {
    [CGROUP_MEMORY] = "memory",   [CGROUP_PIDS] = "pids",       [CGROUP_CPU] = "cpu",
    [CGROUP_CPUACCT] = "cpuacct", [CGROUP_FREEZER] = "freezer",
};

bool cgroup_write_file(int dir_fd, const char *name, const char *text)
{
    scoped_fd int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);
    size_t len = strlen(text);
    return fd >= 0 && write(fd, text, len) == (ssize_t)len;
}

bool cgroup_read_file(int dir_fd, const char *name, char *text, size_t size)
{
    scoped_fd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, size - 1);
    if (n < 0)
        return false;
    text[n] = '\0';
    return true;
}

/* --- finding the hierarchies ----------------------------------------------------------------- */

/* Makes the parent in `dir_fd` and keeps its directory as one hierarchy of the tree. */
static int add_hierarchy(struct cgroup_tree *tree, const struct cgroup_wish *wish, int dir_fd)
{
    const char *name = wish->parent ? wish->parent : CGROUP_PARENT;
    if (dir_fd < 0 || tree->count == CGROUP_HIERARCHIES_MAX)
        return -1;
    if (mkdirat(dir_fd, name, 0755) < 0 && errno != EEXIST)
        return -1;
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    tree->parent_fd[tree->count] = fd;
    return (int)tree->count++;
}

/* The one that limits memory is the one that is told. */
static void tell_place(struct cgroup_tree *tree, const struct cgroup_wish *wish,
                       const struct cgroup_place *place, int index)
{
    if (tree->where[CGROUP_MEMORY] != index && tree->path[0])
        return;
    tree->place = place->kind;
    snprintf(tree->path, sizeof(tree->path), "%s%.*s/%s", place->path[0] ? "/" : "",
             CGROUP_PATH_BYTES / 2, place->path, wish->parent ? wish->parent : CGROUP_PARENT);
}

/* What the version 2 tree does as well; else every sandbox would pay for two more groups. */
static bool is_spare(int controller)
{
    return controller == CGROUP_CPUACCT || controller == CGROUP_FREEZER;
}

/* One mount of a hierarchy: where, which part of it, and the options of the hierarchy. */
struct mounted {
    const char *mount, *root, *options;
};

static void add_v1(struct cgroup_tree *tree, const struct mounted *m,
                   const struct cgroup_wish *wish, bool wants_spares)
{
    struct cgroup_place place = {0};
    int index = -1;
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++) {
        if (!v1_names[c] || tree->where[c] >= 0 || !cgroup_has_word(m->options, v1_names[c], ","))
            continue;
        if (is_spare(c) != wants_spares && index < 0)
            continue;
        if (index < 0) {
            scoped_fd int fd = cgroup_place_v1(wish, m->mount, m->root, v1_names[c], &place);
            index = add_hierarchy(tree, wish, fd);
        }
        if (index < 0)
            return;
        tree->where[c] = index;
        tree->version |= 1;
    }
    if (index >= 0)
        tell_place(tree, wish, &place, index);
}

/* One that is mounted twice is one. */
static void add_v2(struct cgroup_tree *tree, const struct mounted *m,
                   const struct cgroup_wish *wish)
{
    struct cgroup_place place;
    if (tree->where[CGROUP_UNIFIED] >= 0)
        return;
    scoped_fd int dir = cgroup_place_v2(wish, m->mount, m->root, &place);
    int index = add_hierarchy(tree, wish, dir);
    if (index < 0)
        return;
    tree->where[CGROUP_UNIFIED] = index;
    tree->version |= 2;
    cgroup_enable_controllers(tree->parent_fd[index]);
    unsigned handed = cgroup_controllers(tree->parent_fd[index], "cgroup.subtree_control");
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++) {
        if (handed & 1u << c && tree->where[c] < 0)
            tree->where[c] = index;
    }
    tell_place(tree, wish, &place, index);
}

/* One line of mountinfo: "... root mount-point options - type source super-options". */
static void add_mount(struct cgroup_tree *tree, char *line, const struct cgroup_wish *wish,
                      bool wants_spares)
{
    char *tail = strstr(line, " - cgroup");
    if (!tail)
        return;
    *tail = '\0';
    tail += strlen(" - ");
    char *save = NULL, *root = NULL, *mount = NULL;
    char *word = strtok_r(line, " ", &save);
    for (int field = 1; word && field <= 5; field++, word = strtok_r(NULL, " ", &save)) {
        root = mount;
        mount = word;
    }
    const char *type = strtok_r(tail, " \n", &save);
    strtok_r(NULL, " \n", &save); /* the source says nothing */
    const char *options = strtok_r(NULL, " \n", &save);
    if (!root || !type || !options)
        return;
    const struct mounted mounted = {.mount = mount, .root = root, .options = options};
    if (strcmp(type, "cgroup2") != 0 && !wish->is_rootless)
        add_v1(tree, &mounted, wish, wants_spares);
    else if (strcmp(type, "cgroup2") == 0 && !wants_spares)
        add_v2(tree, &mounted, wish);
}

static void add_mounts(struct cgroup_tree *tree, const struct cgroup_wish *wish, bool wants_spares)
{
    struct error err;
    scoped_free char *text = NULL;
    if (fd_read_file("/proc/self/mountinfo", &text, MOUNTINFO_MAX_BYTES, &err) < 0)
        return;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save))
        add_mount(tree, line, wish, wants_spares);
}

void cgroup_tree_open(struct cgroup_tree *tree, const struct cgroup_wish *wish)
{
    *tree = (struct cgroup_tree){0};
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++)
        tree->where[c] = -1;
    add_mounts(tree, wish, false);
    if (tree->where[CGROUP_UNIFIED] < 0)
        add_mounts(tree, wish, true);
}

void cgroup_tree_close(struct cgroup_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        close(tree->parent_fd[i]);
    tree->count = 0;
}

static bool has_limits(const struct cgroup_tree *tree, int index)
{
    return tree->where[CGROUP_MEMORY] == index || tree->where[CGROUP_PIDS] == index ||
           tree->where[CGROUP_CPU] == index;
}

void cgroup_tree_trim(struct cgroup_tree *out, const struct cgroup_tree *tree)
{
    *out = (struct cgroup_tree){
        .version = tree->version, .place = tree->place, .burst_milli = tree->burst_milli};
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++)
        out->where[c] = -1;
    for (size_t i = 0; i < tree->count; i++) {
        if (!has_limits(tree, (int)i))
            continue;
        for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++) {
            if (tree->where[c] == (int)i)
                out->where[c] = (int)out->count;
        }
        out->parent_fd[out->count++] = tree->parent_fd[i];
    }
}

static bool is_part(const struct cgroup_tree *tree, int parent_fd)
{
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->parent_fd[i] == parent_fd)
            return true;
    }
    return false;
}

bool cgroup_tree_holds_one(const struct cgroup_tree *tree, const struct cgroup_tree *used)
{
    for (size_t i = 0; i < tree->count; i++) {
        struct stat st;
        nlink_t links = is_part(used, tree->parent_fd[i]) ? 3 : 2; /* ".", its own name, groups */
        if (fstat(tree->parent_fd[i], &st) < 0 || st.st_nlink != links)
            return false;
    }
    return true;
}

int cgroup_tree_number(const struct cgroup_tree *tree, uint64_t *out, struct error *err)
{
    struct stat st = {0};
    if (tree->count > 0 && fstat(tree->parent_fd[0], &st) < 0)
        return error_sys(err, "look at the parent of cgroups");
    *out = st.st_ino;
    return 0;
}

bool cgroup_tree_has(const struct cgroup_tree *tree, enum cgroup_controller controller)
{
    return tree->where[controller] >= 0;
}

/* Only a file that is not there is missing: any other error is for who sets the limit to meet. */
bool cgroup_tree_counts_memory(const struct cgroup_tree *tree)
{
    int at = tree->where[CGROUP_MEMORY];
    return at >= 0 &&
           (cgroup_is_v2(tree, CGROUP_MEMORY) ||
            faccessat(tree->parent_fd[at], CGROUP_SOCKET_LIMIT, F_OK, 0) == 0 || errno != ENOENT);
}

bool cgroup_is_v2(const struct cgroup_tree *tree, enum cgroup_controller controller)
{
    return tree->where[controller] >= 0 && tree->where[controller] == tree->where[CGROUP_UNIFIED];
}

void cgroup_tree_each(const struct cgroup_tree *tree, void (*found)(void *ctx, unsigned slot),
                      void *ctx)
{
    for (size_t i = 0; i < tree->count; i++) {
        DIR *dir = fdopendir(openat(tree->parent_fd[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!dir)
            continue;
        for (struct dirent *e; (e = readdir(dir));) {
            uint64_t slot;
            if (parse_u64(e->d_name, &slot) && slot <= UINT32_MAX)
                found(ctx, (unsigned)slot);
        }
        closedir(dir);
    }
}
