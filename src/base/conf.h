/* conf.h - reads "key = value" files with [sections] and # comments */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"

#define CONF_FILE_MAX_BYTES (64 * KIB)

/* Called per entry, in order. `section` is "" before the first [section]. All text is borrowed for
 * the call. Answers 0, or -1 with *err filled, which ends the reading. */
typedef int (*conf_entry_fn)(void *ctx, const char *section, const char *key, const char *value,
                             struct error *err);

/* Reads `name` below the directory `dir_fd` (or AT_FDCWD). Errors name file and line. A missing
 * file is ERROR_NOT_FOUND. */
MUST_CHECK int conf_read(int dir_fd, const char *name, conf_entry_fn entry, void *ctx,
                         struct error *err);

/* The same on text that is in memory; `text` is changed. */
MUST_CHECK int conf_parse(const char *name, char *text, conf_entry_fn entry, void *ctx,
                          struct error *err);
