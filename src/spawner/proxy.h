/* proxy.h - cove-egress, as the spawner starts it for its client and forgets it
 *
 * The client has the one link to it: the spawner knows no policy and hears nothing. There is one at
 * a time, which dies with us, and by itself when its link is closed. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spawner/starter.h"
#include "wire/spawn.h"

struct proxy {
    pid_t pid;  /* 0: none runs */
    int pid_fd; /* -1 */
};

void proxy_init(struct proxy *proxy);
void proxy_close(struct proxy *proxy); /* kills it, and waits for that */

/* *link is the client's end, owned by the caller. One that runs is told to end first: that fails as
 * ERROR_UNAVAILABLE, and the client asks again. */
MUST_CHECK int proxy_start(struct proxy *proxy, struct starter *starter, int *link,
                           struct spawn_failure *failure);

void proxy_on_poll(struct proxy *proxy); /* of pid_fd */
