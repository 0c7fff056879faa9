/* folders.h - a path of folders, as far as they are missing */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/stat.h>

#include "base/error.h"

MUST_CHECK int folders_make(const char *path, mode_t mode, struct error *err);
