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
    int storage_fd; /* detached tmpfs that holds all that can be written, with the limits on it; -1:
                     * nothing can be written, and there are no terminals */
    int packages_fd; /* detached, read-only clone of a package layer; -1: none */
};

/* Each fills one fd of *root, which is owned then. `veil_fd` is the image's mount (see veil.h),
 * borrowed. */
MUST_CHECK int rootfs_prepare_image(struct rootfs *root, int veil_fd, struct error *err);
MUST_CHECK int rootfs_prepare_packages(struct rootfs *root, int veil_fd, struct error *err);
MUST_CHECK int rootfs_prepare_storage(struct rootfs *root, uint64_t disk_bytes, uint64_t inodes,
                                      uid_t owner, struct error *err);

/* In the child: attaches everything below the image and makes it "/". Async-signal-safe; on -1
 * errno and *step (a constant text) say what failed. */
MUST_CHECK int rootfs_enter(const struct rootfs *root, const char **step);

/* In a copy of a zygote's mount namespace, whose root is entered already, without storage: mounts
 * what must be the sandbox's own over it. */
MUST_CHECK int rootfs_dress(const struct rootfs *root, const char **step);

/* The workspace of a sandbox whose processes are over; -1 with errno. The caller owns it. */
MUST_CHECK int rootfs_open_workspace(const struct rootfs *root);
