/* kernel_feature.c - a table, and one socket to try */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel_feature.h"

#include "base/fd.h"
#include "base/macros.h"
#include "base/scoped.h"
#include "wire/spawn.h"

static const struct {
    const char *name;
    uint8_t landlock_abi; /* from which on; 0: something else tells */
} rows[KERNEL_FEATURE_COUNT] = {
    [KERNEL_REFUSES_DESCRIPTORS] = {"descriptors refused", 0},
    [KERNEL_SCOPES_SIGNALS] = {"landlock for signals", 6},
    [KERNEL_LIMITS_PORTS] = {"landlock for ports", 4},
};

static bool refuses_descriptors(void)
{
    struct error err;
    scoped_fd int ours = -1;
    scoped_fd int theirs = -1;
    return fd_make_channel(&ours, &theirs, &err) == 0 && !fd_may_hold_others(ours);
}

uint32_t kernel_feature_find(const struct spawn_probe_reply *probe)
{
    uint32_t found = refuses_descriptors() ? 1u << KERNEL_REFUSES_DESCRIPTORS : 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].landlock_abi && probe->landlock_abi >= rows[i].landlock_abi)
            found |= 1u << i;
    }
    return found;
}

const char *kernel_feature_name(enum kernel_feature feature)
{
    BUG_ON((unsigned)feature >= ARRAY_LEN(rows));
    return rows[feature].name;
}
