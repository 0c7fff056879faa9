/* layer.h - the layers that seal a sandbox: one list for the spawner, the doctor and the docs */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `root` and `user`: is the layer required when the spawner runs as root, or rootless?
 *   NEEDED  without it a sandbox is made only with --allow-degraded, at tier T3
 *   ALWAYS  without it no sandbox is made at all
 *   EXTRA   in force where the kernel lets us, never required */
#define LAYERS(X)                                                                                  \
    /* symbol       name                 root    user   */                                         \
    X(PID_NS, "pid namespace", ALWAYS, ALWAYS)                                                     \
    X(MOUNT_NS, "mount namespace", ALWAYS, ALWAYS)                                                 \
    X(NET_NS, "network namespace", ALWAYS, ALWAYS)                                                 \
    X(IPC_NS, "ipc namespace", ALWAYS, ALWAYS)                                                     \
    X(UTS_NS, "uts namespace", ALWAYS, ALWAYS)                                                     \
    X(CGROUP_NS, "cgroup namespace", NEEDED, EXTRA)                                                \
    X(USER_NS, "user namespace", EXTRA, ALWAYS)                                                    \
    X(UID, "own host uid", ALWAYS, EXTRA)                                                          \
    X(ROOT, "own root image", ALWAYS, ALWAYS)                                                      \
    X(PROC, "private /proc", ALWAYS, ALWAYS)                                                       \
    X(CAPS, "no capabilities", ALWAYS, ALWAYS)                                                     \
    X(NO_NEW_PRIVS, "no_new_privs", ALWAYS, ALWAYS)                                                \
    X(SECCOMP, "seccomp filter", ALWAYS, ALWAYS)                                                   \
    X(LANDLOCK, "landlock", NEEDED, NEEDED)                                                        \
    X(RLIMITS, "rlimits", ALWAYS, ALWAYS)                                                          \
    X(CG_MEMORY, "memory cgroup", NEEDED, EXTRA)                                                   \
    X(CG_PIDS, "pids cgroup", NEEDED, EXTRA)                                                       \
    X(CG_CPU, "cpu cgroup", NEEDED, EXTRA)                                                         \
    X(DISK, "disk limits", ALWAYS, ALWAYS)                                                         \
    X(OVERLAY, "own overlay", EXTRA, EXTRA)

enum layer_need { LAYER_EXTRA, LAYER_NEEDED, LAYER_ALWAYS };

enum layer {
#define X(symbol, name, root, user) LAYER_##symbol,
    LAYERS(X)
#undef X
        LAYER_COUNT
};

#define LAYER_BIT(symbol) (1u << LAYER_##symbol)

struct layer_info {
    const char *name;
    enum layer_need as_root;
    enum layer_need as_user;
};

const struct layer_info *layer_info(enum layer layer);
