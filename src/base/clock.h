/* clock.h - monotonic time for deadlines, wall time for people */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_TEXT_BYTES 32

int64_t clock_now_ns(void);  /* monotonic */
int64_t clock_wall_ns(void); /* since the epoch */
int64_t clock_file_ns(void); /* the same in ticks, as file systems stamp with it */

/* 2026-01-02T03:04:05.678Z */
void clock_format(int64_t wall_ns, char out[CLOCK_TEXT_BYTES]);
bool clock_parse(const char *text, int64_t *wall_ns); /* only that; false: it is something else */
