/* address.h - where a server listens, and how that is written
 *
 *   127.0.0.1:8080   [::1]:8080   localhost:8080   at this address
 *   8080                                           on this machine only
 *   :8080   *:8080                                 at every address
 *   unix:/run/cove.sock                            a socket in the file system
 *
 * Pure: names other than localhost are not looked up. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define ADDRESS_HOST_BYTES 46  /* a numeric address, version 6 or 4 */
#define ADDRESS_PATH_BYTES 108 /* what a unix socket can have */

struct strbuf;

/* Plain data. */
struct address {
    char host[ADDRESS_HOST_BYTES]; /* numeric; "": a unix socket */
    uint16_t port;                 /* 0: any */
    char path[ADDRESS_PATH_BYTES];
    bool is_loopback; /* nobody outside of this machine can reach it */
    bool is_any;      /* every address of the machine */
};

MUST_CHECK int address_parse(struct address *out, const char *text, struct error *err);

/* "http://127.0.0.1:8080", "https://[::1]:8443", "unix:/run/cove.sock". Every address is told as
 * the one by which this machine reaches itself. */
void address_add_url(const struct address *address, bool is_tls, struct strbuf *out);

/* "https://name" or "https://name:port", nothing behind it: an origin as browsers write it. */
bool address_is_origin(const char *text);
