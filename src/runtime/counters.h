/* counters.h - the counters of sandboxes, with the files of the busiest held open
 *
 * At the end of each execution its counters are read. To open the files costs ten times as much as
 * to read them, so those of the last few sandboxes stay open until nobody asked for a second. An
 * idle sandbox has none, and all together have COUNTERS_HOT times four. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "event/loop.h"
#include "wire/meter.h"

#define COUNTERS_HOT     32 /* as many as a busy pool has parked, each read when it rehearsed */
#define COUNTERS_CALM_MS 1000

struct counters {
    struct loop *loop;
    struct meter meter; /* its fds are -1 where counters have to be asked for */
    struct counters_hot {
        bool is_open;
        uint32_t slot, nest;
        uint64_t turn; /* when it was read last */
        struct meter_files files;
    } hot[COUNTERS_HOT];
    uint64_t turn, calm_turn;
    struct loop_timer *timer;
};

void counters_init(struct counters *c, struct loop *loop);
void counters_release(struct counters *c); /* and closes what is in its meter */

/* As meter_read(). */
bool counters_read(struct counters *c, uint32_t slot, uint32_t nest, struct spawn_stats *out);

/* The sandbox ends: its files make room for those of one that lives. */
void counters_forget(struct counters *c, uint32_t slot, uint32_t nest);
