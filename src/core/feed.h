/* feed.h - copies one fd into another as fast as both allow; ends both
 *
 * The source may be a file, a pipe or a terminal; the sink is a pipe into a sandbox, which may stop
 * reading, or be gone, at any time. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "event/loop.h"

struct feed;

/* Takes both fds, even when it fails. */
MUST_CHECK int feed_new(struct feed **out, struct loop *loop, int source_fd, int sink_fd,
                        struct error *err);
void feed_free(struct feed *feed);
SCOPED_DEFINE(feed)
