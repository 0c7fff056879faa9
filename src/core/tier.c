/* tier.c - reads the needs of layer.h */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tier.h"

#include "base/macros.h"
#include "wire/spawn.h"

enum layer_need tier_need(enum layer layer, bool is_rootless)
{
    const struct layer_info *info = layer_info(layer);
    return is_rootless ? info->as_user : info->as_root;
}

uint32_t tier_layers(const struct spawn_probe_reply *probe)
{
    uint32_t layers = 0;
    for (int i = 0; i < LAYER_COUNT; i++) {
        if (probe->layers[i].state == SPAWN_PROBE_HOLDS)
            layers |= 1u << i;
    }
    return layers;
}

enum tier tier_of(uint32_t layers, bool is_rootless)
{
    enum tier tier = is_rootless ? TIER_T2 : TIER_T1;
    for (int layer = 0; layer < LAYER_COUNT; layer++) {
        if (layers & 1u << layer)
            continue;
        switch (tier_need((enum layer)layer, is_rootless)) {
        case LAYER_ALWAYS:
            return TIER_NONE;
        case LAYER_NEEDED:
            tier = TIER_T3;
            break;
        case LAYER_EXTRA:
            break;
        }
    }
    return tier;
}

/* What else is limited has something to hold it in every sandbox that is made: of memory the
 * spawner adds up what no group counts, of processes RLIMIT_NPROC is the second hand, and a disk
 * that has no limit has no sandbox. */
static const struct {
    const char *name;
    uint32_t held_by;
} limits[] = {
    {"cpus", LAYER_BIT(CG_CPU)},
};

const char *tier_missing_limit(uint32_t layers, size_t at)
{
    for (size_t i = 0; layers && i < ARRAY_LEN(limits); i++) {
        if (!(layers & limits[i].held_by) && at-- == 0)
            return limits[i].name;
    }
    return NULL;
}

const char *tier_name(enum tier tier)
{
    static const char *const names[] = {
        [TIER_NONE] = NULL, [TIER_T1] = "T1", [TIER_T2] = "T2", [TIER_T3] = "T3"};
    return names[tier];
}
