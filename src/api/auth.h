/* auth.h - who asks, and whether he may: tokens, API keys, scopes, rates
 *
 * Two tokens are the operator's own and come from the configuration; keys come from the store and
 * are all in memory, so that a request waits for nothing. One process changes keys, through the
 * functions below.
 *
 * What a secret is compared with is its hash, all of them in the same way and order whatever the
 * secret is, so that time tells nothing. Nothing here puts a secret into a log or an answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"
#include "core/rate_limit.h"

#define AUTH_TOKEN_STRONG_BYTES 20     /* a shorter one could be guessed, see auth.c */
#define AUTH_KEYS_MAX           100000 /* that can be made, the revoked ones included */

struct auth;

/* Borrowed for the call, but for `store` and `log`, which outlive it. */
struct auth_order {
    struct loop *loop; /* NULL: streams of keys go on when those expire */
    struct store *store;
    const struct log *log;
    const char *token;          /* the operator's; NULL: there is none */
    const char *internal_token; /* of executors that report; NULL: there is none */
    bool trusts_loopback;       /* who comes from this machine without a token is the operator */
    struct rate_rule failures;  /* refused secrets of one address; zeroed: 30 a minute */
    struct rate_rule keys;      /* of keys that have no rate of their own; zeroed: no limit */
};

/* ERROR_INVALID: a token that cannot be sent in a header, or both are the same. */
MUST_CHECK int auth_open(struct auth **out, const struct auth_order *order, struct error *err);

/* Reads all keys. To be called once, before the first request; not to be freed before `done`. */
void auth_load(struct auth *auth, void (*done)(void *ctx, const struct error *err), void *ctx);
void auth_free(struct auth *auth); /* after the server: requests borrow their users */
SCOPED_DEFINE(auth)

/* For http_server_config.authorize; `ctx` is the struct api_server. At an open door (API_OPEN)
 * everybody may pass; where it says so (API_KNOWS), who shows a valid secret is known. */
bool auth_authorize(struct http_request *r, const struct route *route, void *ctx);

/* For connections that carry many requests: whether this one of `owner` may come in, which counts
 * as it would at the door. ERROR_LIMIT: its rate is used up; ERROR_DENIED: the key is over. */
bool auth_admit(struct auth *auth, const char *owner, struct error *err);

/* --- keys, for whoever makes and revokes them ------------------------------------------------- */

/* Whether there is room for one more; ERROR_LIMIT. */
MUST_CHECK int auth_check_room(const struct auth *auth, struct error *err);
void auth_add(struct auth *auth, const struct store_key *key); /* one that is in the store */

/* What a key was given; false: there is no such key. */
bool auth_find_scopes(const struct auth *auth, const char *id, unsigned *out);

/* From now on it is refused, whatever the store says later; watches are told from inside. */
void auth_revoke(struct auth *auth, const char *id, int64_t now_ns);

/* For streams that go on after the request was let in: `fn` is called once when the key is revoked
 * or expires, and nothing more is to be sent then. NULL: `owner` is nobody's key (the operator). To
 * be freed before the auth, also from `fn`. */
struct auth_watch;
struct auth_watch *auth_watch_new(struct auth *auth, const char *owner, void (*fn)(void *ctx),
                                  void *ctx);
void auth_watch_free(struct auth_watch *watch); /* NULL is fine */
