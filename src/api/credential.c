/* credential.c - see credential.h */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/credential.h"

#include <string.h>
#include <strings.h>

#define SCHEME "Bearer"

bool credential_is_secret(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] < ' ' || text[i] > '~')
            return false;
    }
    return len > 0 && len <= CREDENTIAL_MAX_BYTES && text[0] != ' ' && text[len - 1] != ' ';
}

enum credential_answer credential_find(const char *authorization, const char *api_key,
                                       struct credential *out)
{
    const char *text = api_key;
    if (authorization && api_key)
        return CREDENTIAL_TWICE;
    if (!authorization && !api_key)
        return CREDENTIAL_NONE;
    if (authorization) {
        size_t len = strcspn(authorization, " ");
        if (len != strlen(SCHEME) || strncasecmp(authorization, SCHEME, len) != 0)
            return CREDENTIAL_SCHEME;
        text = authorization + len;
        text += strspn(text, " ");
    }
    if (!credential_is_secret(text, strlen(text)))
        return CREDENTIAL_MALFORMED;
    *out = (struct credential){text, strlen(text)};
    return CREDENTIAL_FOUND;
}
