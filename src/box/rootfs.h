/* rootfs.h - the file system that a sandbox sees
 *
 * The spawner prepares mounts as detached fds, before the clone; the child attaches them in its own
 * mount namespace and makes them its root. No path of a sandbox is walked by name: everything is
 * relative to fds of mounts that nobody else has. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct rootfs {
    int image_fd;   /* detached, read-only clone of the image's tree */
    int storage_fd; /* detached tmpfs that holds all that can be written, with the limits on it */
};

/* `veil_fd` is the image's mount (see veil.h), borrowed. On success both fds of *out are owned. */
MUST_CHECK int rootfs_prepare(struct rootfs *out, int veil_fd, uint64_t disk_bytes, uint64_t inodes,
                              uid_t owner, struct error *err);
void rootfs_release(struct rootfs *root);

/* In the child: attaches everything below the image and makes it "/". Async-signal-safe; on -1
 * errno and *step (a constant text) say what failed. */
MUST_CHECK int rootfs_enter(const struct rootfs *root, const char **step);
