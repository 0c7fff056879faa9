/* policy.c - rules and prefixes, two tables and two loops */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/policy.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"

#define PORT_HTTP  80
#define PORT_HTTPS 443

/* --- names ------------------------------------------------------------------------------------ */

void policy_release(struct policy *p)
{
    free(p->rules);
    *p = (struct policy){0};
}

static bool is_well_spelt(const struct egress_rule *rule)
{
    struct authority parsed;
    size_t len = strnlen(rule->name, sizeof(rule->name));
    char text[EGRESS_NAME_BYTES + 2];
    if (len == sizeof(rule->name) || rule->port > UINT16_MAX ||
        rule->flags & ~(uint32_t)(EGRESS_BELOW | EGRESS_PRIVATE))
        return false;
    /* a colon is in addresses of version 6 alone, which have brackets around them */
    bool is_v6 = strchr(rule->name, ':');
    size_t text_len = 0;
    if (is_v6)
        text[text_len++] = '[';
    memcpy(text + text_len, rule->name, len);
    text_len += len;
    if (is_v6)
        text[text_len++] = ']';
    return authority_parse(&parsed, text, text_len) && !parsed.port &&
           strcmp(parsed.name, rule->name) == 0 &&
           !(parsed.is_address && rule->flags & EGRESS_BELOW);
}

bool policy_add(struct policy *p, const struct egress_rule *rule)
{
    if (p->count == EGRESS_RULES_MAX || !is_well_spelt(rule))
        return false;
    p->rules = xrealloc(p->rules, (p->count + 1) * sizeof(*p->rules));
    p->rules[p->count++] = *rule;
    return true;
}

static bool has_name(const struct egress_rule *rule, const struct authority *to)
{
    if (rule->flags & EGRESS_BELOW)
        return !to->is_address && authority_is_below(to->name, rule->name);
    return strcmp(to->name, rule->name) == 0;
}

static bool has_port(const struct egress_rule *rule, uint16_t port)
{
    return rule->port ? rule->port == port : port == PORT_HTTP || port == PORT_HTTPS;
}

enum policy_answer policy_ask(const struct policy *p, const struct authority *to, bool *is_private)
{
    enum policy_answer answer = POLICY_NO_HOST;
    *is_private = false;
    for (size_t i = 0; i < p->count; i++) {
        const struct egress_rule *rule = &p->rules[i];
        if (!has_name(rule, to))
            continue;
        if (has_port(rule, to->port)) {
            answer = POLICY_ALLOWED;
            *is_private |= (rule->flags & EGRESS_PRIVATE) != 0;
        } else if (answer == POLICY_NO_HOST) {
            answer = POLICY_NO_PORT;
        }
    }
    return answer;
}

/* --- addresses -------------------------------------------------------------------------------- */

struct prefix {
    uint8_t bytes[16];
    unsigned bits;
};

/* RFC 6890 and its registry, without what is for documentation: nobody is there. */
static const struct prefix not_public_4[] = {
    {{0}, 8},                 /* this network */
    {{10}, 8},                /* private */
    {{100, 64}, 10},          /* behind a carrier's translation; some clouds' metadata */
    {{127}, 8},               /* loopback */
    {{168, 63, 129, 16}, 32}, /* a cloud's own services, at a public address */
    {{169, 254}, 16},         /* link-local; metadata */
    {{172, 16}, 12},          /* private */
    {{192, 0, 0}, 24},        /* protocol assignments; some clouds' metadata */
    {{192, 88, 99}, 24},      /* relays of 6to4 */
    {{192, 168}, 16},         /* private */
    {{198, 18}, 15},          /* benchmarks */
    {{224}, 4},               /* multicast */
    {{240}, 4},               /* reserved, broadcast */
};

/* All of them outside 2000::/3, which is what has been given out; and inside of it: */
static const struct prefix not_public_6[] = {
    {{0x20, 0x01, 0, 0}, 23}, /* protocol assignments, Teredo among them: addresses in addresses */
};

static const struct prefix global_6 = {{0x20}, 3};

/* Where an address of version 4 hides in one of version 6, and at which byte. */
static const struct {
    struct prefix prefix;
    unsigned at;
} disguises[] = {
    {{{[10] = 0xff, [11] = 0xff}, 96}, 12}, /* ::ffff:a.b.c.d */
    {{{0x00, 0x64, 0xff, 0x9b}, 96}, 12},   /* NAT64 */
    {{{0x20, 0x02}, 16}, 2},                /* 6to4 */
};

static bool has_prefix(const uint8_t *address, const struct prefix *p)
{
    unsigned whole = p->bits / 8, rest = p->bits % 8;
    if (memcmp(address, p->bytes, whole) != 0)
        return false;
    uint8_t mask = (uint8_t)(0xff00u >> rest);
    return rest == 0 || (address[whole] & mask) == (p->bytes[whole] & mask);
}

static bool is_in(const uint8_t *address, const struct prefix *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (has_prefix(address, &list[i]))
            return true;
    }
    return false;
}

static bool is_public_4(const uint8_t *address)
{
    return !is_in(address, not_public_4, ARRAY_LEN(not_public_4));
}

static bool is_public_6(const uint8_t *address)
{
    for (size_t i = 0; i < ARRAY_LEN(disguises); i++) {
        if (has_prefix(address, &disguises[i].prefix))
            return is_public_4(address + disguises[i].at);
    }
    return has_prefix(address, &global_6) && !is_in(address, not_public_6, ARRAY_LEN(not_public_6));
}

bool policy_is_public(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return is_public_4(
            (const uint8_t *)&((const struct sockaddr_in *)(const void *)address)->sin_addr);
    if (address->sa_family == AF_INET6)
        return is_public_6(
            (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    return false;
}
