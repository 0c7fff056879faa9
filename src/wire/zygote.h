/* zygote.h - the protocol between cove-spawner and a zygote
 *
 * A zygote is a warm interpreter that makes sandboxes by forking. It runs the image's own code in a
 * user namespace that has no power over the host, so the spawner believes it nothing but what
 * concerns the sandboxes it makes. A SOCK_SEQPACKET pair: from the spawner one struct
 * zygote_request per sandbox; the zygote itself says only struct seal_report (see box/seal.h), when
 * it is ready. How a sandbox gets on is told on the report socket that came with its request. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "wire/spawn.h"

/* What a zygote finds when it starts; its standard error is the client's. */
enum zygote_fd {
    ZYGOTE_SOCKET_FD = 3,
    ZYGOTE_MODULE_FD,  /* the extension */
    ZYGOTE_PROGRAM_FD, /* zygote.py */
    ZYGOTE_INIT_FD,    /* cove-init */
    ZYGOTE_KERNEL_FD,  /* the kernel's text, from the client */
    ZYGOTE_CONFIG_FD,  /* what to import, from the client; see guest/python/zygote.py */
    ZYGOTE_FD_END
};

#define ZYGOTE_PID 300 /* in its own pid namespace: far from any that its children start with */

enum zygote_flags {
    ZYGOTE_ROOTLESS = 1 << 0,
    ZYGOTE_ALLOW_DEGRADED = 1 << 1,
    ZYGOTE_OWN_UID = 1 << 2,
    ZYGOTE_MEMORY_CGROUP = 1 << 3,
    ZYGOTE_PIDS_CGROUP = 1 << 4,
    ZYGOTE_INTO_CGROUP = 1 << 5, /* there is a version 2 group to clone into */
    ZYGOTE_BROOD = 1 << 6,  /* alone: make no sandbox, copy yourself. One fd: the copy's socket,
                             * on which it takes requests like these */
    ZYGOTE_NET = 1 << 7,    /* there is a network namespace to enter */
    ZYGOTE_SYSCTL = 1 << 8, /* there is a directory of settings, for its network */
};

/* With the fds: report socket, control socket of cove-init, channel of the kernel, the settings,
 * the network namespace and the version 2 group where there are, then the tasks files of version 1.
 */
struct zygote_request {
    struct spawn_limits limits;
    uint32_t uid; /* of the sandbox, as the zygote's user namespace calls it */
    uint32_t flags;
};
