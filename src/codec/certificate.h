/* certificate.h - an authority that lives as long as one session, and what it signs
 *
 * P-256, X.509 version 3, made in memory: nothing is read and nothing is written. Programs inside
 * the sandbox trust the authority, and nobody else does. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/scoped.h"

struct x509_st;
struct evp_pkey_st;

#define CERTIFICATE_MAX_BYTES     1024
#define CERTIFICATE_KEY_MAX_BYTES 256

/* Plain data, in DER. The key is a secret: certificate_authority_clear() when it is not needed. */
struct certificate_authority {
    uint32_t certificate_len, key_len;
    uint8_t certificate[CERTIFICATE_MAX_BYTES];
    uint8_t key[CERTIFICATE_KEY_MAX_BYTES];
};

/* `now_s` is the wall clock's: its certificates are valid from an hour before. */
MUST_CHECK int certificate_authority_make(struct certificate_authority *out, int64_t now_s,
                                          struct error *err);
void certificate_authority_clear(struct certificate_authority *authority);

/* Signs for hosts. All of them have one key, made with it. */
struct certificate_signer;

/* ERROR_INVALID: this is no authority. `authority` is borrowed for the call. */
MUST_CHECK int certificate_signer_open(struct certificate_signer **out,
                                       const struct certificate_authority *authority,
                                       struct error *err);
void certificate_signer_free(struct certificate_signer *signer); /* NULL is fine */
SCOPED_DEFINE(certificate_signer)

/* New, valid for a day: for a name or an address as authority.h spells it. */
struct x509_st *certificate_sign(const struct certificate_signer *signer, const char *name,
                                 int64_t now_s);
struct evp_pkey_st *certificate_signer_key(const struct certificate_signer *signer); /* borrowed */
