/* kernel.h - the host's end of the channel to a kernel */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "event/loop.h"
#include "runtime/frame.h"

/* What code inside has answered, and is held here until somebody has been told. One may fill it
 * with more than its own memory limit, so all kernels together have this much. */
#define KERNEL_ANSWERS_MAX_BYTES (128 << 20)
struct budget *kernel_answers(void);

struct kernel;

/* `m` is NULL when the channel has ended: closed by the kernel, or poisoned, and then `why` is a
 * constant text for people; this very one when its sandbox has to end. */
extern const char kernel_is_violating[];
typedef void (*kernel_message_fn)(void *ctx, const struct frame_message *m, const char *why);

/* Takes `fd`, even when it fails. */
MUST_CHECK int kernel_open(struct kernel **out, struct loop *loop, int fd, kernel_message_fn fn,
                           void *ctx, struct error *err);
void kernel_free(struct kernel *kernel); /* also from inside its callback */
SCOPED_DEFINE(kernel)

/* For one that another host has spoken to: sends a SYNC. `generation`: of the last request that is
 * known. All that comes before the SYNCED is passed on, too. */
MUST_CHECK int kernel_sync(struct kernel *kernel, uint32_t generation, struct error *err);

int kernel_fd(const struct kernel *kernel); /* borrowed */

/* Sends one message, in as many frames as it needs; what the socket does not take now is kept and
 * follows. `fds` (borrowed) go with the first frame. A dead channel is told by the callback. */
MUST_CHECK int kernel_send(struct kernel *kernel, enum kernel_frame_type type, uint32_t generation,
                           const void *body, size_t len, const int *fds, size_t fd_count,
                           struct error *err);
