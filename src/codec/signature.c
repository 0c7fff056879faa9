/* signature.c - on OpenSSL's HMAC and its comparison in constant time */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/signature.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "codec/sha256.h"

/* What an earlier version signed, and what this one signs for other purposes, is never the same. */
#define VERSION "cove-file-1"

#define MESSAGE_MAX_BYTES (64 * KIB)

_Static_assert(SIGNATURE_TEXT_BYTES == SHA256_HEX_BYTES, "hex of one HMAC-SHA256");

static void add_field(struct strbuf *out, const char *text)
{
    uint64_t len = strlen(text);
    uint8_t prefix[8];
    for (size_t i = 0; i < sizeof(prefix); i++)
        prefix[i] = (uint8_t)(len >> (56 - 8 * i));
    strbuf_add(out, prefix, sizeof(prefix));
    strbuf_add(out, text, len);
}

/* False: longer than anything that we sign. */
static bool add_message(struct strbuf *out, const struct signature_claim *claim)
{
    const char *const fields[] = {VERSION,          claim->method, claim->session,
                                  claim->execution, claim->path,   claim->expires};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        add_field(out, fields[i]);
    return !out->overflow;
}

static void sign(const char *secret, const struct strbuf *message, char out[SIGNATURE_TEXT_BYTES])
{
    uint8_t mac[SHA256_BYTES];
    unsigned len = 0;
    BUG_ON(!HMAC(EVP_sha256(), secret, (int)strlen(secret), (const uint8_t *)message->data,
                 message->len, mac, &len));
    BUG_ON(len != SHA256_BYTES);
    format_hex(mac, SHA256_BYTES, out);
}

void signature_make(const struct signature_keys *keys, const struct signature_claim *claim,
                    char out[SIGNATURE_TEXT_BYTES])
{
    scoped_strbuf struct strbuf message;
    strbuf_init(&message, MESSAGE_MAX_BYTES);
    BUG_ON(!add_message(&message, claim));
    sign(keys->secret, &message, out);
}

enum signature_verdict signature_check(const struct signature_keys *keys,
                                       const struct signature_claim *claim, const char *text,
                                       uint64_t now_s)
{
    /* With one secret it is tried twice, so that time does not tell how many there are. */
    const char *const secrets[] = {keys->secret, keys->previous ? keys->previous : keys->secret};
    char want[SIGNATURE_TEXT_BYTES];
    int is_good = 0;
    uint64_t expires_s;
    scoped_strbuf struct strbuf message;
    strbuf_init(&message, MESSAGE_MAX_BYTES);
    if (strlen(text) != SIGNATURE_TEXT_BYTES - 1 || !add_message(&message, claim))
        return SIGNATURE_BAD;
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
        sign(secrets[i], &message, want);
        is_good |= CRYPTO_memcmp(want, text, sizeof(want) - 1) == 0;
    }
    if (!is_good || !parse_u64(claim->expires, &expires_s))
        return SIGNATURE_BAD;
    return now_s < expires_s ? SIGNATURE_GOOD : SIGNATURE_EXPIRED;
}
