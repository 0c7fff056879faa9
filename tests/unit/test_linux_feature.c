/* test_linux_feature.c - what a version of landlock brings, and that each has a name */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/linux_feature.h"

#include <string.h>

#include "check.h"
#include "wire/spawn.h"

#define SIGNALS (1u << LINUX_SCOPES_SIGNALS)
#define PORTS   (1u << LINUX_LIMITS_PORTS)

static void test_landlock(void **state)
{
    (void)state;
    static const struct {
        uint8_t abi;
        uint32_t found;
    } rows[] = {{0, 0}, {3, 0}, {4, PORTS}, {5, PORTS}, {6, PORTS | SIGNALS}, {9, PORTS | SIGNALS}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct spawn_probe_reply probe = {.landlock_abi = rows[i].abi};
        assert_int_equal(linux_feature_find(&probe) & (SIGNALS | PORTS), rows[i].found);
    }
}

static void test_names(void **state)
{
    (void)state;
    for (enum linux_feature a = 0; a < LINUX_FEATURE_COUNT; a++) {
        for (enum linux_feature b = 0; b < a; b++)
            assert_string_not_equal(linux_feature_name(a), linux_feature_name(b));
    }
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "a version of landlock brings what it brings", test_landlock);
    check_one(&check, "each has a name of its own", test_names);
    return check_run(&check, "linux_feature");
}
