/* leaves.h - the certificates by which a tunnel of one sandbox is ended, one for each name
 *
 * Making one costs more than the rest of an exchange, so they are kept for as long as the tenant
 * lives: exchanges borrow them. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/certificate.h"

#define LEAVES_MAX 32

struct tls;

struct leaf {
    char *name;
    struct tls *tls;
    int64_t until_s; /* of the wall clock: then another is made */
};

struct leaves { /* zeroed: none */
    struct leaf items[LEAVES_MAX];
    size_t count;
};

void leaves_release(struct leaves *leaves);

/* Borrowed; or, when there are LEAVES_MAX already, in *own, which the caller frees. */
struct tls *leaves_get(struct leaves *leaves, const struct certificate_signer *signer,
                       const char *name, int64_t now_s, struct tls **own);
