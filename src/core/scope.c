/* scope.c - see scope.h */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/scope.h"

#include <stdio.h>
#include <string.h>

static const struct scope_info infos[SCOPE_COUNT] = {
#define X(name, word, help) [SCOPE_INDEX_##name] = {word, help},
    SCOPES(X)
#undef X
};

const struct scope_info *scope_info(enum scope_index index)
{
    return &infos[index];
}

unsigned scope_find(const char *word, size_t len)
{
    for (size_t i = 0; i < SCOPE_COUNT; i++) {
        if (strlen(infos[i].word) == len && memcmp(infos[i].word, word, len) == 0)
            return 1u << i;
    }
    return 0;
}

bool scope_parse(const char *text, unsigned *out)
{
    unsigned scopes = 0;
    bool has_more = text[0] != '\0';
    while (has_more) {
        size_t len = strcspn(text, ",");
        unsigned one = scope_find(text, len);
        if (one == 0 || (scopes & one))
            return false;
        scopes |= one;
        has_more = text[len] == ',';
        text += len + has_more;
    }
    *out = scopes;
    return true;
}

void scope_format(unsigned scopes, char out[SCOPE_TEXT_BYTES])
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < SCOPE_COUNT; i++) {
        if (scopes & 1u << i)
            len += (size_t)snprintf(out + len, SCOPE_TEXT_BYTES - len, "%s%s", len ? "," : "",
                                    infos[i].word);
    }
}

bool scope_allows(unsigned held, unsigned needed)
{
    if (held & SCOPE_ADMIN)
        held |= ((1u << SCOPE_COUNT) - 1) & ~(unsigned)SCOPE_INTERNAL;
    return (needed & ~held) == 0;
}

bool scope_may_grant(unsigned held, unsigned wanted)
{
    return scope_allows(held, SCOPE_KEYS_ADMIN | wanted) && !(wanted & SCOPE_INTERNAL);
}
