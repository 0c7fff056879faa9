/* out_dir.h - writes a run's artifacts below one directory of the host
 *
 * The names come from a sandbox, so nothing is followed: every path resolves strictly below the
 * directory, without links, and a file appears whole or not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct out_dir;

/* Opens the directory, made when it is missing. */
MUST_CHECK int out_dir_open(struct out_dir **out, const char *path, struct error *err);
void out_dir_free(struct out_dir *dir); /* NULL is fine; an unfinished file vanishes */

/* One file: begin, data in pieces, end. A failure is remembered and the file left out. */
void out_dir_begin(struct out_dir *dir, const char *path, uint32_t mode);
void out_dir_data(struct out_dir *dir, const void *data, size_t len);
void out_dir_end(struct out_dir *dir);

/* -1 with the first failure, if there was one. */
MUST_CHECK int out_dir_failure(const struct out_dir *dir, struct error *err);
