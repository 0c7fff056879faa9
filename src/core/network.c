/* network.c - words to rules, and where each kind of program looks for a proxy */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/network.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "codec/authority.h"

#define ALLOW_MAX      256
#define HOST_MAX_BYTES 300
#define PORT_HTTP      80
#define PORT_HTTPS     443

const char *const network_policy_names[NETWORK_POLICIES + 1] = {
    [NETWORK_NONE] = "none", [NETWORK_PACKAGES] = "packages", [NETWORK_ALLOW] = "allow"};

/* Where pip and npm look by themselves. */
static const char *const index_hosts[] = {"pypi.org", "files.pythonhosted.org",
                                          "registry.npmjs.org"};

/* --- one host --------------------------------------------------------------------------------- */

bool network_parse_host(struct egress_rule *out, const char *text)
{
    struct authority host;
    bool is_below = strncmp(text, "*.", 2) == 0;
    const char *name = text + (is_below ? 2 : 0);
    if (!authority_parse(&host, name, strlen(name)) || (is_below && host.is_address))
        return false;
    *out = (struct egress_rule){.port = host.port, .flags = is_below ? EGRESS_BELOW : 0};
    _Static_assert(sizeof(out->name) == sizeof(host.name), "a name fits");
    memcpy(out->name, host.name, sizeof(out->name));
    return true;
}

static bool is_rule(const char *text)
{
    struct egress_rule rule;
    return network_parse_host(&rule, text);
}

/* --- the table -------------------------------------------------------------------------------- */

/* clang-format off */
static const struct param network_rows[] = {
    {.name = "policy", .type = PARAM_CHOICE, .offset = offsetof(struct network_spec, policy),
     .choices = network_policy_names, .preset = "\"none\"",
     .help = "What programs can reach: none is nothing but themselves; packages, the package indexes; allow, the hosts named."},
    {.name = "allow", .type = PARAM_STRINGS, .offset = offsetof(struct network_spec, allow), .max_len = ALLOW_MAX,
     .check = is_rule, .pattern = "^(\\*\\.)?[A-Za-z0-9_.:\\[\\]-]{1,300}$", .example = "[\"api.example.com\", \"*.example.org\", \"example.net:8443\"]",
     .help = "With policy allow: hosts by name, as *.NAME all below one, at ports 80 and 443 or the one that follows."},
};
const struct param_table network_table = PARAM_TABLE(struct network_spec, "Network", network_rows);
/* clang-format on */

json_t *network_json(const struct network_spec *spec)
{
    json_t *o = json_object();
    json_object_set_new(o, "policy", json_string(network_policy_names[spec->policy]));
    if (spec->policy != NETWORK_ALLOW)
        return o;
    json_t *list = json_array();
    for (size_t i = 0; i < spec->allow.count; i++)
        json_array_append_new(list, json_string(spec->allow.items[i]));
    json_object_set_new(o, "allow", list);
    return o;
}

/* What cannot be read reaches nothing. */
void network_read(struct network_spec *out, const json_t *value)
{
    struct error ignored;
    if (params_read(out, &network_table, value, &ignored) < 0)
        *out = (struct network_spec){.policy = NETWORK_NONE};
}

void network_copy(struct network_spec *out, const struct network_spec *from)
{
    *out = (struct network_spec){.policy = from->policy};
    out->allow.items = xcalloc(from->allow.count + 1, sizeof(*out->allow.items));
    for (; out->allow.count < from->allow.count; out->allow.count++)
        out->allow.items[out->allow.count] = xstrdup(from->allow.items[out->allow.count]);
}

void network_release(struct network_spec *spec)
{
    params_release(spec, &network_table);
    *spec = (struct network_spec){0};
}

/* --- rules ------------------------------------------------------------------------------------ */

/* An index has one port, and the operator vouches for its address. */
static bool parse_index(struct egress_rule *out, const char *url)
{
    struct authority host;
    const char *rest;
    bool is_http = authority_parse_url(&host, url, "http", &rest);
    if (!is_http && !authority_parse_url(&host, url, "https", &rest))
        return false;
    *out = (struct egress_rule){.flags = EGRESS_PRIVATE};
    out->port = host.port ? host.port : is_http ? PORT_HTTP : PORT_HTTPS;
    memcpy(out->name, host.name, sizeof(out->name));
    return true;
}

static int check_index(const char *option, const char *url, struct error *err)
{
    struct egress_rule rule;
    if (!url || parse_index(&rule, url))
        return 0;
    error_set(err, ERROR_INVALID, "option '%s': must be http[s]://HOST[:PORT]/..., without a user",
              option);
    return error_hint(err, "sandboxes see this address, so it must hold no password");
}

int network_check_bounds(const struct network_bounds *b, struct error *err)
{
    struct egress_rule rule;
    for (size_t i = 0; b->privates && i < b->privates->count; i++) {
        if (!network_parse_host(&rule, b->privates->items[i]))
            return error_set(err, ERROR_INVALID,
                             "option 'egress-private': '%.80s' is not HOST, *.HOST or HOST:PORT",
                             b->privates->items[i]);
    }
    if (check_index("python-index", b->python_index, err) < 0)
        return -1;
    return check_index("npm-registry", b->npm_registry, err);
}

int network_check(const struct network_spec *spec, const struct network_bounds *b,
                  struct error *err)
{
    struct egress_rule rule;
    if (spec->policy > b->most) {
        error_set(err, ERROR_DENIED, "network.policy: '%s' is not granted here, at most '%s'",
                  network_policy_names[spec->policy], network_policy_names[b->most]);
        return error_hint(err, "have the operator raise the option 'network-max'");
    }
    if (spec->policy == NETWORK_ALLOW && spec->allow.count == 0)
        return error_set(err, ERROR_INVALID, "network.allow: names no host");
    if (spec->policy != NETWORK_ALLOW && spec->allow.count > 0)
        return error_set(err, ERROR_INVALID, "network.allow: is for the policy 'allow' only");
    for (size_t i = 0; i < spec->allow.count; i++) {
        if (!network_parse_host(&rule, spec->allow.items[i]))
            return error_set(err, ERROR_INVALID, "network.allow[%zu]: '%.80s' is not a host", i,
                             spec->allow.items[i]);
    }
    return 0;
}

static void add(struct network_rules *r, const struct egress_rule *rule)
{
    r->items = xrealloc(r->items, (r->count + 1) * sizeof(*r->items));
    r->items[r->count++] = *rule;
}

static void add_host(struct network_rules *r, const char *text)
{
    struct egress_rule rule;
    if (network_parse_host(&rule, text))
        add(r, &rule);
}

static void add_index(struct network_rules *r, const char *url)
{
    struct egress_rule rule;
    if (url && parse_index(&rule, url))
        add(r, &rule);
}

static bool is_within(const struct egress_rule *rule, const struct egress_rule *vouched)
{
    bool has_port = !vouched->port || vouched->port == rule->port;
    if (strcmp(rule->name, vouched->name) == 0)
        return has_port && (rule->flags & EGRESS_BELOW) == (vouched->flags & EGRESS_BELOW);
    return has_port && vouched->flags & EGRESS_BELOW &&
           authority_is_below(rule->name, vouched->name);
}

/* Of a host that somebody may reach, and that the operator says is one of his own. */
static void vouch(struct network_rules *r, const struct network_bounds *b)
{
    struct egress_rule vouched;
    const char *const urls[] = {b->python_index, b->npm_registry};
    for (size_t i = 0; i < r->count; i++) {
        struct egress_rule *rule = &r->items[i];
        for (size_t k = 0; b->privates && k < b->privates->count; k++) {
            if (network_parse_host(&vouched, b->privates->items[k]) && is_within(rule, &vouched))
                rule->flags |= EGRESS_PRIVATE;
        }
        for (size_t k = 0; k < ARRAY_LEN(urls); k++) {
            if (urls[k] && parse_index(&vouched, urls[k]) && is_within(rule, &vouched))
                rule->flags |= EGRESS_PRIVATE;
        }
    }
}

int network_rules_make(struct network_rules *out, const struct network_spec *spec,
                       const struct network_bounds *b, struct error *err)
{
    *out = (struct network_rules){0};
    if (network_check(spec, b, err) < 0)
        return -1;
    for (size_t i = 0; i < spec->allow.count; i++)
        add_host(out, spec->allow.items[i]);
    if (spec->policy == NETWORK_PACKAGES) {
        for (size_t i = 0; i < ARRAY_LEN(index_hosts); i++)
            add_host(out, index_hosts[i]);
        add_index(out, b->python_index);
        add_index(out, b->npm_registry);
    }
    vouch(out, b);
    return 0;
}

static bool is_covered_by(const struct egress_rule *host, const struct egress_rule *rule)
{
    bool is_below = host->flags & EGRESS_BELOW, takes_below = rule->flags & EGRESS_BELOW;
    if (rule->port ? rule->port != host->port : host->port != PORT_HTTP && host->port != PORT_HTTPS)
        return false;
    if (strcmp(host->name, rule->name) == 0)
        return is_below == takes_below;
    return takes_below && authority_is_below(host->name, rule->name);
}

bool network_rules_cover(const struct network_rules *r, const struct egress_rule *host)
{
    for (size_t i = 0; i < r->count; i++) {
        if (is_covered_by(host, &r->items[i]))
            return true;
    }
    return false;
}

void network_rules_release(struct network_rules *r)
{
    free(r->items);
    *r = (struct network_rules){0};
}

/* --- variables -------------------------------------------------------------------------------- */

#define TEXT_OF(number)   #number
#define PORT_TEXT(number) TEXT_OF(number)
#define PROXY             "http://127.0.0.1:" PORT_TEXT(EGRESS_PORT)

/* What each kind of program looks at: most at the first four, some at the lower case alone, node at
 * nothing unless it is told to. */
static const char *const usual[] = {
    "HTTP_PROXY=" PROXY,  "HTTPS_PROXY=" PROXY,   "http_proxy=" PROXY,
    "https_proxy=" PROXY, "NODE_USE_ENV_PROXY=1",
};

struct list {
    char **items;
    size_t count;
};

static void push(struct list *l, char *item)
{
    l->items = xrealloc(l->items, (l->count + 2) * sizeof(*l->items));
    l->items[l->count++] = item;
    l->items[l->count] = NULL;
}

static bool has_rule(const struct network_rules *rules, const char *name)
{
    for (size_t i = 0; i < rules->count; i++) {
        if (strcmp(rules->items[i].name, name) == 0)
            return true;
    }
    return false;
}

/* What listens inside is reached as it is; unless the rules name it, as one of the host's. */
static void push_no_proxy(struct list *l, const struct network_rules *rules)
{
    static const char *const own[] = {"localhost", "127.0.0.1", "::1"};
    char text[64] = "";
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        size_t len = strlen(text);
        if (!has_rule(rules, own[i]))
            snprintf(text + len, sizeof(text) - len, "%s%s", len ? "," : "", own[i]);
    }
    push(l, xasprintf("NO_PROXY=%s", text));
    push(l, xasprintf("no_proxy=%s", text));
}

static void push_indexes(struct list *l, const struct network_bounds *b)
{
    struct egress_rule rule;
    if (b->python_index) {
        push(l, xasprintf("PIP_INDEX_URL=%s", b->python_index));
        push(l, xasprintf("UV_DEFAULT_INDEX=%s", b->python_index));
    }
    if (b->python_index && strncmp(b->python_index, "http:", 5) == 0 &&
        parse_index(&rule, b->python_index))
        push(l, xasprintf("PIP_TRUSTED_HOST=%s", rule.name));
    if (b->npm_registry)
        push(l, xasprintf("npm_config_registry=%s", b->npm_registry));
}

static bool is_replaced(const char *variable, char *const *more)
{
    size_t len = strcspn(variable, "=") + 1;
    for (; more && *more; more++) {
        if (strncmp(*more, variable, len) == 0)
            return true;
    }
    return false;
}

char **network_env(const struct network_spec *spec, const struct network_rules *rules,
                   const struct network_bounds *b, char *const *more)
{
    struct list all = {0}, kept = {.items = xcalloc(1, sizeof(char *))};
    if (spec->policy != NETWORK_NONE) {
        for (size_t i = 0; i < ARRAY_LEN(usual); i++)
            push(&all, xstrdup(usual[i]));
        push_no_proxy(&all, rules);
    }
    if (spec->policy == NETWORK_PACKAGES)
        push_indexes(&all, b);
    for (size_t i = 0; i < all.count; i++) {
        if (is_replaced(all.items[i], more))
            free(all.items[i]);
        else
            push(&kept, all.items[i]);
    }
    free(all.items);
    for (; more && *more; more++)
        push(&kept, xstrdup(*more));
    return kept.items;
}
