/* exchange.h - one connection from inside a sandbox: one request, and what became of it
 *
 * head -> name -> connect -> open -> last. What is not allowed is answered at once. Each connection
 * carries one request (or one tunnel), so that nothing of it can be taken for another's. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "egress/tenant.h"

/* Takes `fd`, and adds itself to the tenant until it is over. */
void exchange_begin(struct tenant *tenant, int fd);
void exchange_free(struct exchange *e);

struct exchange *exchange_next(const struct exchange *e); /* of the same tenant */
struct exchange **exchange_link(struct exchange *e);      /* the tenant's list */
bool exchange_is_late(const struct exchange *e, int64_t now_ns);
