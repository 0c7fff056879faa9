/* api_inside.h - a call, for the files that carry it */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"
#include "codec/sha256.h"

struct api_call {
    struct api *api;
    struct api_table *table;
    const struct api_route *row;
    struct http_request *request; /* NULL: the peer has left */
    char *id;                     /* of the request */
    char *owner;
    struct plane_caller caller;
    unsigned scopes;
    void *body, *query;
    char **parameters; /* name, value, ..., NULL: the request may leave before the call */
    void (*gone)(void *ctx);
    void *gone_ctx;
    struct {
        char *key; /* NULL: the client gave none */
        char resource[ID_BYTES];
        uint8_t hash[SHA256_BYTES];
        bool is_done; /* an earlier one was answered, and nothing of this one is written */
    } attempt;
};

void api_handle(struct http_request *r, void *ctx);

/* attempt.c: begins it and calls the handler, now or later; or answers. */
void attempt_begin(struct api_call *call, const char *key);
void attempt_end(struct api_call *call, int status, const char *text, size_t len);
void attempt_drop(struct api_call *call);
