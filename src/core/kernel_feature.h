/* kernel_feature.h - what younger kernels have beyond the layers, and Cove uses where it is there
 *
 * Without one of these every promise is kept, by other means or with less depth. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct spawn_probe_reply;

enum kernel_feature {
    KERNEL_REFUSES_DESCRIPTORS, /* from sandboxes, where they are sent; else they are taken and
                                   closed */
    KERNEL_SCOPES_SIGNALS, /* of what is confined to itself; else uids and seccomp alone keep them
                              in */
    KERNEL_LIMITS_PORTS,   /* to which what is confined may connect; else seccomp alone does */
    KERNEL_FEATURE_COUNT
};

/* Tried by a socket of our own, or told by the spawner; a bit for each. */
uint32_t kernel_feature_find(const struct spawn_probe_reply *probe);

const char *kernel_feature_name(enum kernel_feature feature);
