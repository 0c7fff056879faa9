/* tier.h - how strong a seal is, from the layers in force
 *
 *   T1  root spawner, every layer that root needs
 *   T2  rootless spawner, every layer that rootless needs
 *   T3  less than that; only with --allow-degraded
 *   none  not even what is always needed: refused */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/layer.h"

struct spawn_probe_reply;

enum tier { TIER_NONE, TIER_T1, TIER_T2, TIER_T3 };

enum tier tier_of(uint32_t layers, bool is_rootless);
const char *tier_name(enum tier tier); /* "T1"; NULL for TIER_NONE */

/* Those that a probe found to hold, as a bit set. */
uint32_t tier_layers(const struct spawn_probe_reply *probe);

enum layer_need tier_need(enum layer layer, bool is_rootless);

/* The limits of a sandbox that nothing enforces where it has these layers alone, by their names in
 * `resources`: the first, the second... NULL: there is no further one. Without any layer nothing is
 * known, and there is none. */
const char *tier_missing_limit(uint32_t layers, size_t at);
