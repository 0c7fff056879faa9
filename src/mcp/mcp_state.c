/* mcp_state.c - base64 of the state and its end, a dot, the HMAC in hex */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_state.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "codec/base64.h"
#include "codec/sha256.h"

#define PURPOSE "cove-mcp-state-1"

void mcp_state_draw_key(struct mcp_state_key *out)
{
    BUG_ON(getrandom(out->bytes, sizeof(out->bytes), 0) != sizeof(out->bytes));
}

/* Each field with its length before it, so that no two claims have the same bytes. */
static void add_field(struct strbuf *out, const char *text, size_t len)
{
    strbuf_add_fmt(out, "%zu:", len);
    strbuf_add(out, text, len);
}

static void sign(const struct mcp_state_key *key, const struct mcp_state_claim *claim,
                 const char *body, size_t len, char out[SHA256_HEX_BYTES])
{
    uint8_t mac[SHA256_BYTES];
    unsigned mac_len = 0;
    const char *const fields[] = {PURPOSE, claim->owner, claim->method, claim->name};
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 4 * MCP_STATE_MAX_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        add_field(&text, fields[i], strlen(fields[i]));
    add_field(&text, body, len);
    BUG_ON(text.overflow);
    BUG_ON(!HMAC(EVP_sha256(), key->bytes, sizeof(key->bytes), (const uint8_t *)text.data, text.len,
                 mac, &mac_len));
    format_hex(mac, sizeof(mac), out);
}

char *mcp_state_seal(const struct mcp_state_key *key, const struct mcp_state_claim *claim,
                     const json_t *state, int64_t now_s)
{
    char mac[SHA256_HEX_BYTES];
    scoped_strbuf struct strbuf plain, out;
    strbuf_init(&plain, MCP_STATE_MAX_BYTES / 2);
    strbuf_init(&out, MCP_STATE_MAX_BYTES);
    scoped_json json_t *whole =
        json_pack("{s:I, s:O}", "until", (json_int_t)now_s + MCP_STATE_TTL_S, "state", state);
    json_add(&plain, whole, JSON_STYLE_COMPACT);
    if (plain.overflow)
        return NULL;
    base64_add(&out, plain.data, plain.len);
    sign(key, claim, strbuf_str(&out), out.len, mac);
    strbuf_add_char(&out, '.');
    strbuf_add_str(&out, mac);
    return strbuf_take(&out);
}

json_t *mcp_state_open(const struct mcp_state_key *key, const struct mcp_state_claim *claim,
                       const char *text, int64_t now_s)
{
    struct error err;
    char mac[SHA256_HEX_BYTES];
    const char *dot = strchr(text, '.');
    size_t len = dot ? (size_t)(dot - text) : 0, plain_len;
    if (!dot || strlen(text) > MCP_STATE_MAX_BYTES || strlen(dot + 1) != SHA256_HEX_BYTES - 1)
        return NULL;
    sign(key, claim, text, len, mac);
    if (CRYPTO_memcmp(mac, dot + 1, SHA256_HEX_BYTES - 1) != 0)
        return NULL;
    scoped_free uint8_t *plain = xmalloc(BASE64_DECODED_MAX_LEN(len) + 1);
    scoped_json json_t *whole = NULL;
    const struct json_limits limits = {.max_bytes = MCP_STATE_MAX_BYTES};
    if (!base64_decode(text, len, plain, &plain_len) ||
        json_parse(&whole, (char *)plain, plain_len, &limits, &err) < 0 ||
        json_integer_value(json_object_get(whole, "until")) < now_s)
        return NULL;
    return json_incref(json_object_get(whole, "state"));
}
