/* gateway.h - the link to cove-egress: started when somebody needs it, and again when it dies
 *
 * A sandbox has a way out while its passage is open. When the proxy dies, or we do, every passage
 * is closed: connections break, and the port inside refuses. The next proxy gets them all anew. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/log.h"
#include "core/network.h"
#include "core/vault.h"
#include "event/loop.h"
#include "runtime/spawner_client.h"

struct gateway;
struct passage;

/* Borrowed as long as it lives. */
struct gateway_order {
    struct loop *loop;
    struct spawner_client *spawner;
    const struct log *log; /* NULL: none */
    uint64_t bytes_max;    /* of one sandbox, in both directions; 0: no limit */
    uint32_t connections_max;
};

struct gateway *gateway_new(const struct gateway_order *order);
void gateway_free(struct gateway *gateway); /* after its passages; NULL is fine */
SCOPED_DEFINE(gateway)

/* Certificates (PEM) that the proxy trusts beside the system's: a memory file, taken. Before the
 * first passage. */
void gateway_give_trust(struct gateway *gateway, int fd);

/* Its way out is open; or *err: it has none. */
typedef void (*passage_fn)(void *ctx, const struct error *err);

/* Borrowed for the call. */
struct passage_order {
    uint64_t sandbox; /* that is sealed */
    const char *who;  /* what the log calls it */
    const struct network_rules *rules;
    const struct vault *vault; /* NULL: no secrets */
};

/* `fn` is called once, later. */
struct passage *passage_open(struct gateway *gateway, const struct passage_order *order,
                             passage_fn fn, void *ctx);
void passage_free(struct passage *passage); /* closes it; NULL is fine */

/* Its secrets, with the authority that signs for their hosts once it is open; NULL: none. */
const struct vault *passage_vault(const struct passage *passage);

/* The last that it was refused since the clear, with all that is known now; NULL: nothing. */
const struct egress_denied *passage_denied(struct passage *passage);
/* The last that it may reach, and could not. */
const struct egress_denied *passage_failed(struct passage *passage);
void passage_clear(struct passage *passage); /* both */
