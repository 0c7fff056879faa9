/* tenant.h - one sandbox as the proxy knows it: its rules, its door, and all that goes through it
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/map.h"
#include "egress/leaves.h"
#include "egress/names.h"
#include "egress/policy.h"
#include "egress/secrets.h"
#include "egress/trust.h"
#include "event/loop.h"

struct exchange;

/* What all tenants share; borrowed. */
struct tenant_world {
    struct loop *loop;
    struct names *names;
    struct trust *trust;
    void (*tell)(void *ctx, const struct egress_message *m);
    void *ctx;
};

struct tenant {
    struct tenant *next; /* the owner's */
    const struct tenant_world *world;
    uint64_t sandbox;
    struct policy policy;
    struct secrets secrets;
    struct certificate_signer *signer; /* NULL: it has no secrets */
    struct leaves leaves;
    struct egress_open limits;
    int listen_fd; /* -1: not open yet */
    struct loop_watch *watch;
    struct exchange *exchanges;
    size_t count;
    uint64_t bytes;
    unsigned told; /* denials, since the last look at the clock */
};

struct tenant *tenant_new(const struct tenant_world *world, uint64_t sandbox);
void tenant_free(struct tenant *t); /* cuts all that it has open */

/* Takes `fd`, also when it fails. */
MUST_CHECK int tenant_open(struct tenant *t, int fd, const struct egress_open *limits,
                           struct error *err);

/* Ends what takes too long. */
void tenant_on_time(struct tenant *t, int64_t now_ns);

/* --- for exchanges ---------------------------------------------------------------------------- */

void tenant_add(struct tenant *t, struct exchange *e);
void tenant_remove(struct tenant *t, struct exchange *e);

/* False: it has used what it may. */
bool tenant_count(struct tenant *t, size_t bytes);

void tenant_tell(struct tenant *t, enum egress_verb verb, const struct authority *to,
                 const char *words);
