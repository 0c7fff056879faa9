/* meter.c - which file has which counter, in both versions of cgroups */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/meter.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/parse.h"
#include "base/scoped.h"

#define FILE_BYTES 4096 /* the kernel fills at most a page at once */
#define PATH_BYTES 64

/* One read: such a file comes whole, or not at all. */
static bool read_fd(int fd, char text[FILE_BYTES])
{
    ssize_t n = fd < 0 ? -1 : pread(fd, text, FILE_BYTES - 1, 0);
    if (n < 0)
        return false;
    text[n] = '\0';
    return true;
}

static bool find_number(char *text, const char *key, uint64_t *out)
{
    size_t len = key ? strlen(key) : 0;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        if (key && (strncmp(line, key, len) != 0 || line[len] != ' '))
            continue;
        if (parse_u64(line + (key ? len + 1 : 0), out))
            return true;
    }
    return false;
}

uint64_t meter_read_number(int dir_fd, const char *name, const char *key)
{
    char text[FILE_BYTES];
    uint64_t value;
    scoped_fd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    return read_fd(fd, text) && find_number(text, key, &value) ? value : 0;
}

struct row {
    enum spawn_meter meter;
    struct {
        const char *name, *key;
    } files[2]; /* of version 1, of version 2 */
};

static const struct row rows[METER_COUNTERS] = {
    [METER_PEAK] = {SPAWN_METER_MEMORY,
                    {{"memory.max_usage_in_bytes", NULL}, {"memory.peak", NULL}}},
    [METER_OOM] = {SPAWN_METER_MEMORY,
                   {{"memory.oom_control", "oom_kill"}, {"memory.events", "oom_kill"}}},
    [METER_REFUSED] = {SPAWN_METER_PIDS, {{"pids.events", "max"}, {"pids.events", "max"}}},
    /* cpu.stat is there without the controller. */
    [METER_CPU] = {SPAWN_METER_CPU, {{"cpuacct.usage", NULL}, {"cpu.stat", "usage_usec"}}},
};

/* -1: not counted here, or the group is gone. */
int meter_open_one(const struct meter *m, enum meter_counter which, uint32_t slot, uint32_t nest)
{
    char path[PATH_BYTES];
    const struct row *row = &rows[which];
    bool is_v2 = m->versions[row->meter] == 2;
    const char *name = row->files[is_v2].name;
    if (m->dirs[row->meter] < 0)
        return -1;
    if (is_v2 && nest != SPAWN_NO_NEST)
        snprintf(path, sizeof(path), "%u/%u/%s", nest, slot, name);
    else
        snprintf(path, sizeof(path), "%u/%s", slot, name);
    return openat(m->dirs[row->meter], path, O_RDONLY | O_CLOEXEC);
}

static bool read_row(const struct meter *m, enum meter_counter which, int fd, uint64_t *out)
{
    char text[FILE_BYTES];
    bool is_v2 = m->versions[rows[which].meter] == 2;
    return read_fd(fd, text) && find_number(text, rows[which].files[is_v2].key, out);
}

uint64_t meter_read_cpu_us(const struct meter *m, int fd)
{
    uint64_t used;
    if (!read_row(m, METER_CPU, fd, &used))
        return 0;
    return m->versions[SPAWN_METER_CPU] == 2 ? used : used / 1000; /* version 1 has nanoseconds */
}

void meter_open(const struct meter *m, uint32_t slot, uint32_t nest, struct meter_files *out)
{
    for (int i = 0; i < METER_COUNTERS; i++)
        out->fds[i] = meter_open_one(m, (enum meter_counter)i, slot, nest);
}

void meter_close(struct meter_files *files)
{
    for (int i = 0; i < METER_COUNTERS; i++)
        scoped_close_fd(&files->fds[i]);
}

bool meter_read_files(const struct meter *m, const struct meter_files *files,
                      struct spawn_stats *out)
{
    uint64_t peak = out->memory_peak_bytes, kills = out->oom_kills, refused = out->pids_refused;
    bool has_peak = read_row(m, METER_PEAK, files->fds[METER_PEAK], &peak);
    bool has_kills = read_row(m, METER_OOM, files->fds[METER_OOM], &kills);
    bool has_refused = read_row(m, METER_REFUSED, files->fds[METER_REFUSED], &refused);
    out->memory_peak_bytes = peak;
    out->oom_kills = (uint32_t)kills;
    out->pids_refused = (uint32_t)refused;
    out->cpu_us = meter_read_cpu_us(m, files->fds[METER_CPU]);
    return has_peak && has_kills && has_refused;
}
