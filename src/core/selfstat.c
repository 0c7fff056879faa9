/* selfstat.c - one file of /proc, held open; the rest the kernel tells without */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/selfstat.h"

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"

#define STAT_MAX_BYTES 1024
#define BLOCK          1024u
#define SPARSE_MAX     65536u

struct selfstat {
    int stat_fd; /* -1: cannot be had */
};

struct selfstat *selfstat_new(void)
{
    struct selfstat *s = xcalloc(1, sizeof(*s));
    s->stat_fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    return s;
}

void selfstat_free(struct selfstat *s)
{
    if (!s)
        return;
    if (s->stat_fd >= 0)
        close(s->stat_fd);
    free(s);
}

static uint64_t count_block(uint64_t first, uint64_t count)
{
    struct pollfd fds[BLOCK];
    uint64_t open = 0;
    for (uint64_t i = 0; i < count; i++)
        fds[i] = (struct pollfd){.fd = (int)(first + i)};
    if (poll(fds, (nfds_t)count, 0) < 0)
        return 0;
    for (uint64_t i = 0; i < count; i++)
        open += !(fds[i].revents & POLLNVAL);
    return open;
}

/* The kernel tells which of a list are none: a thousand with one call, and no folder of /proc has
 * to be held open for it. Numbers are given out from below, so that behind SPARSE_MAX, where a
 * limit may be in the millions, a block with none is the end. */
static uint64_t count_fds(uint64_t max)
{
    uint64_t open = 0;
    for (uint64_t first = 0; first < max; first += BLOCK) {
        uint64_t here = count_block(first, MIN(BLOCK, max - first));
        if (here == 0 && first >= SPARSE_MAX)
            break;
        open += here;
    }
    return open;
}

/* pid (name) state ppid ...; the name may hold anything, so what counts is behind its last brace.
 * Fields 20, 23 and 24 of proc(5). */
static void read_stat(const struct selfstat *s, struct selfstat_info *out)
{
    char text[STAT_MAX_BYTES];
    uint64_t pages = 0;
    ssize_t len = s->stat_fd >= 0 ? pread(s->stat_fd, text, sizeof(text) - 1, 0) : -1;
    text[len > 0 ? len : 0] = '\0';
    const char *rest = strrchr(text, ')');
    if (rest && sscanf(rest + 1,
                       " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                       "%" SCNu64 " %*d %*u %" SCNu64 " %" SCNu64,
                       &out->threads, &out->virtual_bytes, &pages) == 3)
        out->resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double seconds(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

void selfstat_get_info(const struct selfstat *s, struct selfstat_info *out)
{
    struct rusage usage;
    struct rlimit files;
    *out = (struct selfstat_info){0};
    read_stat(s, out);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        out->cpu_seconds = seconds(&usage.ru_utime) + seconds(&usage.ru_stime);
    const struct mallinfo2 heap = mallinfo2();
    out->heap_bytes = heap.uordblks + heap.hblkhd;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        out->max_fds = MIN(files.rlim_cur, INT32_MAX);
    out->open_fds = count_fds(out->max_fds);
}
