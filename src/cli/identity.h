/* identity.h - the users that programs without privileges run as */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/macros.h"

struct identity {
    uid_t uid;
    gid_t gid;
};

bool identity_find(const char *name, struct identity *out);

/* A number below those of sandboxes, which nobody else has either. */
struct identity identity_of_nobody(unsigned below);

/* Whom cove-egress runs as: its user if there is one, else a number of its own; an ordinary user's
 * as himself. */
struct identity identity_of_proxy(void);
