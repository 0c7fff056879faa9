/* requirement.h - what packages somebody wants: checked, in one form, and the digest of their layer
 *
 * Two lists that mean the same have the same form: names as the index takes them, no blanks that
 * mean nothing, sorted, none twice. Only names and versions are taken. Options, files and addresses
 * would let a request choose where packages come from, which is the operator's to say. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/sha256.h"
#include "image/runner.h"

#define REQUIREMENTS_MAX      64
#define REQUIREMENT_MAX_BYTES 200

/* Owned strings, sorted. */
struct requirement_set {
    char **items;
    size_t count;
};

/* `wanted` is borrowed. ERROR_INVALID says which one cannot be taken, and why. */
MUST_CHECK int requirement_set_make(struct requirement_set *out, enum runner_index index,
                                    char *const *wanted, size_t count, struct error *err);
void requirement_set_release(struct requirement_set *set); /* a zeroed one is fine */

#define scoped_requirements __attribute__((cleanup(requirement_set_release)))

/* Which layer has them: by the image, the kind of index, its address without name and password
 * ("": the installer's own), and the set. */
void requirement_set_digest(const struct requirement_set *set, const uint8_t image[SHA256_BYTES],
                            enum runner_index index, const char *address,
                            uint8_t out[SHA256_BYTES]);
