/* beneath.h - paths of a host's, resolved strictly below a directory and through no link
 *
 * Every step is relative to an fd that is held, so a tenant who renames or swaps what is on the way
 * can make it fail, and cannot lead it elsewhere. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The fd, or -1. "" is the directory itself. What would make the opener wait does not. */
int beneath_open(int root, const char *path, int flags, mode_t mode);

/* The directory in which `path` is or will be, to be used with the *name that is left; or -1.
 * `makes`: directories that are not there are made. */
int beneath_open_parent(int root, const char *path, bool makes, const char **name);

/* The directory of that path, made with all above it; or -1. */
int beneath_make(int root, const char *path);
