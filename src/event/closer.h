/* closer.h - closes descriptors in threads of its own
 *
 * A close() may wait for as long as whoever made the descriptor likes: a socket that lingers, or a
 * socket of whose queue it is the last holder and in which such a one lies. A loop must not. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/scoped.h"

#define CLOSER_THREADS_MAX 8 /* what waits behind so many that stand is closed when one goes on */

struct closer;

/* The threads begin with the first descriptor. */
struct closer *closer_new(void);

/* What is under way goes on without it. */
void closer_free(struct closer *closer);
SCOPED_DEFINE(closer)

/* Takes `fd`, which must be none that anything of ours still waits on. */
void closer_add(struct closer *closer, int fd);
