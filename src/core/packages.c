/* packages.c - from words to a layer's digest */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/packages.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

int packages_make(struct packages *out, const struct packages_source *source,
                  const struct runner *runner, char *const *wanted, size_t count, struct error *err)
{
    struct packages made = {0};
    *out = made;
    if (count == 0)
        return 0;
    if (runner_find_installer(&made.installer, runner, source->recipes_dir, err) < 0)
        return -1;
    enum runner_index index = made.installer.index;
    if (requirement_set_make(&made.set, index, wanted, count, err) < 0) {
        packages_release(&made);
        return -1;
    }
    const char *address = source->addresses[index];
    made.language = xstrdup(runner->language);
    memcpy(made.image, runner->digest, sizeof(made.image));
    requirement_set_digest(&made.set, made.image, index, address ? address : "", made.digest);
    *out = made;
    return 0;
}

void packages_release(struct packages *packages)
{
    requirement_set_release(&packages->set);
    runner_installer_release(&packages->installer);
    free(packages->language);
    *packages = (struct packages){0};
}
