/* linux_feature.h - what younger kernels have beyond the layers, and Cove uses where it is there
 *
 * Without one of these every promise is kept, by other means or with less depth. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct spawn_probe_reply;

enum linux_feature {
    LINUX_REFUSES_DESCRIPTORS, /* from sandboxes, where they are sent; else they are taken and
                                   closed */
    LINUX_SCOPES_SIGNALS, /* of what is confined to itself; else uids and seccomp alone keep them
                              in */
    LINUX_LIMITS_PORTS,   /* to which what is confined may connect; else seccomp alone does */
    LINUX_FEATURE_COUNT
};

/* Tried by a socket of our own, or told by the spawner; a bit for each. */
uint32_t linux_feature_find(const struct spawn_probe_reply *probe);

const char *linux_feature_name(enum linux_feature feature);
