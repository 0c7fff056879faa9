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
    int image_fd;   /* detached, read-only mount of the image, of this sandbox's own: see veil.h */
    int storage_fd; /* detached tmpfs that holds all that can be written, with the limits on it, and
                     * /dev; -1: nothing can be written, and there are no terminals */
    int packages_fd; /* the same as image_fd, of a package layer; -1: none */
};

/* Fills storage_fd, which is owned then. */
MUST_CHECK int rootfs_prepare_storage(struct rootfs *root, uint64_t disk_bytes, uint64_t inodes,
                                      uid_t owner, struct error *err);

/* In the child: attaches everything below the image and makes it "/". Async-signal-safe; on -1
 * errno and *step (a constant text) say what failed. */
MUST_CHECK int rootfs_enter(const struct rootfs *root, const char **step);

/* In a copy of a zygote's mount namespace: covers all of the zygote's root with the sandbox's own.
 * Takes CAP_SYS_CHROOT. */
MUST_CHECK int rootfs_cover(const struct rootfs *root, const char **step);

/* The workspace of a sandbox whose processes are over; -1 with errno. The caller owns it. */
MUST_CHECK int rootfs_open_workspace(const struct rootfs *root);
