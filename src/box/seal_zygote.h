/* seal_zygote.h - starts a zygote: a python that may make sandboxes and can do nothing else
 *
 * It lives beside the pid 1 of a sandbox without storage, its *shell*, in all of its namespaces but
 * for a user namespace of its own. There it is root over the uids of sandboxes, and over the
 * namespaces that it makes itself; its own namespaces belong to the spawner. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/power.h"
#include "box/seal.h"
#include "wire/zygote.h"

struct seal_zygote_plan {
    const struct seal_plan *shell; /* the plan of the shell: cgroup, uid, kind of power */
    int shell_pid_fd;
    int fds[ZYGOTE_FD_END]; /* what it gets as fd 2 and from ZYGOTE_MODULE_FD on; all borrowed */
};

/* Starts it; everything more comes as reports, the last of them SEAL_READY, from python. The report
 * socket stays open as the zygote's request socket. */
MUST_CHECK int seal_zygote_start(struct seal_child *out, const struct seal_zygote_plan *plan,
                                 struct error *err);

/* Answers its SEAL_MAP_ME: root is the shell's uid, and the other uids of sandboxes are mapped as
 * they are. */
MUST_CHECK int seal_zygote_map_ids(const struct seal_child *child, const struct seal_plan *shell,
                                   const struct power *power, struct error *err);
