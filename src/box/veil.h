/* veil.h - an image as a mount that tells nothing about the host
 *
 * A bind mount shows its source path to whoever reads /proc/self/mountinfo inside. An overlay of
 * the image's tree and an empty directory shows the names that were given to it, which are ours. It
 * is made once per image and cloned for each sandbox, so it costs nothing later. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"

/* Prepares the place for veils in this mount namespace, which must be the caller's own: covers
 * /tmp. Call once. */
MUST_CHECK int veil_prepare(struct error *err);

/* An image comes with the places at which a package layer is found; see veil_prepare(). */
enum veil_kind { VEIL_IMAGE, VEIL_LAYER };

/* A read-only, nosuid, nodev mount of the tree behind `tree_fd`; where the kernel has no overlay
 * for us, a plain clone. *out is owned, and can be cloned with open_tree(). */
MUST_CHECK int veil_new(int *out, enum veil_kind kind, int tree_fd, struct error *err);

/* Lets go of it: sandboxes that have a clone keep theirs. */
void veil_free(int fd);
