/* network.h - what a sandbox may reach: as people write it, as rules, and as variables inside
 *
 * Pure. The table reads it from a request, a template or the store. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "codec/params.h"
#include "wire/egress.h"

enum network_policy { NETWORK_NONE, NETWORK_PACKAGES, NETWORK_ALLOW, NETWORK_POLICIES };

extern const char *const network_policy_names[NETWORK_POLICIES + 1];

struct network_spec {
    int policy; /* enum network_policy */
    struct param_strings allow;
};

extern const struct param_table network_table;

/* What the operator has to say about it; borrowed. */
struct network_bounds {
    int most;                           /* enum network_policy: the widest that may be asked for */
    const char *python_index;           /* NULL: the installer's own */
    const char *npm_registry;           /* NULL: the same */
    const struct option_list *privates; /* HOST[:PORT] whose address may be a private one */
};

/* What is wrong with the operator's own words. */
MUST_CHECK int network_check_bounds(const struct network_bounds *bounds, struct error *err);

/* ERROR_INVALID names the host that is none, ERROR_DENIED a policy that is not granted here. */
MUST_CHECK int network_check(const struct network_spec *spec, const struct network_bounds *bounds,
                             struct error *err);

/* The same as the proxy takes it. */
struct network_rules {
    struct egress_rule *items; /* owned */
    size_t count;
};
MUST_CHECK int network_rules_make(struct network_rules *out, const struct network_spec *spec,
                                  const struct network_bounds *bounds, struct error *err);
void network_rules_release(struct network_rules *rules);

/* "example.com", "*.example.com", "example.com:8443" as a rule. */
bool network_parse_host(struct egress_rule *out, const char *text);
/* Whether all that `host`, which has a port, can be is among the rules. */
bool network_rules_cover(const struct network_rules *rules, const struct egress_rule *host);

/* Variables by which programs inside find the proxy, NAME=VALUE, NULL-terminated; `more` stands
 * behind them and wins. All of it is owned by the caller. For NETWORK_NONE, those of `more`. */
char **network_env(const struct network_spec *spec, const struct network_rules *rules,
                   const struct network_bounds *bounds, char *const *more);

/* New: {"policy": ..., "allow": [...]}; and back, of what was written so. */
json_t *network_json(const struct network_spec *spec);
void network_read(struct network_spec *out, const json_t *value);
void network_copy(struct network_spec *out, const struct network_spec *from);
void network_release(struct network_spec *spec);
