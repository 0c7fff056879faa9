/* client_group.h - the cgroup of the server that the spawner starts
 *
 * It stands beside the parent of all sandboxes, so that what the server itself uses is counted
 * apart, below the limits of whatever both were started in. Each server that follows a dead one
 * comes into the same group. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/cgroup.h"

#define CLIENT_GROUP_NAME_BYTES 32

struct client_group {
    const struct cgroup_tree *tree; /* borrowed; NULL: there is none */
    char name[CLIENT_GROUP_NAME_BYTES];
};

/* Only where sandboxes are in our own group: else ours holds more than a leaf beside them would.
 * Removes what crashed spawners left. */
void client_group_open(struct client_group *g, const struct cgroup_tree *tree);
/* When nobody is in it any more. Twice is fine. */
void client_group_close(struct client_group *g);

/* Makes the group where it is not there, and opens the ways in: who writes "0" there is inside. The
 * fds are the caller's; answers how many there are. A group that cannot be had is left out: nothing
 * depends on it. */
size_t client_group_doors(struct client_group *g, int fds[CGROUP_HIERARCHIES_MAX]);
