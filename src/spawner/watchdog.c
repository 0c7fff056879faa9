/* watchdog.c - three files of /proc, which stay open and so stay those of that very process */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/watchdog.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/scoped.h"

#define LOOK_NS (WATCHDOG_LOOK_MS * 1000000ll)

static int open_one(pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static bool read_one(int fd, char *text, size_t size)
{
    ssize_t n = fd < 0 ? -1 : pread(fd, text, size - 1, 0);
    text[MAX(n, 0)] = '\0';
    return n > 0;
}

/* 'R': it runs, or waits for a processor. The name before it may hold anything. */
static char state_of(const struct watchdog *w)
{
    char text[512];
    if (!read_one(w->stat_fd, text, sizeof(text)))
        return '?';
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' ? end[2] : '?';
}

/* Where the kernel does not count, a process that is about to run is not told from one that runs.
 */
static void read_times(const struct watchdog *w, uint64_t *ran_ns, uint64_t *waited_ns)
{
    char text[128];
    unsigned long long ran, waited;
    if (!read_one(w->sched_fd, text, sizeof(text)) || sscanf(text, "%llu %llu", &ran, &waited) != 2)
        return;
    *ran_ns = ran;
    *waited_ns = waited;
}

void watchdog_init(struct watchdog *w)
{
    *w = (struct watchdog){.stat_fd = -1, .sched_fd = -1, .wchan_fd = -1};
}

void watchdog_open(struct watchdog *w, pid_t pid)
{
    watchdog_close(w);
    w->stat_fd = open_one(pid, "stat");
    w->sched_fd = open_one(pid, "schedstat");
    w->wchan_fd = open_one(pid, "wchan");
    watchdog_turned(w);
}

void watchdog_close(struct watchdog *w)
{
    scoped_close_fd(&w->stat_fd);
    scoped_close_fd(&w->sched_fd);
    scoped_close_fd(&w->wchan_fd);
    watchdog_init(w);
}

void watchdog_turned(struct watchdog *w)
{
    w->stood_ns = 0;
    w->looked_ns = clock_now_ns();
    read_times(w, &w->ran_ns, &w->waited_ns);
}

/* The time in the queue is added to what it waited only when it gets a processor; while it waits,
 * it is in the state of one that runs, and has not run. */
static int64_t stood(char state, int64_t passed_ns, int64_t ran_ns, int64_t waited_ns)
{
    if (state == 'R')
        return MIN(ran_ns, passed_ns);
    return MAX(passed_ns - waited_ns, 0);
}

int64_t watchdog_look(struct watchdog *w)
{
    int64_t now = clock_now_ns();
    uint64_t ran_ns = w->ran_ns, waited_ns = w->waited_ns;
    char state = state_of(w);
    if (w->stat_fd < 0 || state == '?')
        return 0;
    read_times(w, &ran_ns, &waited_ns);
    w->stood_ns += stood(state, MIN(now - w->looked_ns, 2 * LOOK_NS), (int64_t)(ran_ns - w->ran_ns),
                         (int64_t)(waited_ns - w->waited_ns));
    w->looked_ns = now;
    w->ran_ns = ran_ns;
    w->waited_ns = waited_ns;
    return w->stood_ns;
}

int64_t watchdog_due_ns(const struct watchdog *w)
{
    return w->stat_fd < 0 ? INT64_MAX : w->looked_ns + LOOK_NS;
}

void watchdog_place(const struct watchdog *w, char place[WATCHDOG_PLACE_BYTES])
{
    char text[WATCHDOG_PLACE_BYTES];
    bool is_told = read_one(w->wchan_fd, text, sizeof(text)) && strcmp(text, "0") != 0;
    if (state_of(w) == 'R')
        snprintf(place, WATCHDOG_PLACE_BYTES, "code of its own");
    else
        snprintf(place, WATCHDOG_PLACE_BYTES, "%s", is_told ? text : "an unknown place");
}
