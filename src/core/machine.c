/* machine.c - the few files of /proc and of the cgroup tree that tell
 *
 * A cgroup need not have the file of a controller, and the root has none: what cannot be read does
 * not limit. Without /proc/meminfo nothing is known, and that is an error. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"

#define FILE_MAX_BYTES 65536

static char *read_file(const char *root, const char *path)
{
    struct error ignored;
    scoped_free char *full = xasprintf("%s%s", root, path);
    char *text = NULL;
    return fd_read_file(full, &text, FILE_MAX_BYTES, &ignored) < 0 ? NULL : text;
}

/* The number behind a word at the beginning of a line. */
static bool find_number(const char *text, const char *word, uint64_t *out)
{
    size_t len = strlen(word);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, len) == 0 && sscanf(line + len, "%" SCNu64, out) == 1)
            return true;
    }
    return false;
}

/* A file that holds one number; "max" is none. */
static bool read_number(const char *root, const char *dir, const char *name, uint64_t *out)
{
    scoped_free char *path = xasprintf("%s/%s", dir, name);
    scoped_free char *text = read_file(root, path);
    if (text)
        text[strcspn(text, "\n")] = '\0';
    return text && parse_u64(text, out);
}

/* --- cgroups --------------------------------------------------------------------------------- */

/* The two versions differ in names. */
struct files {
    const char *mount;      /* where the hierarchy is */
    const char *controller; /* of its line in /proc/self/cgroup; "" is version 2 */
    const char *max, *now;
    const char *idle; /* in memory.stat: cached, and not used lately */
};

static const struct files memory_files[] = {
    {"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file"},
    {"/sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file"},
};

static const struct files pids_files[] = {
    {"/sys/fs/cgroup/pids", "pids", "pids.max", "pids.current", NULL},
    {"/sys/fs/cgroup", "", "pids.max", "pids.current", NULL},
};

/* Our group in the hierarchy of that controller: "/user.slice"; NULL: there is none. Owned. */
static char *find_group(const char *groups, const char *controller)
{
    scoped_free char *mark = xasprintf(":%s:", controller);
    const char *at = groups ? strstr(groups, mark) : NULL;
    if (!at)
        return NULL;
    at += strlen(mark);
    return xstrndup(at, strcspn(at, "\n"));
}

static void apply_memory(struct machine *m, const char *root, const char *dir,
                         const struct files *f)
{
    uint64_t max, now, idle = 0;
    if (!read_number(root, dir, f->max, &max) || !read_number(root, dir, f->now, &now))
        return;
    m->memory_bytes = MIN(m->memory_bytes, max);
    if (max - MIN(max, now) >= m->available_bytes)
        return; /* however much of it is idle */
    scoped_free char *path = xasprintf("%s/memory.stat", dir);
    scoped_free char *stat = read_file(root, path);
    find_number(stat, f->idle, &idle);
    uint64_t used = now - MIN(now, idle);
    m->available_bytes = MIN(m->available_bytes, max - MIN(max, used));
}

static void apply_pids(struct machine *m, const char *root, const char *dir, const struct files *f)
{
    uint64_t max, now;
    if (!read_number(root, dir, f->max, &max) || !read_number(root, dir, f->now, &now))
        return;
    if (max - MIN(max, now) >= m->pids_max - MIN(m->pids_max, m->pids_now))
        return;
    m->pids_max = max;
    m->pids_now = now;
}

typedef void (*apply_fn)(struct machine *m, const char *root, const char *dir,
                         const struct files *f);

/* From our group up to the top: each of them limits. */
static void walk_up(struct machine *m, const char *root, const char *groups, const struct files *f,
                    apply_fn apply)
{
    scoped_free char *group = find_group(groups, f->controller);
    while (group) {
        scoped_free char *dir = xasprintf("%s%s", f->mount, group);
        apply(m, root, dir, f);
        char *slash = strrchr(group, '/');
        if (!slash || !group[1])
            break;
        slash[slash == group] = '\0'; /* "/a/b" -> "/a" -> "/" */
    }
}

/* --- all of it ------------------------------------------------------------------------------- */

static int read_memory(struct machine *m, const char *root, struct error *err)
{
    uint64_t total_kb, available_kb;
    scoped_free char *text = read_file(root, "/proc/meminfo");
    if (!text || !find_number(text, "MemTotal:", &total_kb) ||
        !find_number(text, "MemAvailable:", &available_kb))
        return error_set(err, ERROR_UNAVAILABLE, "/proc/meminfo does not tell what memory is left");
    m->memory_bytes = total_kb * KIB;
    m->available_bytes = available_kb * KIB;
    return 0;
}

static void read_pids(struct machine *m, const char *root)
{
    uint64_t threads;
    m->pids_max = UINT32_MAX;
    read_number(root, "/proc/sys/kernel", "pid_max", &m->pids_max);
    if (read_number(root, "/proc/sys/kernel", "threads-max", &threads))
        m->pids_max = MIN(m->pids_max, threads);
    scoped_free char *load = read_file(root, "/proc/loadavg"); /* 0.1 0.2 0.3 2/145 4568 */
    const char *slash = load ? strchr(load, '/') : NULL;
    if (slash)
        sscanf(slash + 1, "%" SCNu64, &m->pids_now);
}

int machine_read(struct machine *out, const char *root, struct error *err)
{
    struct machine m = {.files_max = UINT32_MAX};
    struct rlimit files;
    if (read_memory(&m, root, err) < 0)
        return -1;
    read_pids(&m, root);
    scoped_free char *groups = read_file(root, "/proc/self/cgroup");
    for (size_t i = 0; i < ARRAY_LEN(memory_files); i++)
        walk_up(&m, root, groups, &memory_files[i], apply_memory);
    for (size_t i = 0; i < ARRAY_LEN(pids_files); i++)
        walk_up(&m, root, groups, &pids_files[i], apply_pids);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY)
        m.files_max = files.rlim_cur;
    *out = m;
    return 0;
}
