/* api.h - the control plane's doors: rows of one table, and a request on its way through one
 *
 * A row says everything about a route: who may use it, what it takes, what it answers, who handles
 * it. Requests are checked against it before a handler sees them, and /openapi.json is made of it.
 *
 * A handler answers each call exactly once, now or later: by one of the api_answer functions, by
 * api_fail(), or by api_take() and the functions of http.h. With that the call is gone. A peer that
 * left changes nothing about it: the answer then goes nowhere. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/params.h"
#include "core/plane.h"
#include "core/scope.h"
#include "http/http.h"

#define API_PREFIX   "/api/v1"
#define API_METADATA "/.well-known/oauth-protected-resource/mcp" /* of API_RESOURCE: RFC 9728 */

struct api_call;
struct auth;
struct mcp_http;
struct metrics;
struct openapi;
struct shelf;
struct workspaces;

enum api_flags {
    API_CREATES = 1 << 0,   /* honours Idempotency-Key; answers with a document */
    API_OPEN = 1 << 1,      /* asks for no token */
    API_AT_ROOT = 1 << 2,   /* also without API_PREFIX */
    API_ONLY_ROOT = 1 << 3, /* not below API_PREFIX */
    API_STREAMS = 1 << 4,   /* the handler is called at the head and reads the body itself */
    API_KNOWS = 1 << 5,     /* open, and says more to who brings a token (api_scopes()) */
    API_UPLOADS = 1 << 6,   /* its body may be as large as the operator says, beside body_max */
    API_APART = 1 << 7,     /* speaks a protocol of its own: not in /openapi.json */
    API_RESOURCE = 1 << 8,  /* of MCP: who is refused is told where to learn how to get in */
};

/* What may come of it, beside the errors that are told in the one shape. */
struct api_reply {
    int status;         /* 0 ends a list */
    const char *schema; /* a name of schemas.h; NULL: no body */
    const char *type;   /* NULL: application/json */
    const char *help;
};

struct api_route {
    enum method method;
    const char *pattern; /* as in route.h, without API_PREFIX */
    unsigned scope;      /* bits of scope.h, all of which are needed */
    unsigned flags;
    size_t body_max;                 /* 0: no body */
    const struct param_table *body;  /* JSON; NULL: none, or read by the handler */
    const char *body_type;           /* of one that the handler reads; NULL: any bytes */
    const struct param_table *query; /* NULL: none */
    void (*handler)(struct api_call *call);
    /* API_CREATES: an earlier process began this very call and died. Answers when api_resource()
     * was made, or goes on as the handler. NULL: the handler. It is also asked when the first was
     * answered with more than is kept, as executions may be: api_is_done(), nothing is to be made.
     */
    void (*again)(struct api_call *call);

    enum id_kind makes; /* API_CREATES: ids of what */

    const char *id; /* "createSession" */
    const char *tag;
    const char *summary;
    const char *help; /* NULL: the summary says all */
    const struct api_reply *replies;
    const int *errors; /* statuses that are told in the shape of errors, up to 0, beside those that
                        * every route has (400, 401, 403, 429, 500, 503) */
};

/* A group of them, one per file. */
struct api_group {
    const struct api_route *rows;
    size_t count;
};

extern const struct api_group *const api_groups[]; /* up to NULL */

/* What handlers use; all of it is borrowed and outlives every call. */
struct api {
    struct loop *loop;
    struct log *log;
    struct store *store;
    struct workspaces *workspaces;
    struct blob *blob;       /* workspaces at rest; NULL: nothing is kept */
    struct blob *artifacts;  /* the archive's; NULL: nothing is kept */
    uint64_t redirect_bytes; /* artifacts of this size and more come from the bucket; 0: none do */
    struct archive *archive; /* NULL: nothing that executions make is kept */
    const struct links *links; /* NULL: there are no signed addresses */
    struct catalog *catalog;
    struct shelf *shelf;
    struct capacity *capacity;
    struct spawner_client *spawner;
    struct plane *plane;
    struct auth *auth;
    struct metrics *metrics;
    struct mcp_http *mcp;
    struct http_server *server; /* NULL: there is none yet */
    const char *data_dir;       /* whose disk /health looks at; NULL: none */
    const char *public_url;
    bool has_address; /* others can open what begins with it: false at a socket */
    const char *node;
    uint64_t epoch;
    int64_t started_ns;               /* monotonic */
    struct attempt_outcome *outcomes; /* of attempts, that are not written yet */
    size_t outcome_count;
    struct placing *placings; /* of uploads, whose removal the storage has not answered yet */
    bool is_draining;         /* it is to stop: /health/ready says so */
    bool is_rootless;
    uint32_t layers;          /* that sandboxes have here: bits of enum layer; 0: not known yet */
    uint32_t kernel_features; /* bits of enum linux_feature; known when layers are */
};

/* Forgets what could not be written of attempts; after the store. */
void attempt_free_all(struct api *api);
/* Forgets what uploads wait for; after the calls, right before the blobs go. */
void placing_free_all(struct api *api);

/* The rows as http_server.h takes them, with the prefix; owned by the table. */
struct api_table;
struct api_table *api_table_new(uint64_t upload_max); /* bytes; see API_UPLOADS */
void api_table_free(struct api_table *table);
SCOPED_DEFINE(api_table)
const struct route *api_table_routes(const struct api_table *table, size_t *count);
const struct api_route *api_table_row(const struct api_table *table, const struct route *route);

/* The document about them; made when it is first asked for, owned by the table. */
const struct openapi *api_table_openapi(struct api_table *table);

/* The handler of all of these routes has this ctx, and so has whoever authorizes. */
struct api_server {
    struct api *api;
    struct api_table *table;
};

/* --- a call ----------------------------------------------------------------------------------- */

struct api *api_of(const struct api_call *call);
const struct api_route *api_row(const struct api_call *call);
const struct plane_caller *api_caller(const struct api_call *call);
unsigned api_scopes(const struct api_call *call);   /* what the caller holds */
const char *api_id(const struct api_call *call);    /* the request's */
const void *api_body(const struct api_call *call);  /* the struct of the row's table */
const void *api_query(const struct api_call *call); /* the same */
const char *api_parameter(const struct api_call *call, const char *name);
const struct openapi *api_openapi(const struct api_call *call);

/* The id that what is created is to have: the same for every try with one Idempotency-Key. NULL:
 * any will do. */
const char *api_resource(const struct api_call *call);
bool api_is_done(const struct api_call *call); /* it was made, and may be gone by now */

/* NULL: the peer has left. Borrowed; may be asked, not answered. */
struct http_request *api_request(const struct api_call *call);

/* The peer left: what it asked for may be ended. The call still has to be answered. */
void api_on_gone(struct api_call *call, void (*fn)(void *ctx), void *ctx);

/* `document` is taken. */
void api_answer(struct api_call *call, int status, json_t *document);
/* The same, but the field `secret` of the document is told this once: to whoever comes again with
 * the same Idempotency-Key it is null, since what is kept for him has no secrets in it. */
void api_answer_secret(struct api_call *call, int status, json_t *document, const char *secret);
/* JSON that is text already; copied. */
void api_answer_text(struct api_call *call, int status, const char *text, size_t len);
void api_answer_empty(struct api_call *call, int status);
/* ERROR_INVALID is 400, or 422 when the call has a body that was read: then it is about a value in
 * that, unless its word is API_BAD_HEADER. */
#define API_BAD_HEADER "invalid_header"
void api_fail(struct api_call *call, const struct error *err);

/* Ends the call without an answer: the handler goes on with the request alone, by http.h. NULL: the
 * peer has left, and there is nothing more to do. */
struct http_request *api_take(struct api_call *call);

/* For plane_fn: answers with its document, and `status` when it went well. */
void api_answer_as(void *call, const char *text, size_t len, const struct error *err); /* 200 */
void api_answer_created(void *call, const char *text, size_t len,
                        const struct error *err); /* 201 */
void api_answer_accepted(void *call, const char *text, size_t len,
                         const struct error *err); /* 202 */

/* --- who asks --------------------------------------------------------------------------------- */

/* Set by auth for each request that it lets pass, with http_set_user(). Owned by auth. */
struct api_user {
    struct plane_caller caller;
    unsigned scopes;
};
