/* test_clock.c - times as text, there and back */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <string.h>
#include <time.h>

#include "check.h"

static void test_both_ways(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {{0, "1970-01-01T00:00:00.000Z"},
                {1767323045678000000, "2026-01-02T03:04:05.678Z"},
                {1709164799999000000, "2024-02-28T23:59:59.999Z"},
                {-1000000, "1969-12-31T23:59:59.999Z"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[CLOCK_TEXT_BYTES];
        int64_t ns = 7;
        clock_format(rows[i].ns, text);
        assert_string_equal(text, rows[i].text);
        assert_true(clock_parse(text, &ns));
        assert_int_equal(ns, rows[i].ns);
    }
}

/* Each day that 64 bits can tell. */
static void test_every_day(void **state)
{
    (void)state;
    for (int64_t day = -106751; day <= 106750; day++) {
        char text[CLOCK_TEXT_BYTES], wanted[CLOCK_TEXT_BYTES];
        time_t seconds = day * 86400 + (day * 7919 % 86400 + 86400) % 86400;
        struct tm tm;
        gmtime_r(&seconds, &tm);
        strftime(wanted, sizeof(wanted), "%Y-%m-%dT%H:%M:%S.007Z", &tm);
        clock_format(seconds * 1000000000 + 7999999, text);
        assert_string_equal(text, wanted);
    }
}

static void test_refused(void **state)
{
    static const char *const rows[] = {"",
                                       "2026",
                                       "2026-01-02T03:04:05Z",
                                       "2026-01-02T03:04:05.Z",
                                       "2026-01-02T03:04:05.678",
                                       "2026-01-02T03:04:05.678Z ",
                                       " 2026-01-02T03:04:05.678Z",
                                       "2026-02-30T03:04:05.678Z",
                                       "2026-01-02T03:04:05.6789Z",
                                       "2026-01-02T03:04:05.-78Z",
                                       "2026-01-02 03:04:05.678Z",
                                       "9999999999-01-02T03:04:05.678Z",
                                       "2026-01-02T03:04:05.99999999999999999999Z"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ns = 7;
        assert_false(clock_parse(rows[i], &ns));
        assert_int_equal(ns, 7);
    }
}

int main(void)
{
    static const struct CMUnitTest cases[] = {
        {"a time is the same in both ways", test_both_ways, NULL, NULL, NULL},
        {"every day has its date", test_every_day, NULL, NULL, NULL},
        {"what is no such time is refused", test_refused, NULL, NULL, NULL},
    };
    struct check check = {.count = ARRAY_LEN(cases)};
    memcpy(check.tests, cases, sizeof(cases));
    return check_run(&check, "clock");
}
