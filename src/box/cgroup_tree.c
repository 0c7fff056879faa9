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

static const char *const v2_names[CGROUP_CONTROLLER_COUNT] = {
    [CGROUP_MEMORY] = "memory",
    [CGROUP_PIDS] = "pids",
    [CGROUP_CPU] = "cpu",
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

static bool has_word(const char *list, const char *word, const char *separators)
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

/* --- finding the hierarchies ----------------------------------------------------------------- */

/* Makes `name` below `mount_fd` and keeps its directory as one hierarchy of the tree. */
static int add_hierarchy(struct cgroup_tree *tree, int mount_fd, const char *name)
{
    if (tree->count == CGROUP_HIERARCHIES_MAX)
        return -1;
    if (mkdirat(mount_fd, name, 0755) < 0 && errno != EEXIST)
        return -1;
    int fd = openat(mount_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    tree->parent_fd[tree->count] = fd;
    return (int)tree->count++;
}

/* What the version 2 tree does as well; else every sandbox would pay for two more groups. */
static bool is_spare(int controller)
{
    return controller == CGROUP_CPUACCT || controller == CGROUP_FREEZER;
}

static void add_v1(struct cgroup_tree *tree, const char *mount, const char *options,
                   const char *parent_name, bool wants_spares)
{
    int index = -1;
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++) {
        if (!v1_names[c] || tree->where[c] >= 0 || !has_word(options, v1_names[c], ","))
            continue;
        if (is_spare(c) != wants_spares && index < 0)
            continue;
        if (index < 0) {
            scoped_fd int fd = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            index = fd < 0 ? -1 : add_hierarchy(tree, fd, parent_name);
        }
        if (index < 0)
            return;
        tree->where[c] = index;
        tree->version |= 1;
    }
}

/* Version 2 hands controllers down only from groups that hold no process themselves (but for the
 * root). Where we are alone in ours, as in a delegated scope, we step aside into a leaf. */
void cgroup_enable_controllers(int dir_fd)
{
    char here[256];
    if (!cgroup_read_file(dir_fd, "cgroup.controllers", here, sizeof(here)))
        return;
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++) {
        char word[32];
        if (!v2_names[c] || !has_word(here, v2_names[c], " \n"))
            continue;
        snprintf(word, sizeof(word), "+%s", v2_names[c]);
        cgroup_write_file(dir_fd, "cgroup.subtree_control", word);
    }
}

static void step_aside(int dir_fd)
{
    char pid[32];
    if (mkdirat(dir_fd, "cove-self", 0755) < 0 && errno != EEXIST)
        return;
    snprintf(pid, sizeof(pid), "%d", getppid());
    cgroup_write_file(dir_fd, "cove-self/cgroup.procs", pid);
    cgroup_write_file(dir_fd, "cove-self/cgroup.procs", "0");
}

/* Our own place in the version 2 tree, relative to its mount; false when that is the root. */
static bool own_v2_path(char *out, size_t size)
{
    char text[4096];
    out[0] = '\0';
    if (!cgroup_read_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)))
        return false;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(out, size, "%s", line + 4);
    }
    /* A leaf of our own making: its parent is the place that was delegated. */
    char *leaf = strrchr(out, '/');
    if (leaf && strcmp(leaf, "/cove-self") == 0)
        *leaf = '\0';
    return out[0];
}

static bool has_controllers(int dir_fd)
{
    char list[256];
    return cgroup_read_file(dir_fd, "cgroup.controllers", list, sizeof(list)) &&
           has_word(list, "memory", " \n") && has_word(list, "pids", " \n");
}

static void add_v2(struct cgroup_tree *tree, const char *mount, const char *parent_name,
                   bool is_rootless)
{
    char own[1024], list[256];
    scoped_fd int base = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base < 0)
        return;
    int index = -1;
    if (!is_rootless) {
        cgroup_enable_controllers(base);
        index = add_hierarchy(tree, base, parent_name);
    }
    bool is_bare = index < 0 || !has_controllers(tree->parent_fd[index]);
    if (is_bare && has_controllers(base) && own_v2_path(own, sizeof(own))) {
        scoped_fd int dir = openat(base, own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir >= 0 && faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) == 0) {
            step_aside(dir);
            cgroup_enable_controllers(dir);
            if (index >= 0)
                close(tree->parent_fd[--tree->count]);
            index = add_hierarchy(tree, dir, parent_name);
        }
    }
    if (index < 0)
        return;

    tree->where[CGROUP_UNIFIED] = index;
    tree->version |= 2;
    cgroup_enable_controllers(tree->parent_fd[index]);
    if (!cgroup_read_file(tree->parent_fd[index], "cgroup.subtree_control", list, sizeof(list)))
        return;
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++) {
        if (v2_names[c] && tree->where[c] < 0 && has_word(list, v2_names[c], " \n"))
            tree->where[c] = index;
    }
}

/* One line of mountinfo: "... mount-point options - type source super-options". */
static void add_mount(struct cgroup_tree *tree, char *line, const char *parent_name,
                      bool is_rootless, bool wants_spares)
{
    char *tail = strstr(line, " - cgroup");
    if (!tail)
        return;
    *tail = '\0';
    tail += strlen(" - ");
    char *save = NULL, *mount = NULL;
    char *word = strtok_r(line, " ", &save);
    for (int field = 1; word && field <= 5; field++, word = strtok_r(NULL, " ", &save))
        mount = word;
    const char *type = strtok_r(tail, " \n", &save);
    strtok_r(NULL, " \n", &save); /* the source says nothing */
    const char *options = strtok_r(NULL, " \n", &save);
    if (!mount || !type || !options)
        return;
    if (strcmp(type, "cgroup2") != 0 && !is_rootless)
        add_v1(tree, mount, options, parent_name, wants_spares);
    else if (strcmp(type, "cgroup2") == 0 && !wants_spares)
        add_v2(tree, mount, parent_name, is_rootless);
}

static void add_mounts(struct cgroup_tree *tree, const char *parent_name, bool is_rootless,
                       bool wants_spares)
{
    struct error err;
    scoped_free char *text = NULL;
    if (fd_read_file("/proc/self/mountinfo", &text, MOUNTINFO_MAX_BYTES, &err) < 0)
        return;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save))
        add_mount(tree, line, parent_name, is_rootless, wants_spares);
}

void cgroup_tree_open(struct cgroup_tree *tree, const char *parent_name, bool is_rootless)
{
    *tree = (struct cgroup_tree){0};
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++)
        tree->where[c] = -1;
    add_mounts(tree, parent_name, is_rootless, false);
    if (tree->where[CGROUP_UNIFIED] < 0)
        add_mounts(tree, parent_name, is_rootless, true);
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
    *out = (struct cgroup_tree){.version = tree->version, .burst_milli = tree->burst_milli};
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
