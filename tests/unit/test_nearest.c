/* test_nearest.c - did you mean ...? */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include "check.h"

struct nearest_case {
    const char *name, *word, *best; /* best NULL: none is close */
};

static const struct nearest_case cases[] = {
    {"finds a missing letter", "timout", "timeout"},
    {"finds swapped letters", "tiemout", "timeout"},
    {"finds a wrong letter", "memary", "memory"},
    {"finds a letter too many", "memorry", "memory"},
    {"finds the beginning of a word", "allow", "allow-degraded"},
    {"finds a short word", "rn", "run"},
    {"prefers the closer of two", "disc", "disk"},
    {"finds nothing for something else", "banana", NULL},
    {"finds nothing for one letter", "x", NULL},
    {"finds nothing for nothing", "", NULL},
    {"finds nothing for an endless word",
     "timeouttimeouttimeouttimeouttimeouttimeouttimeouttimeouttimeouttimeout", NULL},
};

static void test_nearest(void **state)
{
    static const char *const names[] = {"run",  "timeout", "memory",
                                        "disk", "dist",    "allow-degraded"};
    const struct nearest_case *row = *state;
    struct nearest nearest = {.word = row->word};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        nearest_offer(&nearest, names[i]);
    if (row->best)
        assert_string_equal(nearest.best, row->best);
    else
        assert_null(nearest.best);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_nearest);
    return check_run(&check, "nearest");
}
