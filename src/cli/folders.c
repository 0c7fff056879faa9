/* folders.c - mkdir -p */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/folders.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"

int folders_make(const char *path, mode_t mode, struct error *err)
{
    scoped_free char *part = xstrdup(path);
    for (char *at = part; at;) {
        at = strchr(at + 1, '/');
        if (at)
            *at = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return error_sys(err, "make '%s'", part);
        if (at)
            *at = '/';
    }
    return 0;
}
