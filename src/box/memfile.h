/* memfile.h - a program as a sealed copy in memory, so that nothing inside can reach the original
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"

/* Copies the file at `path` into a memfd that nobody can change; *out is owned, for execveat(). */
MUST_CHECK int memfile_load(int *out, const char *path, struct error *err);
