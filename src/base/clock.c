/* clock.c - the clocks */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t clock_file_ns(void)
{
    return read_clock(CLOCK_REALTIME_COARSE);
}

void clock_format(int64_t wall_ns, char out[CLOCK_TEXT_BYTES])
{
    time_t seconds = wall_ns / 1000000000;
    struct tm tm;
    char date[20];
    gmtime_r(&seconds, &tm);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, CLOCK_TEXT_BYTES, "%s.%03dZ", date, (int)(wall_ns / 1000000 % 1000));
}
