/* veil.h - an image as mounts that tell nothing about the host, one for each sandbox
 *
 * A bind mount shows its source path to whoever reads /proc/self/mountinfo inside. An overlay of
 * the image's tree and an empty directory shows the names that were given to it, which are ours.
 *
 * Locks and the marks of inotify sit on inodes, and an overlay has inodes of its own. So each
 * sandbox gets an overlay that nobody else has: what it locks and watches is its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* Prepares the place for veils in this mount namespace, which must be the caller's own: covers
 * /tmp. Call once. */
MUST_CHECK int veil_prepare(struct error *err);

/* Whether the kernel knows what an overlay is. */
bool veil_is_known(void);

/* An image comes with the places at which a package layer is found; see veil_prepare(). */
enum veil_kind { VEIL_IMAGE, VEIL_LAYER };

/* A tree of which there may be many mounts. */
struct veil {
    enum veil_kind kind;
    int dir_fd; /* a directory of our own, in which the tree is mounted; -1: none */
};

/* `tree_fd` is borrowed. On success *out is owned, and ended with veil_close(). */
MUST_CHECK int veil_open(struct veil *out, enum veil_kind kind, int tree_fd, struct error *err);

/* A new read-only, nosuid, nodev mount of it, detached; owned by the caller. Changes the working
 * directory. Where the kernel has no overlay for us it is a plain clone, and shares its inodes with
 * all others of the tree. */
MUST_CHECK int veil_mount(const struct veil *veil, int *out, struct error *err);

/* Lets go of it: what was mounted stays. One that was never opened is fine. */
void veil_close(struct veil *veil);
