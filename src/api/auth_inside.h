/* auth_inside.h - what the two files of auth share: tokens, and keys in memory */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/auth.h"
#include "base/map.h"
#include "core/api_key.h"

struct auth_token {
    uint8_t hash[SHA256_BYTES];
    bool is_set, is_short;
    struct api_user user;
};

struct auth_watch {
    struct auth_watch *next, **link; /* link: what points to it */
    void (*fn)(void *ctx);
    void *ctx;
    struct auth *auth;
    struct auth_key *key;
    struct loop_timer *timer; /* of a key that expires */
};

struct auth_key {
    struct map_node by_id;
    char id[ID_BYTES];
    uint8_t hash[SHA256_BYTES];
    struct rate_rule rate;
    struct rate_bucket bucket;
    int64_t expires_ns, revoked_ns;
    int64_t told_ns; /* monotonic: when the store was told that it is used; 0: never */
    struct api_user user;
    struct store_amounts quota;
    struct auth_watch *watches;
};

struct auth {
    struct loop *loop; /* NULL: none */
    struct store *store;
    const struct log *log;
    struct auth_token operator, internal;
    bool trusts_loopback;
    struct rate_rule failures, keys_rate;
    struct rate_limit *addresses;
    struct map keys;
    void (*loaded)(void *ctx, const struct error *err);
    void *loaded_ctx;
};

/* Whose failures are counted together: an IPv4 address, or the /64 of an IPv6 one, which is what a
 * customer of a provider has at least. Answers `peer` or `out`. */
#define AUTH_PREFIX_BYTES  8
#define AUTH_ADDRESS_BYTES (2 * AUTH_PREFIX_BYTES + 1)
const char *auth_address(const char *peer, char out[AUTH_ADDRESS_BYTES]);

/* auth_key.c */
struct auth_key *auth_find(const struct auth *a, const char *id); /* NULL: there is none */
void auth_tell_used(struct auth *a, struct auth_key *k, int64_t now_ns);
