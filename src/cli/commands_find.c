/* commands_find.c - a command by its name, or the name that may have been meant */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <string.h>

#include "base/nearest.h"
#include "cli/cli.h"

const struct command *commands_find(const struct command *const *table, const char *name,
                                    struct error *err)
{
    struct nearest nearest = {.word = name};
    for (size_t i = 0; table && table[i]; i++) {
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
        if (!table[i]->is_hidden)
            nearest_offer(&nearest, table[i]->name);
    }
    error_set(err, ERROR_INVALID, "unknown command '%.80s'", name);
    if (nearest.best)
        error_hint(err, "did you mean '%s'?", nearest.best);
    else
        error_hint(err, "`cove help` lists the commands");
    return NULL;
}
