/* credential.c - see credential.h */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/credential.h"

#include <string.h>
#include <strings.h>

#define SCHEME   "Bearer"
#define PROTOCOL "bearer."

bool credential_is_secret(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    }
    return len > 0 && len <= CREDENTIAL_MAX_BYTES;
}

/* How many of the protocols are secrets; *out is the first. */
static size_t find_protocols(const char *list, struct credential *out)
{
    size_t count = 0;
    for (const char *at = list ? list : ""; *at; at += *at == ',') {
        at += strspn(at, " \t");
        size_t len = strcspn(at, ", \t");
        if (strncmp(at, PROTOCOL, strlen(PROTOCOL)) == 0 && count++ == 0)
            *out = (struct credential){at + strlen(PROTOCOL), len - strlen(PROTOCOL)};
        at += strcspn(at, ",");
    }
    return count;
}

/* False: it is of another kind. */
static bool find_bearer(const char *authorization, struct credential *out)
{
    size_t len = strcspn(authorization, " ");
    if (len != strlen(SCHEME) || strncasecmp(authorization, SCHEME, len) != 0)
        return false;
    const char *text = authorization + len;
    text += strspn(text, " ");
    *out = (struct credential){text, strlen(text)};
    return true;
}

enum credential_answer credential_find(const char *authorization, const char *api_key,
                                       const char *protocols, struct credential *out)
{
    struct credential c = {0};
    size_t shown = find_protocols(protocols, &c) + !!authorization + !!api_key;
    if (shown == 0)
        return CREDENTIAL_NONE;
    if (shown > 1)
        return CREDENTIAL_TWICE;
    if (authorization && !find_bearer(authorization, &c))
        return CREDENTIAL_SCHEME;
    if (api_key)
        c = (struct credential){api_key, strlen(api_key)};
    if (!credential_is_secret(c.text, c.len))
        return CREDENTIAL_MALFORMED;
    *out = c;
    return CREDENTIAL_FOUND;
}
