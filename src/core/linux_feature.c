/* linux_feature.c - a table, and one socket to try */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/linux_feature.h"

#include "base/fd.h"
#include "base/macros.h"
#include "base/scoped.h"
#include "wire/spawn.h"

static const struct {
    const char *name;
    uint8_t landlock_abi; /* from which on; 0: something else tells */
} rows[LINUX_FEATURE_COUNT] = {
    [LINUX_REFUSES_DESCRIPTORS] = {"descriptors refused", 0},
    [LINUX_SCOPES_SIGNALS] = {"landlock for signals", 6},
    [LINUX_LIMITS_PORTS] = {"landlock for ports", 4},
};

static bool refuses_descriptors(void)
{
    struct error err;
    scoped_fd int ours = -1;
    scoped_fd int theirs = -1;
    return fd_make_channel(&ours, &theirs, &err) == 0 && !fd_may_hold_others(ours);
}

uint32_t linux_feature_find(const struct spawn_probe_reply *probe)
{
    uint32_t found = refuses_descriptors() ? 1u << LINUX_REFUSES_DESCRIPTORS : 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].landlock_abi && probe->landlock_abi >= rows[i].landlock_abi)
            found |= 1u << i;
    }
    return found;
}

const char *linux_feature_name(enum linux_feature feature)
{
    BUG_ON((unsigned)feature >= ARRAY_LEN(rows));
    return rows[feature].name;
}
