/* roster.h - all sandboxes of a spawner: the few that need care in every turn, the many at rest
 *
 * Thousands of sessions are idle: nothing will come of them but the end of their pid 1, or a word
 * of the client's. They rest, in an epoll set, and cost a turn of the spawner nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spawner/sandbox.h"

#define ROSTER_BUCKETS 1024
#define ROSTER_EXITS   64

struct roster {
    struct sandbox *busy; /* linked by `next` */
    size_t busy_count;
    struct sandbox *resting; /* linked by `next` and `back` */
    size_t resting_count;
    struct sandbox *by_id[ROSTER_BUCKETS]; /* linked by `next_by_id` */
    int epoll_fd;                          /* can be read when one at rest has ended */
    int64_t deadline_ns; /* no life of one at rest is over before; INT64_MAX: never */
};

/* Without an epoll set (epoll_fd -1) nobody rests. */
void roster_init(struct roster *roster);
void roster_release(struct roster *roster); /* when it is empty */

void roster_add(struct roster *roster, struct sandbox *sb);

/* NULL: nobody of that id, or only one that is ending. */
struct sandbox *roster_find(const struct roster *roster, uint64_t id);
/* The one with the lowest id above `after` that is not ending, or NULL. */
const struct sandbox *roster_next(const struct roster *roster, uint64_t after);
/* All of them, one after the other; none may come, go or change its state meanwhile. */
struct sandbox *roster_first(const struct roster *roster);
struct sandbox *roster_after(const struct roster *roster, const struct sandbox *sb);
bool roster_has_pid(const struct roster *roster, pid_t pid);

/* Something has happened to it: from now on it may rest, or no longer. */
void roster_update(struct roster *roster, struct sandbox *sb);
void roster_wake_all(struct roster *roster);

/* Those at rest whose pid 1 has ended; at most ROSTER_EXITS, the others next time. */
size_t roster_exits(struct roster *roster, struct sandbox *out[ROSTER_EXITS]);

/* Calls `over` for each at rest whose time is over, and sets the next deadline. */
void roster_check_deadlines(struct roster *roster, int64_t now_ns,
                            void (*over)(struct sandbox *sb));

/* Tries to remove each that is to be removed; calls `gone` with what is known of it then. One whose
 * memory its forks still have keeps its group, with nobody in it, as long as one of them lives:
 * else they would hold memory that no limit counts. It is told as gone, all the same. */
void roster_remove_ended(struct roster *roster, struct host *host,
                         void (*gone)(void *ctx, uint64_t id, uint32_t serial,
                                      const struct spawn_stats *last),
                         void *ctx);
