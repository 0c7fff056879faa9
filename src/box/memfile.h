/* memfile.h - a program as a sealed copy in memory, so that nothing inside can reach the original
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* Copies the file `name` of `dir_fd` (or AT_FDCWD) into a memfd that nobody can change; *out is
 * owned. With `mode` 0111 it can be executed but not read, and the kernel keeps everybody inside
 * from looking into a process that runs it, from its first moment on. */
MUST_CHECK int memfile_load(int *out, int dir_fd, const char *name, mode_t mode, struct error *err);
