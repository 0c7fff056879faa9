/* cgroup_files.c - the files of a group that every sandbox needs, opened for each use or once
 *
 * The one invariant: between two calls from outside, files are open only in a group that keeps
 * them. Each of these files is a single record, which the kernel hands out whole in one read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "box/cgroup_inside.h"

#define NUMBER_BYTES 64

static const struct {
    enum cgroup_controller controller;
    const char *name;
    int flags;
} files[CGROUP_FILE_COUNT] = {
    [CGROUP_FILE_PROCESSES] = {CGROUP_PIDS, "pids.current", O_RDONLY},
    [CGROUP_FILE_EVENTS] = {CGROUP_UNIFIED, "cgroup.events", O_RDONLY},
    [CGROUP_FILE_CHARGED] = {CGROUP_MEMORY, "memory.usage_in_bytes", O_RDONLY},
    [CGROUP_FILE_SOCKETS] = {CGROUP_MEMORY, "memory.kmem.tcp.usage_in_bytes", O_RDONLY},
    [CGROUP_FILE_PEAK] = {CGROUP_MEMORY, "memory.max_usage_in_bytes", O_WRONLY},
    [CGROUP_FILE_QUOTA] = {CGROUP_CPU, "cpu.cfs_quota_us", O_WRONLY},
};

/* --- opening and closing --------------------------------------------------------------------- */

static int open_file(const struct cgroup *cg, const struct cgroup_tree *tree,
                     enum cgroup_file which)
{
    char name[CGROUP_NAME_BYTES];
    if ((int)which < METER_COUNTERS) {
        const struct meter m = cgroup_tree_meter(tree);
        return meter_open_one(&m, (enum meter_counter)which, cg->slot, SPAWN_NO_NEST);
    }
    if (!cgroup_tree_has(tree, files[which].controller))
        return -1;
    return openat(tree->parent_fd[tree->where[files[which].controller]],
                  cgroup_file_name(cg, files[which].name, name), files[which].flags | O_CLOEXEC);
}

/* Borrowed until cgroup_settle(); -1: this host has no such file, or the group is gone. */
static int get_file(struct cgroup *cg, const struct cgroup_tree *tree, enum cgroup_file which)
{
    unsigned bit = 1u << which;
    if (cg->opened & bit)
        return cg->fds[which];
    int fd = open_file(cg, tree, which);
    if (fd >= 0) {
        cg->fds[which] = fd;
        cg->opened |= bit;
    }
    return fd;
}

static void close_files(struct cgroup *cg)
{
    for (int i = 0; cg->opened && i < CGROUP_FILE_COUNT; i++) {
        if (cg->opened & 1u << i)
            close(cg->fds[i]);
    }
    cg->opened = 0;
}

void cgroup_settle(struct cgroup *cg)
{
    if (!cg->keeps_files)
        close_files(cg);
}

void cgroup_keep_files(struct cgroup *cg)
{
    cg->keeps_files = true;
}

void cgroup_drop_files(struct cgroup *cg)
{
    cg->keeps_files = false;
    close_files(cg);
    if (cg->has_entry)
        cgroup_entry_release(&cg->entry);
    cg->has_entry = false;
}

void cgroup_give_entry(struct cgroup *cg, struct cgroup_entry *entry)
{
    bool is_open = entry->into_fd >= 0 || entry->task_count > 0;
    if (cg->keeps_files && is_open && !cg->has_entry) {
        cg->entry = *entry;
        cg->has_entry = true;
        *entry = (struct cgroup_entry){.into_fd = -1};
    }
    cgroup_entry_release(entry);
}

/* --- reading and writing --------------------------------------------------------------------- */

bool cgroup_read_open(struct cgroup *cg, const struct cgroup_tree *tree, enum cgroup_file which,
                      char *text, size_t size)
{
    int fd = get_file(cg, tree, which);
    ssize_t n = fd < 0 ? -1 : pread(fd, text, size - 1, 0);
    if (n < 0)
        return false;
    text[n] = '\0';
    return true;
}

bool cgroup_read_number(struct cgroup *cg, const struct cgroup_tree *tree, enum cgroup_file which,
                        uint64_t *out)
{
    char text[NUMBER_BYTES];
    if (!cgroup_read_open(cg, tree, which, text, sizeof(text)))
        return false;
    text[strcspn(text, "\n")] = '\0';
    return parse_u64(text, out);
}

bool cgroup_write_open(struct cgroup *cg, const struct cgroup_tree *tree, enum cgroup_file which,
                       const char *text)
{
    int fd = get_file(cg, tree, which);
    size_t len = strlen(text);
    return fd >= 0 && pwrite(fd, text, len, 0) == (ssize_t)len;
}

/* --- counters -------------------------------------------------------------------------------- */

static void set_meter(struct meter *m, const struct cgroup_tree *tree, enum spawn_meter which,
                      enum cgroup_controller controller)
{
    if (!cgroup_tree_has(tree, controller))
        return;
    m->dirs[which] = tree->parent_fd[tree->where[controller]];
    m->versions[which] = cgroup_is_v2(tree, controller) ? 2 : 1;
}

struct meter cgroup_tree_meter(const struct cgroup_tree *tree)
{
    struct meter m = {.dirs = {-1, -1, -1}};
    set_meter(&m, tree, SPAWN_METER_MEMORY, CGROUP_MEMORY);
    set_meter(&m, tree, SPAWN_METER_PIDS, CGROUP_PIDS);
    set_meter(&m, tree, SPAWN_METER_CPU, CGROUP_UNIFIED);
    set_meter(&m, tree, SPAWN_METER_CPU, CGROUP_CPUACCT); /* rather: it costs less to read */
    return m;
}

uint64_t cgroup_read_cpu_us(struct cgroup *cg, const struct cgroup_tree *tree)
{
    const struct meter m = cgroup_tree_meter(tree);
    uint64_t used = meter_read_cpu_us(&m, get_file(cg, tree, (enum cgroup_file)METER_CPU));
    cgroup_settle(cg);
    return used;
}

static bool count_processes(struct cgroup *cg, const struct cgroup_tree *tree, uint64_t *out)
{
    return cgroup_read_number(cg, tree, CGROUP_FILE_PROCESSES, out);
}

bool cgroup_count(struct cgroup *cg, const struct cgroup_tree *tree, uint64_t *out)
{
    bool is_counted = count_processes(cg, tree, out);
    cgroup_settle(cg);
    return is_counted;
}

bool cgroup_read_stats(struct cgroup *cg, const struct cgroup_tree *tree, struct spawn_stats *stats)
{
    const struct meter m = cgroup_tree_meter(tree);
    struct meter_files open;
    uint64_t count;
    for (int i = 0; i < METER_COUNTERS; i++)
        open.fds[i] = get_file(cg, tree, (enum cgroup_file)i);
    bool is_whole = meter_read_files(&m, &open, stats);
    bool is_counted = count_processes(cg, tree, &count);
    cgroup_settle(cg);
    if (is_counted)
        stats->pids_now = (uint32_t)count;
    return is_whole && is_counted;
}
