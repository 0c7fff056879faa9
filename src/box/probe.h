/* probe.h - which layers hold on this host, found out by trying each in a throw-away process */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/cgroup.h"
#include "box/power.h"
#include "wire/spawn.h"

/* `slot` is a free slot of the caller's: the cgroup probes make a real group there. */
void probe_layers(struct spawn_probe_reply *out, const struct cgroup_tree *cgroups,
                  const struct power *power, unsigned slot);
