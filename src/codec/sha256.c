/* sha256.c - on OpenSSL's EVP, which picks the CPU's own instructions
 *
 * The algorithm is in OpenSSL's built-in provider and cannot be missing, and feeding it cannot
 * fail; so a refusal is a broken promise and no error for callers to handle. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/sha256.h"

#include <openssl/evp.h>

#include "base/macros.h"
#include "base/memory.h"

struct sha256 {
    EVP_MD_CTX *ctx;
};

static void begin(struct sha256 *hash)
{
    BUG_ON(EVP_DigestInit_ex(hash->ctx, EVP_sha256(), NULL) != 1);
}

struct sha256 *sha256_new(void)
{
    struct sha256 *hash = xcalloc(1, sizeof(*hash));
    hash->ctx = EVP_MD_CTX_new();
    BUG_ON(!hash->ctx);
    begin(hash);
    return hash;
}

void sha256_free(struct sha256 *hash)
{
    if (!hash)
        return;
    EVP_MD_CTX_free(hash->ctx);
    free(hash);
}

void sha256_add(struct sha256 *hash, const void *data, size_t len)
{
    BUG_ON(EVP_DigestUpdate(hash->ctx, data, len) != 1);
}

void sha256_end(struct sha256 *hash, uint8_t out[SHA256_BYTES])
{
    unsigned len = 0;
    BUG_ON(EVP_DigestFinal_ex(hash->ctx, out, &len) != 1 || len != SHA256_BYTES);
    begin(hash);
}
