/* guard.h - who may talk to us through a browser: the rules for Host and Origin
 *
 * A page of any site can make its visitor's browser send requests to this server. Host stops those
 * that come by a name which the site has bound to our address (DNS rebinding), Origin those that
 * come by our own name. Programs send no Origin, and are the business of authentication.
 *
 * Pure: looks at texts, knows no connection. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GUARD_HOST_MAX_BYTES 255

struct guard {
    /* Beside localhost, names below .localhost, 127.0.0.0/8 and [::1], with any port. A row is
     * "name" (any port), "name:port", or "*" (any host: somebody before us checks).
     * NULL-terminated, borrowed; NULL is none. */
    const char *const *hosts;
    /* Beside the origin of the request itself: "https://name" or "https://name:port" as browsers
     * write them. NULL-terminated, borrowed; NULL is none. */
    const char *const *origins;
};

struct guard_question {
    const char *host;       /* value of the one Host header */
    const char *origin;     /* NULL: there was none */
    const char *fetch_site; /* of Sec-Fetch-Site; NULL: there was none */
    bool is_tls;            /* so our own origin begins with https */
    bool is_safe;           /* the method changes nothing (GET, HEAD) */
};

enum guard_answer {
    GUARD_PASS,           /* no Origin, or our own */
    GUARD_PASS_FOREIGN,   /* an Origin that is listed */
    GUARD_BAD_HOST,       /* no host at all by its syntax */
    GUARD_FOREIGN_HOST,   /* not a name of ours */
    GUARD_FOREIGN_ORIGIN, /* another site's page, or no site's ("null") */
};

enum guard_answer guard_check(const struct guard *guard, const struct guard_question *question);
