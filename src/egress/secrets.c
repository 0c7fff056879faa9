/* secrets.c - looking for placeholders in heads, and for values in answers */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/secrets.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "codec/base64.h"
#include "http/framing.h"

#define COVERED_MIN_BYTES 8 /* shorter ones stand in every text */
#define BASIC             "basic"
#define BASIC_MAX_BYTES   FRAMING_HEAD_MAX_BYTES
#define FILLED_MAX_BYTES  (4 * FRAMING_HEAD_MAX_BYTES)

/* --- what there is -----------------------------------------------------------------------------
 */

void secrets_release(struct secrets *s)
{
    for (size_t i = 0; i < s->count; i++) {
        policy_release(&s->items[i]->secure);
        policy_release(&s->items[i]->plain);
        OPENSSL_clear_free(s->items[i], sizeof(*s->items[i]));
    }
    *s = (struct secrets){0};
}

static bool is_placeholder(const char *text)
{
    size_t prefix = sizeof(EGRESS_PLACEHOLDER) - 1;
    if (memcmp(text, EGRESS_PLACEHOLDER, prefix) != 0)
        return false;
    for (size_t i = prefix; i < EGRESS_PLACEHOLDER_LEN; i++) {
        if (!isxdigit((unsigned char)text[i]) || isupper((unsigned char)text[i]))
            return false;
    }
    return true;
}

static bool is_value(const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f)
            return false;
    }
    return len > 0;
}

bool secrets_add(struct secrets *s, const struct egress_secret *secret)
{
    if (s->count == EGRESS_SECRETS_MAX || !is_placeholder(secret->placeholder) ||
        secret->len > sizeof(secret->value) || !is_value(secret->value, secret->len))
        return false;
    struct secret *copy = OPENSSL_zalloc(sizeof(*copy));
    BUG_ON(!copy); /* out of memory */
    copy->text = *secret;
    s->items[s->count++] = copy;
    return true;
}

bool secrets_add_host(struct secrets *s, const struct egress_rule *host)
{
    if (s->count == 0 || host->flags & EGRESS_PRIVATE || !host->port)
        return false;
    struct secret *last = s->items[s->count - 1];
    struct egress_rule rule = *host;
    rule.flags &= ~(uint32_t)EGRESS_PLAIN;
    return last->secure.count + last->plain.count < EGRESS_SECRET_HOSTS_MAX &&
           policy_add(host->flags & EGRESS_PLAIN ? &last->plain : &last->secure, &rule);
}

void secrets_choose(struct secrets_view *out, const struct secrets *s, const struct authority *to,
                    bool is_secure)
{
    bool ignored;
    out->count = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct secret *one = s->items[i];
        if (policy_ask(is_secure ? &one->secure : &one->plain, to, &ignored) == POLICY_ALLOWED)
            out->items[out->count++] = one;
    }
}

/* --- the way there -----------------------------------------------------------------------------
 */

static const struct secret *find(const struct secrets_view *view, const char *at, size_t len)
{
    for (size_t i = 0; len >= EGRESS_PLACEHOLDER_LEN && i < view->count; i++) {
        if (memcmp(at, view->items[i]->text.placeholder, EGRESS_PLACEHOLDER_LEN) == 0)
            return view->items[i];
    }
    return NULL;
}

/* What is filled in is not looked at again: a value may be anything, another placeholder too. */
static bool fill_text(const struct secrets_view *view, const char *text, size_t len,
                      struct strbuf *out)
{
    bool has_any = false;
    for (size_t at = 0; at < len;) {
        const char *next =
            memmem(text + at, len - at, EGRESS_PLACEHOLDER, sizeof(EGRESS_PLACEHOLDER) - 1);
        size_t skip = next ? (size_t)(next - text) - at : len - at;
        strbuf_add(out, text + at, skip);
        at += skip;
        const struct secret *secret = next ? find(view, next, len - at) : NULL;
        if (secret) {
            strbuf_add(out, secret->text.value, secret->text.len);
            at += EGRESS_PLACEHOLDER_LEN;
            has_any = true;
        } else if (next) {
            strbuf_add_char(out, text[at++]);
        }
    }
    return has_any;
}

/* Decoded, filled in and encoded again. False, with nothing added: there is none in it. */
static bool fill_basic(const struct secrets_view *view, const char *value, struct strbuf *out)
{
    uint8_t decoded[BASE64_DECODED_MAX_LEN(BASIC_MAX_BYTES)];
    size_t scheme = strlen(BASIC), len;
    scoped_strbuf struct strbuf filled;
    strbuf_init(&filled, FILLED_MAX_BYTES);
    if (strncasecmp(value, BASIC, scheme) != 0 || value[scheme] != ' ')
        return false;
    const char *text = value + scheme + strspn(value + scheme, " ");
    if (strlen(text) > BASIC_MAX_BYTES || !base64_decode(text, strlen(text), decoded, &len))
        return false;
    bool has_any = fill_text(view, (const char *)decoded, len, &filled);
    if (has_any && filled.overflow)
        out->overflow = true; /* as if it had been added */
    if (has_any) {
        strbuf_add(out, value, scheme);
        strbuf_add_char(out, ' ');
        base64_add(out, strbuf_str(&filled), filled.len);
    }
    if (filled.data)
        OPENSSL_cleanse(filled.data, filled.len);
    return has_any;
}

bool secrets_fill(const struct secrets_view *view, const char *name, const char *value,
                  struct strbuf *out)
{
    if (view->count > 0 && strcmp(name, "authorization") == 0 && fill_basic(view, value, out))
        return true;
    return fill_text(view, value, strlen(value), out);
}

/* --- the way back ------------------------------------------------------------------------------
 */

/* How many bytes at the end are the beginning of a value, and not all of it. */
static size_t count_begun(const struct secrets_view *view, const char *data, size_t len)
{
    size_t longest = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct egress_secret *secret = &view->items[i]->text;
        size_t n = secret->len < COVERED_MIN_BYTES ? 0 : MIN(len, (size_t)secret->len - 1);
        while (n > longest && memcmp(data + len - n, secret->value, n) != 0)
            n--;
        longest = MAX(longest, n);
    }
    return longest;
}

/* The length of the longest value that stands here; 0: none. */
static size_t match(const struct secrets_view *view, const char *at, size_t len)
{
    size_t longest = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct egress_secret *secret = &view->items[i]->text;
        if (secret->len >= COVERED_MIN_BYTES && secret->len <= len && *at == secret->value[0] &&
            memcmp(at, secret->value, secret->len) == 0)
            longest = MAX(longest, (size_t)secret->len);
    }
    return longest;
}

/* Values may overlap: each byte is looked at before it is covered. */
size_t secrets_cover(const struct secrets_view *view, char *data, size_t len, bool is_last,
                     size_t *covered)
{
    size_t until = *covered, done = is_last ? len : len - count_begun(view, data, len);
    for (size_t i = 0; view->count > 0 && i < done; i++) {
        until = MAX(until, i + match(view, data + i, len - i));
        if (i < until)
            data[i] = '*';
    }
    *covered = until > done ? until - done : 0;
    return done;
}
