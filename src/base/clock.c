/* clock.c - the clocks */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    int64_t rest = wall_ns % 1000000000;
    rest += rest < 0 ? 1000000000 : 0; /* before 1970 it counts upwards, too */
    time_t seconds = (wall_ns - rest) / 1000000000;
    struct tm tm;
    char date[20];
    gmtime_r(&seconds, &tm);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, CLOCK_TEXT_BYTES, "%s.%03dZ", date, (int)(rest / 1000000));
}

bool clock_parse(const char *text, int64_t *wall_ns)
{
    struct tm tm = {0};
    char again[CLOCK_TEXT_BYTES];
    if (strlen(text) != strlen("2026-01-02T03:04:05.678Z"))
        return false;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest || *rest != '.')
        return false;
    int64_t ns = (int64_t)timegm(&tm) * 1000000000 + strtol(rest + 1, NULL, 10) * 1000000;
    clock_format(ns, again);
    if (strcmp(again, text) != 0)
        return false;
    *wall_ns = ns;
    return true;
}
