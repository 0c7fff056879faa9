/* plane_network.c - which way out a sandbox gets, and what its programs are told of it */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/memory.h"
#include "core/plane_inside.h"

int plane_choose_network(const struct plane *p, const struct network_spec *wish,
                         const struct catalog_kind *kind, struct network_spec *out,
                         struct error *err)
{
    const struct network_spec *chosen = wish ? wish : &catalog_spec(kind)->network;
    if (network_check(chosen, &p->order.network, err) < 0)
        return -1;
    if (chosen->policy != NETWORK_NONE && !p->order.gateway)
        return error_set(err, ERROR_UNAVAILABLE, "network.policy: there is no egress proxy here");
    network_copy(out, chosen);
    return 0;
}

/* What was granted once and is not any more (another operator's word) leads nowhere. */
static void make_rules(const struct plane *p, const struct network_spec *spec,
                       struct network_rules *out)
{
    struct error err;
    if (network_rules_make(out, spec, &p->order.network, &err) < 0) {
        log_warn(p->order.log, "a network policy is not granted any more",
                 LOG_STR("error", err.msg));
        *out = (struct network_rules){0};
    }
}

char **plane_network_env(const struct plane *p, const struct network_spec *spec, char **own)
{
    struct network_rules rules = {0};
    if (spec->policy == NETWORK_NONE)
        return own;
    make_rules(p, spec, &rules);
    char **all = network_env(spec, &rules, &p->order.network, own);
    for (char **e = own; e && *e; e++)
        free(*e);
    free(own);
    network_rules_release(&rules);
    return all;
}

bool plane_can_go_out(const struct plane *p, struct session *session,
                      const struct network_spec *spec)
{
    return spec->policy == NETWORK_NONE || !p->order.gateway || session_await_seal(session);
}

bool plane_go_out(struct plane *p, struct session *session, const struct plane_way *way,
                  passage_fn fn, void *ctx)
{
    struct network_rules rules;
    if (way->network->policy == NETWORK_NONE || !p->order.gateway)
        return true;
    make_rules(p, way->network, &rules);
    const struct passage_order order = {
        .sandbox = session_sandbox(session), .who = way->who, .rules = &rules, .vault = way->vault};
    session_give_passage(session, passage_open(p->order.gateway, &order, fn, ctx));
    network_rules_release(&rules);
    return false;
}

int plane_make_vault(const struct plane *p, const struct param_list *wishes,
                     const struct network_spec *network, const struct param_map *env,
                     struct vault **out, struct error *err)
{
    struct network_rules rules;
    *out = NULL;
    if (wishes->count == 0)
        return 0;
    if (network->policy == NETWORK_NONE) {
        error_set(err, ERROR_INVALID, "secrets: the sandbox reaches no host that they belong to");
        error_word(err, "bad_secret");
        return error_hint(err, "give it a network policy that names their hosts");
    }
    if (network_rules_make(&rules, network, &p->order.network, err) < 0)
        return -1;
    int status = vault_make(out, wishes, &rules, env, err);
    network_rules_release(&rules);
    return status;
}
