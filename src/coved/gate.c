/* gate.c - a bearer token, compared in constant time */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coved/gate.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "core/api_key.h"

#define SCHEME "Bearer "

enum { OPERATOR, INTERNAL, WHO_COUNT };

struct gate {
    uint8_t hashes[WHO_COUNT][SHA256_BYTES];
};

static const struct api_user users[WHO_COUNT] = {
    [OPERATOR] = {.caller = {.owner = "", .sees_all = true}, .scopes = SCOPE_ADMIN},
    [INTERNAL] = {.caller = {.owner = ""}, .scopes = SCOPE_INTERNAL},
};

struct gate *gate_new(const char *token, const char *internal_token)
{
    struct gate *g = xcalloc(1, sizeof(*g));
    api_key_hash(token, strlen(token), g->hashes[OPERATOR]);
    api_key_hash(internal_token, strlen(internal_token), g->hashes[INTERNAL]);
    return g;
}

void gate_free(struct gate *g)
{
    free(g);
}

static const struct api_user *find_user(const struct gate *g, const struct http_request *r)
{
    const char *text = http_header(r, "authorization");
    if (!text || strncasecmp(text, SCHEME, strlen(SCHEME)) != 0)
        return NULL;
    text += strlen(SCHEME);
    for (size_t i = 0; i < WHO_COUNT; i++) {
        if (api_key_matches(text, strlen(text), g->hashes[i]))
            return &users[i];
    }
    return NULL;
}

bool gate_check(const struct gate *g, struct http_request *r, const struct api_route *row)
{
    static const struct http_error stranger = {401, "unauthorized", "this needs a token",
                                               "send 'Authorization: Bearer TOKEN'", 0};
    static const struct http_error denied = {403, "forbidden", "this token does not allow that",
                                             NULL, 0};
    const struct api_user *user = find_user(g, r);
    if (user)
        http_set_user(r, (void *)user);
    if (row->flags & API_OPEN)
        return true;
    if (!user)
        http_add_header(r, "WWW-Authenticate", "Bearer");
    if (!user || !scope_allows(user->scopes, row->scope)) {
        http_fail_as(r, user ? &denied : &stranger);
        return false;
    }
    return true;
}
