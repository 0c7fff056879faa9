/* links.h - addresses of files that work without a token: /files/{session}/{path}?exe=&exp=&sig= */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "codec/json.h"
#include "codec/signature.h"

struct strbuf;

#define LINKS_PREFIX   "/files/"
#define LINK_MAX_BYTES (16 * 1024)

/* Plain data; all text is borrowed. */
struct links {
    struct signature_keys keys;
    const char *base; /* http[s]://NAME[:PORT]; NULL: not known yet, so there are no addresses */
    uint64_t ttl_ms, ttl_max_ms;
};

struct links_target {
    const char *session;   /* or an execution that was in none */
    const char *execution; /* "": the file as it is now */
    const char *path;
};

/* Adds the address, which works for `ttl_ms` (0: as long as usual) from `now_ns` (wall clock) on,
 * and tells when it ends. False: an address cannot carry such a path (a control character, bytes
 * that are not UTF-8), or there are none. */
bool links_add(const struct links *links, struct strbuf *out, const struct links_target *link,
               uint64_t ttl_ms, int64_t now_ns, int64_t *expires_ns);

/* The same as JSON, a string or null, for the artifact that has this time: it works for more than
 * half of the usual time, and is the same whenever it is told within such a half. */
json_t *links_json(const struct links *links, const struct links_target *link, int64_t modified_ns);

/* How long somebody may ask for: ERROR_INVALID beyond the ceiling. */
MUST_CHECK int links_check_ttl(const struct links *links, uint64_t ttl_ms, struct error *err);

/* Whether an address is one of ours; ERROR_DENIED with "link_invalid" or "link_expired". */
MUST_CHECK int links_check(const struct links *links, const struct links_target *link,
                           const char *expires, const char *signature, int64_t now_ns,
                           struct error *err);
