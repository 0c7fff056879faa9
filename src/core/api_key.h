/* api_key.h - the secrets that clients show: made, recognised, compared; kept only as a hash
 *
 *   cove_ 26 letters _ 52 letters
 *
 * The first part is public: with key_ before it, it is the id under which the hash is found. The
 * second has 260 random bits, so one round of SHA-256 is all the protection it needs. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "codec/sha256.h"

#define API_KEY_TEXT_BYTES 85 /* with its NUL */

struct api_key {
    char text[API_KEY_TEXT_BYTES]; /* shown once, to whom it is made for */
    char id[ID_BYTES];
    uint8_t hash[SHA256_BYTES];
};

/* `id` is the one that it is to have; NULL: a new one. */
MUST_CHECK int api_key_make(struct api_key *out, const char *id, struct error *err);

/* The id of the key that the text claims to be; false, with `id` untouched, when it is none. */
bool api_key_parse(const char *text, size_t len, char id[ID_BYTES]);

/* Of any secret: keys, and the operator's and the internal token. The time that it takes tells
 * nothing about where two differ. */
void api_key_hash(const char *text, size_t len, uint8_t out[SHA256_BYTES]);
bool api_key_matches(const char *text, size_t len, const uint8_t hash[SHA256_BYTES]);
bool api_key_same(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES]);
