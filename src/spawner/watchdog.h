/* watchdog.h - how long a process has stood still that should be turning its loop
 *
 * Time in which it waited for a processor does not count, nor does time in which we did not run
 * ourselves: a machine that is busy, or a container that was paused, is nobody's fault. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WATCHDOG_PLACE_BYTES 64

struct watchdog {
    int stat_fd, sched_fd; /* of the process in /proc; -1: there is none */
    int wchan_fd;
    int64_t looked_ns;
    uint64_t ran_ns, waited_ns; /* of the process, then */
    int64_t stood_ns;           /* without the last turn */
};

void watchdog_init(struct watchdog *w); /* of nobody: it never stands */
void watchdog_open(struct watchdog *w, pid_t pid);
void watchdog_close(struct watchdog *w);

void watchdog_turned(struct watchdog *w); /* its loop did, just now */

/* Answers for how long it has stood by now. To be asked about every WATCHDOG_LOOK_MS: of a longer
 * time between two looks only twice that counts. */
#define WATCHDOG_LOOK_MS 1000
int64_t watchdog_look(struct watchdog *w);
int64_t watchdog_due_ns(const struct watchdog *w); /* when to ask next; INT64_MAX: never */

/* In which call of the kernel it stands, for people; "an unknown place" where that is not told. */
void watchdog_place(const struct watchdog *w, char place[WATCHDOG_PLACE_BYTES]);
