/* cgroup.c - one group: its limits, written as version 1 or version 2 says, its processes, its end
 *
 * Groups are named by slot number, so that whoever gets a slot next finds and removes what a crash
 * left of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/scoped.h"
#include "box/cgroup_inside.h"

#define CPU_PERIOD_US 100000

static void slot_name(unsigned slot, char out[CGROUP_NAME_BYTES])
{
    snprintf(out, CGROUP_NAME_BYTES, "%u", slot);
}

const char *cgroup_file_name(const struct cgroup *cg, const char *file, char out[CGROUP_NAME_BYTES])
{
    snprintf(out, CGROUP_NAME_BYTES, "%u/%s", cg->slot, file);
    return out;
}

bool cgroup_write_of(const struct cgroup *cg, const struct cgroup_tree *tree,
                     enum cgroup_controller controller, const char *file, const char *text)
{
    char name[CGROUP_NAME_BYTES];
    return cgroup_write_file(tree->parent_fd[tree->where[controller]],
                             cgroup_file_name(cg, file, name), text);
}

bool cgroup_read_of(const struct cgroup *cg, const struct cgroup_tree *tree,
                    enum cgroup_controller controller, const char *file, char *text, size_t size)
{
    char name[CGROUP_NAME_BYTES];
    return cgroup_read_file(tree->parent_fd[tree->where[controller]],
                            cgroup_file_name(cg, file, name), text, size);
}

static uint64_t number_of(const struct cgroup *cg, const struct cgroup_tree *tree,
                          enum cgroup_controller controller, const char *file, const char *key)
{
    char name[CGROUP_NAME_BYTES];
    return meter_read_number(tree->parent_fd[tree->where[controller]],
                             cgroup_file_name(cg, file, name), key);
}

/* The limits: what is written where. A row whose file is missing is skipped only when it is
 * OPTIONAL, and a SHARE where nobody may use more than his limit. */
enum { OPTIONAL = 1 << 0, SHARE = 1 << 1 };

struct limit_row {
    enum cgroup_controller controller;
    const char *v1_file; /* NULL: not in this version */
    const char *v2_file;
    unsigned flags;
    void (*format)(const struct spawn_limits *limits, char *out, size_t size);
};

static void format_memory(const struct spawn_limits *limits, char *out, size_t size)
{
    snprintf(out, size, "%" PRIu64, limits->memory_bytes);
}

/* TCP and UDP buffers, which version 1 counts apart from all other memory, and only where this
 * limit is set. So a sandbox may have so much on top of its memory. An eighth of it is enough: a
 * socket that finds no room goes on with a page or two, and 32 MiB are a hundred busy connections.
 */
static void format_sockets(const struct spawn_limits *limits, char *out, size_t size)
{
    snprintf(out, size, "%" PRIu64, MIN(limits->memory_bytes / 8, CGROUP_SOCKET_BYTES_MAX));
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

uint64_t cgroup_cpu_quota_us(uint64_t milli)
{
    return MAX(milli * CPU_PERIOD_US / 1000, 1000);
}

static void format_cpu_v1(const struct spawn_limits *limits, char *out, size_t size)
{
    snprintf(out, size, "%" PRIu64, cgroup_cpu_quota_us(limits->cpu_milli));
}

static void format_cpu_v2(const struct spawn_limits *limits, char *out, size_t size)
{
    snprintf(out, size, "%" PRIu64 " %d", cgroup_cpu_quota_us(limits->cpu_milli), CPU_PERIOD_US);
}

/* A hundred for a core, in both versions: what else they allow is not the same. */
static void format_share(const struct spawn_limits *limits, char *out, size_t size)
{
    snprintf(out, size, "%" PRIu32, MIN(MAX(limits->cpu_milli / 10, 2), 10000));
}

static const struct limit_row limit_rows[] = {
    {CGROUP_MEMORY, "memory.limit_in_bytes", "memory.max", 0, format_memory},
    /* With swap a memory limit is none. Both files are missing where the kernel has no swap. */
    {CGROUP_MEMORY, "memory.memsw.limit_in_bytes", NULL, OPTIONAL, format_memory},
    {CGROUP_MEMORY, CGROUP_SOCKET_LIMIT, NULL, OPTIONAL, format_sockets},
    {CGROUP_MEMORY, "memory.swappiness", "memory.swap.max", OPTIONAL, format_zero},
    {CGROUP_PIDS, "pids.max", "pids.max", 0, format_pids},
    {CGROUP_CPU, "cpu.cfs_quota_us", NULL, 0, format_cpu_v1},
    {CGROUP_CPU, NULL, "cpu.max", 0, format_cpu_v2},
    {CGROUP_CPU, "cpu.shares", "cpu.weight", SHARE, format_share},
};

static int set_limits(const struct cgroup *cg, const struct cgroup_tree *tree,
                      const struct spawn_limits *limits, struct error *err)
{
    struct spawn_limits most = *limits;
    most.cpu_milli = MAX(most.cpu_milli, (uint32_t)tree->burst_milli);
    for (size_t i = 0; i < ARRAY_LEN(limit_rows); i++) {
        const struct limit_row *row = &limit_rows[i];
        const char *file = cgroup_is_v2(tree, row->controller) ? row->v2_file : row->v1_file;
        char value[64];
        bool is_share = row->flags & SHARE;
        if (!cgroup_tree_has(tree, row->controller) || !file || (is_share && !tree->burst_milli))
            continue;
        row->format(is_share ? limits : &most, value, sizeof(value));
        if (!cgroup_write_of(cg, tree, row->controller, file, value) &&
            !(row->flags & OPTIONAL && (errno == ENOENT || errno == EOPNOTSUPP)))
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
        cgroup_enable_controllers(fd);
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
                  : give(nested->parent_fd[at], cgroup_file_name(cg, "cgroup.procs", name), owner,
                         err);
}

int cgroup_open_entry(struct cgroup_entry *out, struct cgroup *cg, const struct cgroup_tree *tree,
                      struct error *err)
{
    struct cgroup_entry entry = {.into_fd = -1};
    char name[CGROUP_NAME_BYTES], tasks[CGROUP_NAME_BYTES];
    if (cg->has_entry) {
        *out = cg->entry;
        cg->has_entry = false;
        return 0;
    }
    slot_name(cg->slot, name);
    cgroup_file_name(cg, "tasks", tasks);
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
static bool each_in_file(const struct cgroup *cg, const struct cgroup_tree *tree, const char *file,
                         void (*found)(void *ctx, pid_t pid), void *ctx)
{
    char name[CGROUP_NAME_BYTES];
    bool is_gone = true;
    cgroup_file_name(cg, file, name);
    for (size_t i = 0; i < tree->count; i++) {
        if (each_listed(tree->parent_fd[i], name, found, ctx))
            return true;
        is_gone &= errno == ENOENT || errno == ENODEV;
    }
    return is_gone;
}

bool cgroup_each_process(const struct cgroup *cg, const struct cgroup_tree *tree,
                         void (*found)(void *ctx, pid_t pid), void *ctx)
{
    return each_in_file(cg, tree, "cgroup.procs", found, ctx);
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

size_t cgroup_list_threads(const struct cgroup *cg, const struct cgroup_tree *tree, pid_t *out,
                           size_t max)
{
    struct pid_list list = {.pids = out, .max = max};
    const char *file = cgroup_tree_has(tree, CGROUP_UNIFIED) ? "cgroup.threads" : "tasks";
    return each_in_file(cg, tree, file, add_pid, &list) ? list.count : SIZE_MAX;
}

bool cgroup_is_frozen(const struct cgroup *cg, const struct cgroup_tree *tree)
{
    char text[64];
    if (cgroup_tree_has(tree, CGROUP_UNIFIED))
        return number_of(cg, tree, CGROUP_UNIFIED, "cgroup.events", "frozen") == 1;
    if (!cgroup_tree_has(tree, CGROUP_FREEZER))
        return false;
    return cgroup_read_of(cg, tree, CGROUP_FREEZER, "freezer.state", text, sizeof(text)) &&
           strncmp(text, "FROZEN", 6) == 0;
}

int cgroup_freeze(const struct cgroup *cg, const struct cgroup_tree *tree, bool is_frozen,
                  struct error *err)
{
    bool is_done = false;
    errno = EOPNOTSUPP;
    if (cgroup_tree_has(tree, CGROUP_UNIFIED))
        is_done = cgroup_write_of(cg, tree, CGROUP_UNIFIED, "cgroup.freeze", is_frozen ? "1" : "0");
    else if (cgroup_tree_has(tree, CGROUP_FREEZER))
        is_done = cgroup_write_of(cg, tree, CGROUP_FREEZER, "freezer.state",
                                  is_frozen ? "FROZEN" : "THAWED");
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
        cgroup_write_of(cg, tree, CGROUP_UNIFIED, "cgroup.kill", "1"))
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

void cgroup_remove_empty(const struct cgroup_tree *tree, unsigned slot)
{
    const struct cgroup old = {.slot = slot};
    remove_nested(&old, tree);
    cgroup_remove(&old, tree);
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
