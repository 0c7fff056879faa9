/* module.h - which modules and packages of python an image brings along */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "image/runner.h"

/* Whether `name` ("numpy", "matplotlib.pyplot") is where Debian, Docker's python images or pip put
 * packages. An image that cannot be looked into has none. */
bool module_is_in(const struct runner *runner, const char *name);

/* The same in a tree; the fd is borrowed. */
bool module_is_below(int root_fd, const char *name);

#define MODULE_PACKAGES_MAX  500
#define MODULE_PACKAGE_BYTES 64

/* As an installer has written it: "python_dateutil", "2.8.2". */
struct module_package {
    char name[MODULE_PACKAGE_BYTES], version[MODULE_PACKAGE_BYTES];
};

/* Sorted by name, none twice. */
struct module_packages {
    struct module_package *items;
    size_t count;
};

/* What is installed in the runner's image, in the same places; none, when it is not python's. */
void module_list(const struct runner *runner, struct module_packages *out);
void module_list_below(int root_fd, struct module_packages *out);
void module_packages_release(struct module_packages *packages); /* a zeroed one is fine */

#define scoped_packages __attribute__((cleanup(module_packages_release)))
