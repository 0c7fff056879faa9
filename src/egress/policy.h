/* policy.h - what one sandbox may reach: a list of names, and no address that is not public
 *
 * Pure. A name is compared whole, or by whole labels where a rule is for all below a domain. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>

#include "codec/authority.h"
#include "wire/egress.h"

struct policy {
    struct egress_rule *rules; /* owned */
    size_t count;
};

void policy_release(struct policy *policy);

/* False: it has too many already, or the rule is not in the spelling of authority.h. */
bool policy_add(struct policy *policy, const struct egress_rule *rule);

enum policy_answer { POLICY_ALLOWED, POLICY_NO_HOST, POLICY_NO_PORT };

/* *is_private: the operator vouches for its address. */
enum policy_answer policy_ask(const struct policy *policy, const struct authority *to,
                              bool *is_private);

/* An address that anybody could have, and not: this machine's, a neighbour's, a cloud's own, or one
 * of them in the disguise of IPv6. */
bool policy_is_public(const struct sockaddr *address);
