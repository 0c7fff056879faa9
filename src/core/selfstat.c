/* selfstat.c - /proc/self, held open */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/selfstat.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

#define STAT_MAX_BYTES 1024

struct selfstat {
    int stat_fd; /* -1: cannot be had */
    DIR *fds;    /* NULL: the same */
};

struct selfstat *selfstat_new(void)
{
    struct selfstat *s = xcalloc(1, sizeof(*s));
    s->stat_fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    s->fds = opendir("/proc/self/fd");
    return s;
}

void selfstat_free(struct selfstat *s)
{
    if (!s)
        return;
    if (s->stat_fd >= 0)
        close(s->stat_fd);
    if (s->fds)
        closedir(s->fds);
    free(s);
}

/* Since 6.2 the size of the folder is their number; before that they are counted. */
static uint64_t count_fds(const struct selfstat *s)
{
    struct stat st;
    uint64_t count = 0;
    if (!s->fds || fstat(dirfd(s->fds), &st) < 0)
        return 0;
    if (st.st_size > 0)
        return (uint64_t)st.st_size;
    rewinddir(s->fds);
    for (const struct dirent *e; (e = readdir(s->fds));)
        count += e->d_name[0] != '.';
    return count;
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
    *out = (struct selfstat_info){.open_fds = count_fds(s)};
    read_stat(s, out);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        out->cpu_seconds = seconds(&usage.ru_utime) + seconds(&usage.ru_stime);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY)
        out->max_fds = files.rlim_cur;
}
