/* cgroup.c - one set of limits, written as version 1 or version 2 says
 *
 * Everything goes through directory fds below the hierarchies' own mounts; no path here comes from
 * a client. Groups are named by slot number, so that whoever gets a slot next finds and removes
 * what a crash left of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/scoped.h"

#define CPU_PERIOD_US       100000
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

static bool write_file(int dir_fd, const char *name, const char *text)
{
    scoped_fd int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);
    size_t len = strlen(text);
    return fd >= 0 && write(fd, text, len) == (ssize_t)len;
}

static bool read_file(int dir_fd, const char *name, char *text, size_t size)
{
    scoped_fd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, size - 1);
    if (n < 0)
        return false;
    text[n] = '\0';
    return true;
}

/* Reads one number: of the line "key N" when `key` is given, else of the whole file. */
static uint64_t read_number(int dir_fd, const char *name, const char *key)
{
    char text[4096];
    if (!read_file(dir_fd, name, text, sizeof(text)))
        return 0;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        uint64_t value;
        size_t len = key ? strlen(key) : 0;
        if (key && (strncmp(line, key, len) != 0 || line[len] != ' '))
            continue;
        if (parse_u64(line + (key ? len + 1 : 0), &value))
            return value;
    }
    return 0;
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
static void enable_controllers(int dir_fd)
{
    char here[256];
    if (!read_file(dir_fd, "cgroup.controllers", here, sizeof(here)))
        return;
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++) {
        char word[32];
        if (!v2_names[c] || !has_word(here, v2_names[c], " \n"))
            continue;
        snprintf(word, sizeof(word), "+%s", v2_names[c]);
        write_file(dir_fd, "cgroup.subtree_control", word);
    }
}

static void step_aside(int dir_fd)
{
    char pid[32];
    if (mkdirat(dir_fd, "cove-self", 0755) < 0 && errno != EEXIST)
        return;
    snprintf(pid, sizeof(pid), "%d", getppid());
    write_file(dir_fd, "cove-self/cgroup.procs", pid);
    write_file(dir_fd, "cove-self/cgroup.procs", "0");
}

/* Our own place in the version 2 tree, relative to its mount; false when that is the root. */
static bool own_v2_path(char *out, size_t size)
{
    char text[4096];
    out[0] = '\0';
    if (!read_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)))
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
    return read_file(dir_fd, "cgroup.controllers", list, sizeof(list)) &&
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
        enable_controllers(base);
        index = add_hierarchy(tree, base, parent_name);
    }
    bool is_bare = index < 0 || !has_controllers(tree->parent_fd[index]);
    if (is_bare && has_controllers(base) && own_v2_path(own, sizeof(own))) {
        scoped_fd int dir = openat(base, own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir >= 0 && faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) == 0) {
            step_aside(dir);
            enable_controllers(dir);
            if (index >= 0)
                close(tree->parent_fd[--tree->count]);
            index = add_hierarchy(tree, dir, parent_name);
        }
    }
    if (index < 0)
        return;

    tree->where[CGROUP_UNIFIED] = index;
    tree->version |= 2;
    enable_controllers(tree->parent_fd[index]);
    if (!read_file(tree->parent_fd[index], "cgroup.subtree_control", list, sizeof(list)))
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
    *out = (struct cgroup_tree){.version = tree->version};
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

bool cgroup_tree_has(const struct cgroup_tree *tree, enum cgroup_controller controller)
{
    return tree->where[controller] >= 0;
}

static bool is_v2(const struct cgroup_tree *tree, enum cgroup_controller controller)
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

/* --- one group ------------------------------------------------------------------------------- */

static void slot_name(unsigned slot, char out[CGROUP_NAME_BYTES])
{
    snprintf(out, CGROUP_NAME_BYTES, "%u", slot);
}

/* A file of the group, relative to the tree's directory. */
static const char *file_name(const struct cgroup *cg, const char *file, char out[CGROUP_NAME_BYTES])
{
    snprintf(out, CGROUP_NAME_BYTES, "%u/%s", cg->slot, file);
    return out;
}

static bool write_of(const struct cgroup *cg, const struct cgroup_tree *tree,
                     enum cgroup_controller controller, const char *file, const char *text)
{
    char name[CGROUP_NAME_BYTES];
    return write_file(tree->parent_fd[tree->where[controller]], file_name(cg, file, name), text);
}

static uint64_t number_of(const struct cgroup *cg, const struct cgroup_tree *tree,
                          enum cgroup_controller controller, const char *file, const char *key)
{
    char name[CGROUP_NAME_BYTES];
    return read_number(tree->parent_fd[tree->where[controller]], file_name(cg, file, name), key);
}

/* The limits: what is written where. A row whose file is missing is skipped only when `optional`.
 */
struct limit_row {
    enum cgroup_controller controller;
    const char *v1_file; /* NULL: not in this version */
    const char *v2_file;
    bool optional;
    void (*format)(const struct spawn_limits *limits, char *out, size_t size);
};

static void format_memory(const struct spawn_limits *limits, char *out, size_t size)
{
    snprintf(out, size, "%" PRIu64, limits->memory_bytes);
}

static void format_zero(const struct spawn_limits *limits, char *out, size_t size)
{
    (void)limits;
    snprintf(out, size, "0");
}

static void format_pids(const struct spawn_limits *limits, char *out, size_t size)
{
    snprintf(out, size, "%" PRIu32, limits->pids);
}

static uint64_t cpu_quota_us(const struct spawn_limits *limits)
{
    return MAX((uint64_t)limits->cpu_milli * CPU_PERIOD_US / 1000, 1000);
}

static void format_cpu_v1(const struct spawn_limits *limits, char *out, size_t size)
{
    snprintf(out, size, "%" PRIu64, cpu_quota_us(limits));
}

static void format_cpu_v2(const struct spawn_limits *limits, char *out, size_t size)
{
    snprintf(out, size, "%" PRIu64 " %d", cpu_quota_us(limits), CPU_PERIOD_US);
}

static const struct limit_row limit_rows[] = {
    {CGROUP_MEMORY, "memory.limit_in_bytes", "memory.max", false, format_memory},
    /* With swap a memory limit is none. Both files are missing where the kernel has no swap. */
    {CGROUP_MEMORY, "memory.memsw.limit_in_bytes", NULL, true, format_memory},
    {CGROUP_MEMORY, "memory.swappiness", "memory.swap.max", true, format_zero},
    {CGROUP_PIDS, "pids.max", "pids.max", false, format_pids},
    {CGROUP_CPU, "cpu.cfs_quota_us", NULL, false, format_cpu_v1},
    {CGROUP_CPU, NULL, "cpu.max", false, format_cpu_v2},
};

static int set_limits(const struct cgroup *cg, const struct cgroup_tree *tree,
                      const struct spawn_limits *limits, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(limit_rows); i++) {
        const struct limit_row *row = &limit_rows[i];
        const char *file = is_v2(tree, row->controller) ? row->v2_file : row->v1_file;
        char value[64];
        if (!cgroup_tree_has(tree, row->controller) || !file)
            continue;
        row->format(limits, value, sizeof(value));
        if (!write_of(cg, tree, row->controller, file, value) &&
            !(row->optional && (errno == ENOENT || errno == EOPNOTSUPP)))
            return error_sys(err, "set %s to %s", file, value);
    }
    return 0;
}

static bool kill_leftover(const struct cgroup_tree *tree, unsigned slot);

/* False with EEXIST when something of that name is there; what was made then is gone again. */
static bool make_groups(const struct cgroup *cg, const struct cgroup_tree *tree)
{
    char name[CGROUP_NAME_BYTES];
    slot_name(cg->slot, name);
    for (size_t i = 0; i < tree->count; i++) {
        if (mkdirat(tree->parent_fd[i], name, 0755) == 0)
            continue;
        int error = errno;
        for (size_t made = 0; made < i; made++)
            unlinkat(tree->parent_fd[made], name, AT_REMOVEDIR);
        errno = error;
        return false;
    }
    return true;
}

int cgroup_create(struct cgroup *cg, const struct cgroup_tree *tree, unsigned slot,
                  const struct spawn_limits *limits, struct error *err)
{
    *cg = (struct cgroup){.slot = slot};
    if (!make_groups(cg, tree) &&
        !(errno == EEXIST && kill_leftover(tree, slot) && make_groups(cg, tree)))
        return error_sys(err, "make cgroup %u", slot);
    if (set_limits(cg, tree, limits, err) < 0) {
        cgroup_remove(cg, tree);
        return -1;
    }
    return 0;
}

static int give(int dir_fd, const char *procs, uid_t owner, struct error *err)
{
    if (fchownat(dir_fd, procs, owner, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
        return error_sys(err, "give a cgroup to a zygote");
    return 0;
}

int cgroup_tree_nest(struct cgroup_tree *out, const struct cgroup_tree *tree, unsigned slot,
                     uid_t owner, struct error *err)
{
    struct cgroup_tree nested = *tree;
    int at = tree->where[CGROUP_UNIFIED];
    if (at >= 0) {
        char name[CGROUP_NAME_BYTES];
        slot_name(slot, name);
        int made = mkdirat(tree->parent_fd[at], name, 0755);
        if (made < 0 && errno == EEXIST && kill_leftover(tree, slot))
            made = mkdirat(tree->parent_fd[at], name, 0755);
        scoped_fd int fd =
            made < 0 ? -1 : openat(tree->parent_fd[at], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return error_sys(err, "make cgroup %u", slot);
        enable_controllers(fd);
        if (give(fd, "cgroup.procs", owner, err) < 0) {
            unlinkat(tree->parent_fd[at], name, AT_REMOVEDIR);
            return -1;
        }
        nested.parent_fd[at] = take_fd(&fd);
    }
    *out = nested;
    return 0;
}

void cgroup_tree_unnest(struct cgroup_tree *nested, const struct cgroup_tree *tree, unsigned slot)
{
    int at = tree->where[CGROUP_UNIFIED];
    if (at < 0)
        return;
    char name[CGROUP_NAME_BYTES];
    slot_name(slot, name);
    close(nested->parent_fd[at]);
    unlinkat(tree->parent_fd[at], name, AT_REMOVEDIR);
}

int cgroup_give(const struct cgroup *cg, const struct cgroup_tree *nested, uid_t owner,
                struct error *err)
{
    char name[CGROUP_NAME_BYTES];
    int at = nested->where[CGROUP_UNIFIED];
    return at < 0 ? 0
                  : give(nested->parent_fd[at], file_name(cg, "cgroup.procs", name), owner, err);
}

int cgroup_open_entry(struct cgroup_entry *out, const struct cgroup *cg,
                      const struct cgroup_tree *tree, struct error *err)
{
    struct cgroup_entry entry = {.into_fd = -1};
    char name[CGROUP_NAME_BYTES], tasks[CGROUP_NAME_BYTES];
    slot_name(cg->slot, name);
    file_name(cg, "tasks", tasks);
    for (size_t i = 0; i < tree->count; i++) {
        bool is_v2_tree = (int)i == tree->where[CGROUP_UNIFIED];
        int fd = openat(tree->parent_fd[i], is_v2_tree ? name : tasks,
                        (is_v2_tree ? O_RDONLY | O_DIRECTORY : O_WRONLY) | O_CLOEXEC);
        if (fd < 0) {
            error_sys(err, "open the tasks of a cgroup");
            cgroup_entry_release(&entry);
            return -1;
        }
        if (is_v2_tree)
            entry.into_fd = fd;
        else
            entry.tasks_fds[entry.task_count++] = fd;
    }
    *out = entry;
    return 0;
}

void cgroup_entry_release(struct cgroup_entry *entry)
{
    scoped_close_fd(&entry->into_fd);
    entry->into_fd = -1;
    while (entry->task_count > 0)
        close(entry->tasks_fds[--entry->task_count]);
}

int cgroup_enter(const struct cgroup_entry *entry)
{
    for (size_t i = 0; i < entry->task_count; i++) {
        if (write(entry->tasks_fds[i], "0", 1) != 1)
            return -1;
    }
    return 0;
}

uint64_t cgroup_read_cpu_us(const struct cgroup *cg, const struct cgroup_tree *tree)
{
    if (cgroup_tree_has(tree, CGROUP_CPUACCT))
        return number_of(cg, tree, CGROUP_CPUACCT, "cpuacct.usage", NULL) / 1000;
    if (cgroup_tree_has(tree, CGROUP_UNIFIED)) /* cpu.stat is there without the controller */
        return number_of(cg, tree, CGROUP_UNIFIED, "cpu.stat", "usage_usec");
    return 0;
}

void cgroup_read_stats(const struct cgroup *cg, const struct cgroup_tree *tree,
                       struct spawn_stats *stats)
{
    if (cgroup_tree_has(tree, CGROUP_MEMORY)) {
        bool v2 = is_v2(tree, CGROUP_MEMORY);
        stats->memory_peak_bytes = number_of(
            cg, tree, CGROUP_MEMORY, v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL);
        stats->oom_kills = (uint32_t)number_of(
            cg, tree, CGROUP_MEMORY, v2 ? "memory.events" : "memory.oom_control", "oom_kill");
    }
    if (cgroup_tree_has(tree, CGROUP_PIDS)) {
        stats->pids_refused = (uint32_t)number_of(cg, tree, CGROUP_PIDS, "pids.events", "max");
        stats->pids_now = (uint32_t)number_of(cg, tree, CGROUP_PIDS, "pids.current", NULL);
    }
    stats->cpu_us = cgroup_read_cpu_us(cg, tree);
}

/* Read to the end in pieces: a number that a buffer's end cut short would be another process. */
static bool each_listed(int dir_fd, const char *procs, void (*found)(void *ctx, pid_t pid),
                        void *ctx)
{
    scoped_fd int fd = openat(dir_fd, procs, O_RDONLY | O_CLOEXEC);
    char text[4096];
    uint64_t pid = 0;
    ssize_t n = -1;
    while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] != '\n') {
                pid = pid * 10 + (uint64_t)(text[i] - '0');
                continue;
            }
            if (pid > 1 && pid <= INT32_MAX)
                found(ctx, (pid_t)pid);
            pid = 0;
        }
    }
    return fd >= 0 && n == 0;
}

/* Who is in any hierarchy is in the first: they are entered in this order. */
bool cgroup_each_process(const struct cgroup *cg, const struct cgroup_tree *tree,
                         void (*found)(void *ctx, pid_t pid), void *ctx)
{
    char procs[CGROUP_NAME_BYTES];
    bool is_gone = true;
    file_name(cg, "cgroup.procs", procs);
    for (size_t i = 0; i < tree->count; i++) {
        if (each_listed(tree->parent_fd[i], procs, found, ctx))
            return true;
        is_gone &= errno == ENOENT || errno == ENODEV;
    }
    return is_gone;
}

static void kill_one(void *ctx, pid_t pid)
{
    (void)ctx;
    kill(pid, SIGKILL);
}

struct pid_list {
    pid_t *pids;
    size_t count, max;
};

static void add_pid(void *ctx, pid_t pid)
{
    struct pid_list *list = ctx;
    if (list->count < list->max)
        list->pids[list->count] = pid;
    list->count++;
}

size_t cgroup_list(const struct cgroup *cg, const struct cgroup_tree *tree, pid_t *out, size_t max)
{
    struct pid_list list = {.pids = out, .max = max};
    return cgroup_each_process(cg, tree, add_pid, &list) ? list.count : SIZE_MAX;
}

bool cgroup_is_frozen(const struct cgroup *cg, const struct cgroup_tree *tree)
{
    char name[CGROUP_NAME_BYTES], text[64];
    if (cgroup_tree_has(tree, CGROUP_UNIFIED))
        return number_of(cg, tree, CGROUP_UNIFIED, "cgroup.events", "frozen") == 1;
    if (!cgroup_tree_has(tree, CGROUP_FREEZER))
        return false;
    file_name(cg, "freezer.state", name);
    return read_file(tree->parent_fd[tree->where[CGROUP_FREEZER]], name, text, sizeof(text)) &&
           strncmp(text, "FROZEN", 6) == 0;
}

int cgroup_freeze(const struct cgroup *cg, const struct cgroup_tree *tree, bool is_frozen,
                  struct error *err)
{
    bool is_done = false;
    errno = EOPNOTSUPP;
    if (cgroup_tree_has(tree, CGROUP_UNIFIED))
        is_done = write_of(cg, tree, CGROUP_UNIFIED, "cgroup.freeze", is_frozen ? "1" : "0");
    else if (cgroup_tree_has(tree, CGROUP_FREEZER))
        is_done =
            write_of(cg, tree, CGROUP_FREEZER, "freezer.state", is_frozen ? "FROZEN" : "THAWED");
    if (is_done)
        return 0;
    error_sys(err, "%s the processes", is_frozen ? "freeze" : "thaw");
    if (err->sys_errno == EOPNOTSUPP || err->sys_errno == ENOENT)
        error_set(err, ERROR_UNAVAILABLE, "this host cannot freeze: it has no cgroup for that");
    return -1;
}

void cgroup_kill(const struct cgroup *cg, const struct cgroup_tree *tree)
{
    struct error ignored;
    if (cgroup_tree_has(tree, CGROUP_UNIFIED) &&
        write_of(cg, tree, CGROUP_UNIFIED, "cgroup.kill", "1"))
        return;
    /* Without cgroup.kill (before 5.14) the pid namespace does the work; this is its second hand.
     */
    (void)!cgroup_each_process(cg, tree, kill_one, NULL); /* who calls looks again */
    /* What version 1 has frozen dies only when it is let go. */
    if (cgroup_tree_has(tree, CGROUP_FREEZER))
        (void)!cgroup_freeze(cg, tree, false, &ignored);
}

bool cgroup_remove(const struct cgroup *cg, const struct cgroup_tree *tree)
{
    char name[CGROUP_NAME_BYTES];
    bool all = true;
    slot_name(cg->slot, name);
    for (size_t i = 0; i < tree->count; i++) {
        if (unlinkat(tree->parent_fd[i], name, AT_REMOVEDIR) < 0 && errno != ENOENT)
            all = false;
    }
    return all;
}

/* The groups that lie below one of a zygote's. */
static void remove_nested(const struct cgroup *cg, const struct cgroup_tree *tree)
{
    char name[CGROUP_NAME_BYTES];
    int at = tree->where[CGROUP_UNIFIED];
    slot_name(cg->slot, name);
    int fd = at < 0 ? -1 : openat(tree->parent_fd[at], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        uint64_t slot;
        if (parse_u64(e->d_name, &slot))
            unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    if (dir)
        closedir(dir);
}

/* What a crashed spawner left of this slot. Its lock is ours now, so nobody else needs it. */
static bool kill_leftover(const struct cgroup_tree *tree, unsigned slot)
{
    const struct cgroup old = {.slot = slot};
    for (int tries = 0; tries < 2000; tries++) {
        cgroup_kill(&old, tree); /* again: without cgroup.kill a fork can slip through */
        remove_nested(&old, tree);
        if (cgroup_remove(&old, tree))
            return true;
        usleep(1000); /* a killed process leaves its group when it is reaped, by someone else */
    }
    return false;
}
