/* signature.h - addresses of files that work without a token, for a while
 *
 * HMAC-SHA256 over a version, the method, the session, the execution, the path and the expiry. Each
 * of them goes in with its length before it, so no two claims have the same bytes. Two secrets are
 * good at a time, so that one can be replaced while what was signed with the other still works. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#define SIGNATURE_TEXT_BYTES 65 /* hex digits and a NUL */

struct signature_keys {
    const char *secret;
    const char *previous; /* still good, and signs nothing new; NULL: none */
};

/* Borrowed texts, as they stand in the address; none is NULL. */
struct signature_claim {
    const char *method;
    const char *session;   /* or an execution that was in none */
    const char *execution; /* "": the file as it is now, not as an execution left it */
    const char *path;      /* decoded, relative to the workspace */
    const char *expires;   /* seconds since the epoch, in decimal */
};

void signature_make(const struct signature_keys *keys, const struct signature_claim *claim,
                    char out[SIGNATURE_TEXT_BYTES]);

enum signature_verdict {
    SIGNATURE_GOOD,
    SIGNATURE_BAD,     /* not ours, or something in it was changed */
    SIGNATURE_EXPIRED, /* it was good until then */
};

/* Takes as long for every wrong text. The expiry is looked at only in what we have signed. */
enum signature_verdict signature_check(const struct signature_keys *keys,
                                       const struct signature_claim *claim, const char *text,
                                       uint64_t now_s);
