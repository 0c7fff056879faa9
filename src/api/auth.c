/* auth.c - a secret is found, hashed once, compared with everything, and only then judged
 *
 * Guessing. Keys and long tokens cannot be guessed, so who has one is let in however many wrong
 * ones came from his address: nobody behind the same proxy can lock him out. A short token could be
 * guessed; while an address is out of tries, it is refused there in the same words as a wrong one.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth_inside.h"

#include <arpa/inet.h>
#include <string.h>

#include "api/credential.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "core/api_key.h"

#define REALM           "Bearer realm=\"cove\""
#define ADDRESSES       4096 /* whose failures are remembered */
#define FAILURES_MINUTE 30
#define FAILURES_BURST  20
#define MS_PER_S        1000
#define CHALLENGE_BYTES 1024

/* Any of these lets somebody in where tools are; each of them has needs of its own. */
#define RESOURCE_SCOPES (SCOPE_EXECUTE | SCOPE_FILES | SCOPE_SESSIONS_READ | SCOPE_SESSIONS_WRITE)

/* --- its life --------------------------------------------------------------------------------- */

static int set_token(struct auth_token *t, const char *text, const char *what, struct error *err)
{
    if (!text)
        return 0;
    size_t len = strlen(text);
    if (!credential_is_secret(text, len))
        return error_set(err, ERROR_INVALID,
                         "%s: must have 1 to %d visible characters of ASCII and no blanks", what,
                         CREDENTIAL_MAX_BYTES);
    api_key_hash(text, len, t->hash);
    t->is_set = true;
    t->is_short = len < AUTH_TOKEN_STRONG_BYTES;
    return 0;
}

static int set_tokens(struct auth *a, const struct auth_order *order, struct error *err)
{
    if (set_token(&a->operator, order->token, "token", err) < 0 ||
        set_token(&a->internal, order->internal_token, "internal token", err) < 0)
        return -1;
    if (order->token && order->internal_token && strcmp(order->token, order->internal_token) == 0)
        return error_set(err, ERROR_INVALID, "internal token: must not be the operator's token");
    a->operator.user =(struct api_user){{.owner = "", .sees_all = true}, SCOPE_ADMIN};
    a->internal.user = (struct api_user){{.owner = "", .sees_all = true}, SCOPE_INTERNAL};
    if (a->operator.is_short && a->operator.is_set)
        log_warn(a->log, "the operator's token is short enough to be guessed",
                 LOG_INT("advised_characters", AUTH_TOKEN_STRONG_BYTES));
    return 0;
}

int auth_open(struct auth **out, const struct auth_order *order, struct error *err)
{
    scoped(auth) struct auth *a = xcalloc(1, sizeof(*a));
    a->loop = order->loop;
    a->store = order->store;
    a->log = order->log;
    a->trusts_loopback = order->trusts_loopback;
    a->keys_rate = order->keys;
    a->failures = order->failures.per_minute ? order->failures
                                             : (struct rate_rule){FAILURES_MINUTE, FAILURES_BURST};
    if (set_tokens(a, order, err) < 0 || rate_limit_new(&a->addresses, ADDRESSES, err) < 0)
        return -1;
    *out = take_ptr(&a);
    return 0;
}

void auth_free(struct auth *a)
{
    if (!a)
        return;
    BUG_ON(a->loaded);
    MAP_EACH(&a->keys, node)
    free(MAP_OF(node, struct auth_key, by_id));
    map_release(&a->keys);
    rate_limit_free(a->addresses);
    free(a);
}

/* --- refusals --------------------------------------------------------------------------------- */

enum wrong {
    WRONG_NONE = CREDENTIAL_NONE,
    WRONG_SCHEME = CREDENTIAL_SCHEME,
    WRONG_MALFORMED = CREDENTIAL_MALFORMED,
    WRONG_TWICE = CREDENTIAL_TWICE,
    WRONG_UNKNOWN,
    WRONG_EXPIRED,
    WRONG_REVOKED,
};

static const struct {
    const char *challenge, *message, *hint;
} wrongs[] = {
    [WRONG_NONE] = {REALM, "this needs a token or an API key",
                    "send it as 'Authorization: Bearer ...'"},
    [WRONG_SCHEME] = {REALM ", error=\"invalid_request\"",
                      "the Authorization header is not of the kind 'Bearer'",
                      "send 'Authorization: Bearer ...'"},
    [WRONG_MALFORMED] = {REALM ", error=\"invalid_request\"",
                         "this cannot be a token: it is empty, too long, or has blanks in it",
                         "send 'Authorization: Bearer ...' with the token as it was shown"},
    [WRONG_TWICE] =
        {REALM ", error=\"invalid_request\"",
         "there are both Authorization and X-API-Key, or one of them and a protocol 'bearer.'",
         "send one of them"},
    [WRONG_UNKNOWN] = {REALM ", error=\"invalid_token\"", "this token or key is not valid here",
                       "look for a cut or old one; a new key comes from POST /keys"},
    [WRONG_EXPIRED] = {REALM ", error=\"invalid_token\"", "this key has expired",
                       "ask for a new one: POST /keys"},
    [WRONG_REVOKED] = {REALM ", error=\"invalid_token\"", "this key has been revoked",
                       "ask for a new one: POST /keys"},
};

const char *auth_address(const char *peer, char out[AUTH_ADDRESS_BYTES])
{
    struct in6_addr v6;
    if (inet_pton(AF_INET6, peer, &v6) != 1 || IN6_IS_ADDR_V4MAPPED(&v6))
        return peer;
    format_hex(v6.s6_addr, AUTH_PREFIX_BYTES, out);
    return out;
}

static bool refuse_rate(struct http_request *r, const char *message, int64_t wait_ns)
{
    http_fail_as(r, &(struct http_error){429, "rate_limited", message,
                                         "wait as long as Retry-After says",
                                         rate_limit_retry_after(wait_ns) * MS_PER_S});
    return false;
}

static bool refuse_address(struct http_request *r, int64_t wait_ns)
{
    return refuse_rate(r, "too many wrong tokens came from this address", wait_ns);
}

/* As RFC 6750 has them. */
static void format_scopes(unsigned scopes, char words[SCOPE_TEXT_BYTES])
{
    scope_format(scopes, words);
    for (char *c = words; (c = strchr(c, ','));)
        *c = ' ';
}

/* `url` is where this server is, if clients are told of RFC 9728's document; else NULL. */
static void add_challenge(struct http_request *r, const char *text, unsigned scopes,
                          const char *url)
{
    char words[SCOPE_TEXT_BYTES];
    scoped_strbuf struct strbuf all;
    strbuf_init(&all, CHALLENGE_BYTES);
    strbuf_add_str(&all, text);
    if (scopes) {
        format_scopes(scopes, words);
        strbuf_add_fmt(&all, ", scope=\"%s\"", words);
    }
    if (url)
        strbuf_add_fmt(&all, ", resource_metadata=\"%s" API_METADATA "\"", url);
    http_add_header(r, "WWW-Authenticate", all.overflow ? text : strbuf_str(&all));
}

static bool refuse_as(struct http_request *r, enum wrong wrong, const char *url)
{
    add_challenge(r, wrongs[wrong].challenge, url ? RESOURCE_SCOPES : 0, url);
    http_fail_as(
        r, &(struct http_error){401, "unauthorized", wrongs[wrong].message, wrongs[wrong].hint, 0});
    return false;
}

/* A secret was shown, and it was the wrong one: that counts. What comes too often is not logged,
 * either, so that nobody can fill the log. */
static bool refuse_secret(struct auth *a, struct http_request *r, enum wrong wrong,
                          const struct auth_key *key, const char *url)
{
    char text[AUTH_ADDRESS_BYTES];
    int64_t wait_ns;
    if (!rate_limit_take(a->addresses, auth_address(http_peer(r), text), &a->failures,
                         clock_now_ns(), &wait_ns))
        return refuse_address(r, wait_ns);
    struct log log = *a->log;
    log.request_id = http_id(r);
    log_warn(&log, "a token was refused", LOG_STR("peer", http_peer(r)),
             LOG_STR("reason", wrongs[wrong].message), LOG_STR("key", key ? key->id : NULL));
    return refuse_as(r, wrong, url);
}

/* Of `missing` 0: the internal token at the wrong door. */
static bool refuse_scope(struct http_request *r, unsigned missing, const char *url)
{
    char words[SCOPE_TEXT_BYTES], message[CHALLENGE_BYTES];
    scope_format(missing, words);
    if (missing)
        snprintf(message, sizeof(message), "this needs the scope '%s', which the key does not have",
                 words);
    else
        snprintf(message, sizeof(message), "the internal token is for internal routes alone");
    add_challenge(r, REALM ", error=\"insufficient_scope\"", missing, url);
    http_fail_as(r, &(struct http_error){403, "missing_scope", message,
                                         "use a key that has it, or the operator's token", 0});
    return false;
}

/* --- who it is -------------------------------------------------------------------------------- */

/* From this very machine, and not passed on by a proxy that stands here for others. */
static bool is_local(const struct http_request *r)
{
    static const char *const forwarded[] = {"forwarded", "via", "x-forwarded-for", "x-real-ip"};
    for (size_t i = 0; i < ARRAY_LEN(forwarded); i++) {
        if (http_header(r, forwarded[i]))
            return false;
    }
    const char *peer = http_peer(r);
    return strncmp(peer, "127.", 4) == 0 || strcmp(peer, "::1") == 0 ||
           strncmp(peer, "::ffff:127.", 11) == 0 || strcmp(peer, "unix") == 0;
}

struct who {
    struct auth_token *token; /* one of these, or none */
    struct auth_key *key;
};

/* The same steps for any secret: one hash, and three comparisons of hashes. */
static struct who identify(struct auth *a, const struct credential *c)
{
    static const uint8_t nobody[SHA256_BYTES];
    uint8_t hash[SHA256_BYTES];
    char id[ID_BYTES] = "";
    api_key_parse(c->text, c->len, id);
    struct auth_key *key = auth_find(a, id);
    api_key_hash(c->text, c->len, hash);
    bool is_operator = api_key_same(hash, a->operator.hash);
    bool is_internal = api_key_same(hash, a->internal.hash);
    bool is_key = api_key_same(hash, key ? key->hash : nobody);
    explicit_bzero(hash, sizeof(hash));
    return (struct who){.token = is_operator && a->operator.is_set
                        ? &a->operator: is_internal && a->internal.is_set ? &a->internal : NULL,
                        .key = is_key ? key : NULL, };
}

static void tell_rate(struct http_request *r, const struct auth_key *k, int64_t now_ns)
{
    const struct rate_state state = rate_bucket_look(&k->bucket, &k->rate, now_ns);
    const struct {
        const char *name;
        uint64_t value;
    } headers[] = {{"RateLimit-Limit", state.limit},
                   {"RateLimit-Remaining", state.left},
                   {"RateLimit-Reset", rate_limit_retry_after(state.full_in_ns)}};
    for (size_t i = 0; i < ARRAY_LEN(headers) && state.limit > 0; i++) {
        char text[FORMAT_BYTES];
        format_u64(headers[i].value, text);
        http_add_header(r, headers[i].name, text);
    }
}

static bool is_over(const struct auth_key *k)
{
    return k->revoked_ns || (k->expires_ns && clock_wall_ns() >= k->expires_ns);
}

static struct api_user *enter_by_key(struct auth *a, struct http_request *r, struct auth_key *k,
                                     const char *url)
{
    int64_t now_ns = clock_now_ns(), wait_ns;
    if (is_over(k)) {
        refuse_secret(a, r, k->revoked_ns ? WRONG_REVOKED : WRONG_EXPIRED, k, url);
        return NULL;
    }
    bool may_pass = rate_bucket_take(&k->bucket, &k->rate, now_ns, &wait_ns);
    tell_rate(r, k, now_ns);
    if (!may_pass) {
        refuse_rate(r, "this key has used up its rate of requests", wait_ns);
        return NULL;
    }
    auth_tell_used(a, k, now_ns);
    return &k->user;
}

bool auth_admit(struct auth *a, const char *owner, struct error *err)
{
    int64_t now_ns = clock_now_ns(), wait_ns;
    struct auth_key *k = auth_find(a, owner);
    if (!k)
        return true;
    if (is_over(k))
        error_set(err, ERROR_DENIED, "this key is over");
    else if (!rate_bucket_take(&k->bucket, &k->rate, now_ns, &wait_ns))
        error_set(err, ERROR_LIMIT,
                  "this key has used up its rate of requests: try again in %u seconds",
                  rate_limit_retry_after(wait_ns));
    else {
        auth_tell_used(a, k, now_ns);
        return true;
    }
    return false;
}

/* Whether the token counts here and now. */
static bool may_enter(struct auth *a, const struct http_request *r, const struct auth_token *t,
                      int64_t *wait_ns)
{
    char text[AUTH_ADDRESS_BYTES];
    return !t->is_short || rate_limit_may(a->addresses, auth_address(http_peer(r), text),
                                          &a->failures, clock_now_ns(), wait_ns);
}

static struct api_user *enter_by_token(struct auth *a, struct http_request *r, struct auth_token *t)
{
    int64_t wait_ns;
    if (may_enter(a, r, t, &wait_ns))
        return &t->user;
    refuse_address(r, wait_ns);
    return NULL;
}

static enum credential_answer read_credential(const struct http_request *r, struct credential *out)
{
    const char *protocols =
        http_head(r)->is_upgrade ? http_header(r, "sec-websocket-protocol") : NULL;
    return credential_find(http_header(r, "authorization"), http_header(r, "x-api-key"), protocols,
                           out);
}

/* NULL: it is answered. */
static struct api_user *authenticate(struct auth *a, struct http_request *r, const char *url)
{
    struct credential c;
    enum credential_answer answer = read_credential(r, &c);
    if (answer == CREDENTIAL_NONE && a->trusts_loopback && is_local(r))
        return &a->operator.user;
    if (answer == CREDENTIAL_NONE) {
        refuse_as(r, WRONG_NONE, url); /* nobody has guessed anything: not counted */
        return NULL;
    }
    if (answer != CREDENTIAL_FOUND) {
        refuse_secret(a, r, (enum wrong)answer, NULL, url);
        return NULL;
    }
    const struct who who = identify(a, &c);
    if (who.token)
        return enter_by_token(a, r, who.token);
    if (who.key)
        return enter_by_key(a, r, who.key, url);
    refuse_secret(a, r, WRONG_UNKNOWN, NULL, url);
    return NULL;
}

/* At an open door that says more to some: who it is, as far as that is known; NULL: anybody. A
 * wrong secret counts here, too, since an answer may tell the right one by what is in it. */
static struct api_user *recognise(struct auth *a, struct http_request *r)
{
    struct credential c;
    char text[AUTH_ADDRESS_BYTES];
    int64_t wait_ns;
    enum credential_answer answer = read_credential(r, &c);
    if (answer == CREDENTIAL_NONE && a->trusts_loopback && is_local(r))
        return &a->operator.user;
    if (answer != CREDENTIAL_FOUND)
        return NULL;
    const struct who who = identify(a, &c);
    if (who.token)
        return may_enter(a, r, who.token, &wait_ns) ? &who.token->user : NULL;
    if (who.key)
        return is_over(who.key) ? NULL : &who.key->user;
    rate_limit_take(a->addresses, auth_address(http_peer(r), text), &a->failures, clock_now_ns(),
                    &wait_ns);
    return NULL;
}

static unsigned missing_scopes(unsigned held, unsigned needed)
{
    unsigned missing = 0;
    for (size_t i = 0; i < SCOPE_COUNT; i++) {
        if (needed & 1u << i && !scope_allows(held, 1u << i))
            missing |= 1u << i;
    }
    return missing;
}

bool auth_authorize(struct http_request *r, const struct route *route, void *ctx)
{
    const struct api_server *server = ctx;
    const struct api_route *row = api_table_row(server->table, route);
    if (row->flags & API_KNOWS)
        http_set_user(r, recognise(server->api->auth, r));
    if (row->flags & API_OPEN)
        return true;
    bool is_resource = row->flags & API_RESOURCE;
    const char *url = is_resource ? server->api->public_url : NULL;
    struct api_user *user = authenticate(server->api->auth, r, url);
    if (!user)
        return false;
    /* The internal token opens nothing else, not even what needs no scope. */
    bool is_astray = user->scopes == SCOPE_INTERNAL && !(row->scope & SCOPE_INTERNAL);
    unsigned missing = missing_scopes(user->scopes, row->scope);
    if (missing || is_astray)
        return refuse_scope(r, missing, url);
    if (is_resource && !(user->scopes & (RESOURCE_SCOPES | SCOPE_ADMIN)))
        return refuse_scope(r, RESOURCE_SCOPES, url);
    http_set_user(r, user);
    return true;
}
