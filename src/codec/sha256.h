/* sha256.h - SHA-256 of bytes that come in pieces */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/scoped.h"

#define SHA256_BYTES     32
#define SHA256_HEX_BYTES (2 * SHA256_BYTES + 1)

struct sha256; /* opaque; one may be used for many hashes, one after the other */

struct sha256 *sha256_new(void); /* owned by the caller, ready for sha256_add() */
void sha256_free(struct sha256 *hash);
SCOPED_DEFINE(sha256)

void sha256_add(struct sha256 *hash, const void *data, size_t len);
void sha256_end(struct sha256 *hash, uint8_t out[SHA256_BYTES]); /* and begins anew */
