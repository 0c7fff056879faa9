/* links.c - what is signed is what stands in the address, decoded */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/links.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "codec/url.h"

#define NS_PER_MS 1000000ll
#define NS_PER_S  1000000000ll
#define METHOD    "GET" /* HEAD is the same without a body */

static struct signature_claim claim_of(const struct links_target *link, const char *expires)
{
    return (struct signature_claim){.method = METHOD,
                                    .session = link->session,
                                    .execution = link->execution,
                                    .path = link->path,
                                    .expires = expires};
}

static bool add(const struct links *links, struct strbuf *out, const struct links_target *link,
                int64_t end_ns, int64_t *expires_ns)
{
    char expires[FORMAT_BYTES], signature[SIGNATURE_TEXT_BYTES];
    if (!links->base || !url_can_carry(link->path))
        return false;
    int64_t end_s = (end_ns + NS_PER_S - 1) / NS_PER_S;
    format_u64((uint64_t)end_s, expires);
    const struct signature_claim claim = claim_of(link, expires);
    signature_make(&links->keys, &claim, signature);
    strbuf_add_fmt(out, "%s" LINKS_PREFIX "%s/", links->base, link->session);
    url_add_path(out, link->path);
    strbuf_add_char(out, '?');
    if (link->execution[0])
        strbuf_add_fmt(out, "exe=%s&", link->execution);
    strbuf_add_fmt(out, "exp=%s&sig=%s", expires, signature);
    *expires_ns = end_s * NS_PER_S;
    return !out->overflow;
}

bool links_add(const struct links *links, struct strbuf *out, const struct links_target *link,
               uint64_t ttl_ms, int64_t now_ns, int64_t *expires_ns)
{
    int64_t end_ns = now_ns + (int64_t)(ttl_ms ? ttl_ms : links->ttl_ms) * NS_PER_MS;
    return add(links, out, link, end_ns, expires_ns);
}

/* A whole number of steps behind the artifact's own time, which code inside may have set to
 * anything: only its place within a step counts. */
static int64_t steady_end(const struct links *links, int64_t modified_ns, int64_t now_ns)
{
    int64_t step = (int64_t)links->ttl_ms * NS_PER_MS / 2;
    int64_t phase = (modified_ns % step + step) % step;
    return ((now_ns + step - phase) / step + 1) * step + phase;
}

json_t *links_json(const struct links *links, const struct links_target *link, int64_t modified_ns)
{
    int64_t expires_ns;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, LINK_MAX_BYTES);
    if (!add(links, &text, link, steady_end(links, modified_ns, clock_wall_ns()), &expires_ns))
        return json_null();
    return json_string(strbuf_str(&text));
}

int links_check_ttl(const struct links *links, uint64_t ttl_ms, struct error *err)
{
    if (ttl_ms <= links->ttl_max_ms)
        return 0;
    error_set(err, ERROR_INVALID, "expires_in: %g s is more than the %g s that are allowed here",
              (double)ttl_ms / 1000, (double)links->ttl_max_ms / 1000);
    return error_hint(err, "ask for less, or have the operator raise link-ttl-max");
}

int links_check(const struct links *links, const struct links_target *link, const char *expires,
                const char *signature, int64_t now_ns, struct error *err)
{
    const struct signature_claim claim = claim_of(link, expires);
    switch (signature_check(&links->keys, &claim, signature, (uint64_t)(now_ns / NS_PER_S))) {
    case SIGNATURE_GOOD:
        return 0;
    case SIGNATURE_EXPIRED:
        error_set(err, ERROR_DENIED, "the address has expired");
        error_hint(err, "ask for the execution or the file again, which gives a new one");
        return error_word(err, "link_expired");
    case SIGNATURE_BAD:
        break;
    }
    error_set(err, ERROR_DENIED, "the signature is not that of this address");
    error_hint(err, "use download_url as it was given, to the last character");
    return error_word(err, "link_invalid");
}
