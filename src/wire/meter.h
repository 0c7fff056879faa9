/* meter.h - what a sandbox has used so far, from the files in which the kernel counts it
 *
 * The spawner reads them for its verdicts, and a client does so at the end of each execution: to
 * read some files costs less than to wake another process. They are open to everybody. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "wire/spawn.h"

struct meter {
    int dirs[SPAWN_METER_COUNT];         /* in which groups are made; -1: not counted here */
    uint8_t versions[SPAWN_METER_COUNT]; /* of the cgroups there */
};

/* The number in the file `name`: of its line "key N", or all of it when `key` is NULL. 0: there is
 * none. */
uint64_t meter_read_number(int dir_fd, const char *name, const char *key);

/* Files that may stay open, for who asks often: to open one costs ten times as much as to read it.
 * -1 stands for one that is not there. When the group is gone nothing can be read. */
enum meter_counter { METER_PEAK, METER_OOM, METER_REFUSED, METER_CPU, METER_COUNTERS };

struct meter_files {
    int fds[METER_COUNTERS];
};

int meter_open_one(const struct meter *meter, enum meter_counter which, uint32_t slot,
                   uint32_t nest);
void meter_open(const struct meter *meter, uint32_t slot, uint32_t nest, struct meter_files *out);
void meter_close(struct meter_files *files);

/* Fills the counters that it has, and leaves the others alone. cpu_us is that of the group, with
 * what its seal took. False: one is missing, or the group is gone. */
bool meter_read_files(const struct meter *meter, const struct meter_files *files,
                      struct spawn_stats *out);

uint64_t meter_read_cpu_us(const struct meter *meter, int fd); /* of the file METER_CPU */
