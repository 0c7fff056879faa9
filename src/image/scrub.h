/* scrub.h - makes any unpacked root fit to be an image
 *
 * Afterwards: no devices, pipes, sockets, set-id bits or extended attributes (file capabilities);
 * everything readable by all, writable by none but its owner (root, when root does it); empty
 * folders where a sandbox mounts things; nothing in /dev, /proc, /tmp, no /sys and no /run. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"

/* `root_fd` is borrowed, and nobody else may change the tree meanwhile. */
MUST_CHECK int scrub_root(int root_fd, struct error *err);
