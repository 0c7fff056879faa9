/* memwatch.c - walks the process tree below pid 1 through /proc
 *
 * Orphans inside go to pid 1 of their namespace, so the tree below it is everything. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/memwatch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/parse.h"
#include "base/scoped.h"

#define SOCKETS_FREE 64
#define SOCKET_BYTES (416 * KIB) /* twice net.core.wmem_max as kernels set it */
#define PIDS_MAX     8192        /* visited in one look; what is beyond is not counted */

static bool read_proc(const char *path, char *text, size_t size)
{
    scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, size - 1);
    if (n < 0)
        return false;
    text[n] = '\0';
    return true;
}

/* One line of /proc/PID/status, "Name:   N kB". */
static uint64_t status_bytes(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    return line ? strtoull(line + strlen(name), NULL, 10) * KIB : 0;
}

static bool read_of(pid_t pid, const char *file, char *text, size_t size)
{
    char path[48];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    return read_proc(path, text, size);
}

/* Anonymous memory, what is shared but stands in no file of the storage, and the tables of all
 * pages, of which a map that is only read, and holds nothing, needs as many as any other. Exactly,
 * pages that several processes have count for each with its share of them; that walks every page
 * table. */
static uint64_t own_bytes(pid_t pid, bool is_exact)
{
    char text[4096];
    if (!read_of(pid, "status", text, sizeof(text)))
        return 0;
    uint64_t tables = status_bytes(text, "\nVmPTE:");
    if (!is_exact)
        return tables + status_bytes(text, "\nRssAnon:") + status_bytes(text, "\nRssShmem:");
    if (!read_of(pid, "smaps_rollup", text, sizeof(text)))
        return tables;
    return tables + status_bytes(text, "\nPss_Anon:") + status_bytes(text, "\nPss_Shmem:");
}

/* Adds the children of one thread to the list. */
static size_t add_children(pid_t pid, const char *thread, pid_t *list, size_t count)
{
    char path[96], text[16384];
    snprintf(path, sizeof(path), "/proc/%d/task/%s/children", pid, thread);
    if (!read_proc(path, text, sizeof(text)))
        return count;
    char *end = strrchr(text, ' '); /* each is followed by one: a number cut short is not */
    if (end)
        *end = '\0';
    for (char *save = NULL, *word = strtok_r(text, " ", &save); end && word && count < PIDS_MAX;
         word = strtok_r(NULL, " ", &save)) {
        uint64_t child;
        if (parse_u64(word, &child))
            list[count++] = (pid_t)child;
    }
    return count;
}

static size_t add_all_children(pid_t pid, pid_t *list, size_t count)
{
    char path[48];
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    if (!dir)
        return count;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] != '.')
            count = add_children(pid, e->d_name, list, count);
    }
    closedir(dir);
    return count;
}

/* What the sockets of its network namespace may hold in their buffers, which stand in no process:
 * each up to its largest send buffer, but for the few that every program has. */
static uint64_t socket_bytes(pid_t init)
{
    char path[48], text[1024];
    unsigned used;
    snprintf(path, sizeof(path), "/proc/%d/net/sockstat", init);
    if (!read_proc(path, text, sizeof(text)) || sscanf(text, "sockets: used %u", &used) != 1 ||
        used <= SOCKETS_FREE)
        return 0;
    return (uint64_t)(used - SOCKETS_FREE) * SOCKET_BYTES;
}

static uint64_t sum_up(pid_t init, int storage_fd, bool is_exact)
{
    static pid_t list[PIDS_MAX];
    size_t count = 1;
    uint64_t sum = socket_bytes(init);
    struct statfs fs;
    list[0] = init;
    for (size_t i = 0; i < count; i++) {
        sum += own_bytes(list[i], is_exact);
        count = add_all_children(list[i], list, count);
    }
    if (fstatfs(storage_fd, &fs) == 0)
        sum += (fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    return sum;
}

uint64_t memwatch_sum(pid_t init, int storage_fd, uint64_t limit)
{
    uint64_t sum = sum_up(init, storage_fd, false);
    return sum > limit ? sum_up(init, storage_fd, true) : sum;
}
