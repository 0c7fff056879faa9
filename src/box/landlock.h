/* landlock.h - a second opinion on every path: read the image, write only the workspace */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/macros.h"

int landlock_abi(void); /* what the kernel offers, 0 = none */

/* Confines this process, for good. Call in the finished root, after no_new_privs.
 * Async-signal-safe. 0, or -1 with errno. */
MUST_CHECK int landlock_apply(void);

/* The same for a process that copies: below one directory it may read, below the other do all. */
MUST_CHECK int landlock_apply_copy(int from_fd, int to_fd);
