/* sha256.c - on OpenSSL's SHA256_*, which pick the CPU's own instructions
 *
 * Not on EVP: that drags in all of libcrypto, whose relocations took 0.9 ms of every start of
 * `cove run`. These three functions are linked from the static library, 30 KB without set-up. */
/* SPDX-License-Identifier: Apache-2.0 */
#define OPENSSL_SUPPRESS_DEPRECATED /* deprecated in favour of EVP, see above */
#include "codec/sha256.h"

#include <openssl/sha.h>

#include "base/macros.h"
#include "base/memory.h"

_Static_assert(SHA256_BYTES == SHA256_DIGEST_LENGTH, "one SHA-256");

struct sha256 {
    SHA256_CTX ctx;
};

struct sha256 *sha256_new(void)
{
    struct sha256 *hash = xcalloc(1, sizeof(*hash));
    BUG_ON(SHA256_Init(&hash->ctx) != 1);
    return hash;
}

void sha256_free(struct sha256 *hash)
{
    free(hash);
}

void sha256_add(struct sha256 *hash, const void *data, size_t len)
{
    BUG_ON(SHA256_Update(&hash->ctx, data, len) != 1);
}

void sha256_end(struct sha256 *hash, uint8_t out[SHA256_BYTES])
{
    BUG_ON(SHA256_Final(out, &hash->ctx) != 1);
    BUG_ON(SHA256_Init(&hash->ctx) != 1);
}
