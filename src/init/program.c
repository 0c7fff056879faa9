/* program.c - strings to argv and environment, in place
 *
 * The host is believed to mean well, not to count well: nothing is read past the strings' end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "init/program.h"

#include <stddef.h>
#include <string.h>

static char *next_string(char **at, const char *end)
{
    char *text = *at;
    char *nul = text < end ? memchr(text, '\0', (size_t)(end - text)) : NULL;
    if (!nul)
        return NULL;
    *at = nul + 1;
    return text;
}

static bool take_list(char **at, const char *end, uint32_t count, char **list)
{
    for (uint32_t i = 0; i < count; i++) {
        list[i] = next_string(at, end);
        if (!list[i])
            return false;
    }
    list[count] = NULL;
    return true;
}

bool program_parse(struct program *p, const struct guest_message *m, char *strings)
{
    char *at = strings;
    const char *end = strings + m->strings_len;
    if (m->argc == 0 || m->argc > GUEST_ARGS_MAX || m->envc > GUEST_ARGS_MAX)
        return false;
    p->directory = next_string(&at, end);
    return p->directory && take_list(&at, end, m->argc, p->argv) &&
           take_list(&at, end, m->envc, p->envp) && at == end;
}
