/* clock.c - the clocks */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DAY_S 86400

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

struct date {
    unsigned year, month, day;
};

/* Of a day counted from 1970 (Hinnant, "chrono-compatible low-level date algorithms"): years begin
 * in March, so that the day that some of them have more is their last, and 400 of them have as many
 * days as the next 400. */
static struct date date_of(int64_t days)
{
    int64_t since = days + 719468; /* the first of March of the year 0 */
    int64_t era = since / 146097;  /* none of the times that 64 bits can tell is before that */
    unsigned day_of_era = (unsigned)(since - era * 146097);
    unsigned year =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day = day_of_era - (365 * year + year / 4 - year / 100);
    unsigned month = (5 * day + 2) / 153; /* 0: March */
    bool is_next_year = month >= 10;
    return (struct date){.year = (unsigned)(era * 400) + year + is_next_year,
                         .month = is_next_year ? month - 9 : month + 3,
                         .day = day - (153 * month + 2) / 5 + 1};
}

static char *put(char *out, unsigned number, int digits, char behind)
{
    for (int i = digits - 1; i >= 0; i--, number /= 10)
        out[i] = (char)('0' + number % 10);
    out[digits] = behind;
    return out + digits + 1;
}

/* By hand: strftime() is a twentieth of what an answer costs. */
void clock_format(int64_t wall_ns, char out[CLOCK_TEXT_BYTES])
{
    int64_t seconds = wall_ns / 1000000000, rest = wall_ns % 1000000000;
    if (rest < 0) { /* before 1970 it counts upwards, too */
        rest += 1000000000;
        seconds--;
    }
    int64_t second = seconds % DAY_S;
    second += second < 0 ? DAY_S : 0;
    const struct date date = date_of((seconds - second) / DAY_S);
    char *at = put(out, date.year, 4, '-');
    at = put(at, date.month, 2, '-');
    at = put(at, date.day, 2, 'T');
    at = put(at, (unsigned)second / 3600, 2, ':');
    at = put(at, (unsigned)second / 60 % 60, 2, ':');
    at = put(at, (unsigned)second % 60, 2, '.');
    at = put(at, (unsigned)(rest / 1000000), 3, 'Z');
    *at = '\0';
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
