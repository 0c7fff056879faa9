/* module.h - which modules of python an image brings along */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "image/runner.h"

/* Whether `name` ("numpy", "matplotlib.pyplot") is where Debian, Docker's python images or pip put
 * packages. An image that cannot be looked into has none. */
bool module_is_in(const struct runner *runner, const char *name);

/* The same in a tree; the fd is borrowed. */
bool module_is_below(int root_fd, const char *name);
