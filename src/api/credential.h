/* credential.h - the secret that a request shows: found in its headers, not judged
 *
 *   Authorization: Bearer SECRET      or      X-API-Key: SECRET
 *
 * or, where a browser opens a WebSocket and can set no other header, beside the protocol it wants
 *
 *   Sec-WebSocket-Protocol: cove.terminal, bearer.SECRET
 *
 * Pure: looks at texts, knows no keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define CREDENTIAL_MAX_BYTES 512

enum credential_answer {
    CREDENTIAL_FOUND,
    CREDENTIAL_NONE,      /* none of the headers is there */
    CREDENTIAL_SCHEME,    /* Authorization by something else than Bearer */
    CREDENTIAL_MALFORMED, /* empty, too long, or with characters that no secret has */
    CREDENTIAL_TWICE,     /* more than one, which may differ: nobody is to guess which one counts */
};

struct credential {
    const char *text; /* borrowed from the header; not NUL-terminated */
    size_t len;
};

/* Any header may be NULL; `protocols` is that of a request to upgrade. *out is filled when it is
 * found, and untouched otherwise. */
enum credential_answer credential_find(const char *authorization, const char *api_key,
                                       const char *protocols, struct credential *out);

/* Whether it can be shown at all: 1 to CREDENTIAL_MAX_BYTES visible characters of ASCII. */
bool credential_is_secret(const char *text, size_t len);
