/* leaves.c - a list that is added to, and never changed: somebody may be using any of it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/leaves.h"

#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "http/tls.h"

#define USED_S (12 * 3600) /* half of what it is valid for */

void leaves_release(struct leaves *l)
{
    while (l->count > 0) {
        struct leaf *leaf = &l->items[--l->count];
        tls_free(leaf->tls);
        free(leaf->name);
    }
}

static struct tls *make(const struct certificate_signer *signer, const char *name, int64_t now_s)
{
    struct error err;
    struct tls *tls;
    X509 *certificate = certificate_sign(signer, name, now_s);
    int opened = tls_open_with(&tls, certificate, certificate_signer_key(signer), &err);
    X509_free(certificate);
    BUG_ON(opened < 0); /* out of memory */
    return tls;
}

struct tls *leaves_get(struct leaves *l, const struct certificate_signer *signer, const char *name,
                       int64_t now_s, struct tls **own)
{
    for (size_t i = 0; i < l->count; i++) {
        if (now_s < l->items[i].until_s && strcmp(l->items[i].name, name) == 0)
            return l->items[i].tls;
    }
    struct tls *tls = make(signer, name, now_s);
    if (l->count == LEAVES_MAX)
        *own = tls;
    else
        l->items[l->count++] =
            (struct leaf){.name = xstrdup(name), .tls = tls, .until_s = now_s + USED_S};
    return tls;
}
