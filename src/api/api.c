/* api.c - a request becomes a call: its parameters are read, its handler asked, its answer sent */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/api_inside.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "codec/url.h"

#define JSON_TYPE   "application/json"
#define ANSWER_MAX  (64 * MIB)
#define IDEMPOTENCY "idempotency-key"

/* --- its life --------------------------------------------------------------------------------- */

static void free_call(struct api_call *call)
{
    if (call->body)
        params_release(call->body, call->row->body);
    if (call->query)
        params_release(call->query, call->row->query);
    for (char **p = call->parameters; p && *p; p++)
        free(*p);
    free(call->parameters);
    free(call->attempt.key);
    free(call->body);
    free(call->query);
    free(call->owner);
    free(call->id);
    free(call);
}

static void on_gone(void *ctx)
{
    struct api_call *call = ctx;
    call->request = NULL;
    if (call->gone)
        call->gone(call->gone_ctx);
}

/* The names in the pattern, and what stands there. */
static char **copy_parameters(const struct http_request *r, const struct api_route *row)
{
    char **list = xcalloc(2 * ROUTE_PARAMETER_MAX + 1, sizeof(*list));
    size_t count = 0;
    for (const char *at = row->pattern; (at = strchr(at, '{')); at++) {
        char *name = xstrndup(at + 1, strcspn(at + 1, "*}"));
        list[count++] = name;
        list[count++] = xstrdup(http_parameter(r, name));
    }
    return list;
}

static struct api_call *new_call(struct http_request *r, const struct api_server *server)
{
    const struct api_user *user = http_user(r);
    struct api_call *call = xcalloc(1, sizeof(*call));
    call->api = server->api;
    call->table = server->table;
    call->row = api_table_row(server->table, http_route(r));
    call->request = r;
    call->id = xstrdup(http_id(r));
    call->owner = xstrdup(user ? user->caller.owner : "");
    if (user)
        call->caller = user->caller;
    call->caller.owner = call->owner;
    call->scopes = user ? user->scopes : 0;
    call->parameters = copy_parameters(r, call->row);
    http_on_gone(r, on_gone, call);
    return call;
}

/* --- what it says ----------------------------------------------------------------------------- */

static int read_query(struct api_call *call, struct error *err)
{
    const struct url *url = http_url(call->request);
    struct param_text fields[URL_QUERY_MAX];
    if (!call->row->query && url->pair_count == 0)
        return 0;
    if (!call->row->query)
        return error_set(err, ERROR_INVALID, "%s: unknown parameter: this route has none",
                         url->pairs[0].key);
    for (size_t i = 0; i < url->pair_count; i++)
        fields[i] = (struct param_text){url->pairs[i].key, url->pairs[i].value};
    call->query = xcalloc(1, call->row->query->size);
    return params_read_query(call->query, call->row->query, fields, url->pair_count, err);
}

static bool is_json(const char *type)
{
    size_t len = type ? strcspn(type, "; \t") : 0;
    return !type || (len == strlen(JSON_TYPE) && strncasecmp(type, JSON_TYPE, len) == 0);
}

static int read_body(struct api_call *call, struct error *err)
{
    const struct param_table *table = call->row->body;
    const struct json_limits limits = {.max_bytes = call->row->body_max};
    scoped_json json_t *value = NULL;
    if (!table || call->row->flags & API_STREAMS)
        return 0;
    size_t len;
    const char *text = http_body(call->request, &len);
    const char *type = http_header(call->request, "content-type");
    if (len > 0 && !is_json(type)) {
        error_set(err, ERROR_INVALID, "Content-Type: '%.100s' is not %s", type, JSON_TYPE);
        error_word(err, "unsupported_media_type");
        return error_hint(err, "send it with -H 'Content-Type: application/json'");
    }
    if (len == 0) /* the same as {}: tables say what must be there */
        value = json_object();
    else if (json_parse(&value, text, len, &limits, err) < 0)
        return -1;
    call->body = xcalloc(1, table->size);
    return params_read(call->body, table, value, err);
}

void api_handle(struct http_request *r, void *ctx)
{
    struct error err;
    struct api_call *call = new_call(r, ctx);
    const char *key = http_header(r, IDEMPOTENCY);
    if (read_query(call, &err) < 0 || read_body(call, &err) < 0)
        api_fail(call, &err);
    else if (key && call->row->flags & API_CREATES)
        attempt_begin(call, key);
    else
        call->row->handler(call);
}

struct api *api_of(const struct api_call *call)
{
    return call->api;
}

const struct api_route *api_row(const struct api_call *call)
{
    return call->row;
}

const struct plane_caller *api_caller(const struct api_call *call)
{
    return &call->caller;
}

unsigned api_scopes(const struct api_call *call)
{
    return call->scopes;
}

const char *api_id(const struct api_call *call)
{
    return call->id;
}

const void *api_body(const struct api_call *call)
{
    return call->body;
}

const void *api_query(const struct api_call *call)
{
    return call->query;
}

const char *api_parameter(const struct api_call *call, const char *name)
{
    for (char **p = call->parameters; *p; p += 2) {
        if (strcmp(p[0], name) == 0)
            return p[1];
    }
    BUG_ON(true);
    return "";
}

const char *api_resource(const struct api_call *call)
{
    return call->attempt.key ? call->attempt.resource : NULL;
}

bool api_is_done(const struct api_call *call)
{
    return call->attempt.is_done;
}

const struct openapi *api_openapi(const struct api_call *call)
{
    return api_table_openapi(call->table);
}

struct http_request *api_request(const struct api_call *call)
{
    return call->request;
}

void api_on_gone(struct api_call *call, void (*fn)(void *ctx), void *ctx)
{
    call->gone = fn;
    call->gone_ctx = ctx;
}

/* --- the answer ------------------------------------------------------------------------------- */

struct http_request *api_take(struct api_call *call)
{
    struct http_request *r = call->request;
    if (call->attempt.key)
        attempt_drop(call);
    if (r)
        http_on_gone(r, NULL, NULL);
    free_call(call);
    return r;
}

/* What is told to who comes again with the same Idempotency-Key. */
static void keep_answer(struct api_call *call, int status, const char *text, size_t len)
{
    if (call->attempt.key && status < 300)
        attempt_end(call, status, text, len);
    else if (call->attempt.key)
        attempt_drop(call);
    free(take_ptr(&call->attempt.key));
}

void api_answer_text(struct api_call *call, int status, const char *text, size_t len)
{
    keep_answer(call, status, text, len);
    struct http_request *r = api_take(call);
    if (r)
        http_respond(r, status, JSON_TYPE, text, len);
}

void api_answer(struct api_call *call, int status, json_t *document)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, ANSWER_MAX);
    json_add(&text, document, JSON_STYLE_COMPACT);
    json_decref(document);
    api_answer_text(call, status, strbuf_str(&text), text.len);
}

void api_answer_secret(struct api_call *call, int status, json_t *document, const char *secret)
{
    scoped_strbuf struct strbuf kept;
    scoped_json json_t *copy = json_copy(document);
    strbuf_init(&kept, ANSWER_MAX);
    json_object_set_new(copy, secret, json_null());
    json_add(&kept, copy, JSON_STYLE_COMPACT);
    keep_answer(call, status, strbuf_str(&kept), kept.len);
    api_answer(call, status, document);
}

void api_answer_empty(struct api_call *call, int status)
{
    struct http_request *r = api_take(call);
    if (r)
        http_respond(r, status, NULL, NULL, 0);
}

/* What broke inside is told to the operator, not to the client. */
static void log_failure(const struct api_call *call, const struct error *err)
{
    struct log log = *call->api->log;
    log.request_id = call->id;
    if (err->code == ERROR_INTERNAL)
        log_error(&log, "request failed", LOG_STR("route", call->row->id),
                  LOG_STR("error", err->msg));
}

/* A body that could be read, and what it says cannot be taken: that is another mistake than one
 * that is no JSON. */
static int status_of(const struct api_call *call, const struct error *err)
{
    bool is_header = err->word && strcmp(err->word, API_BAD_HEADER) == 0;
    bool is_value = err->code == ERROR_INVALID && call->body && !is_header;
    return is_value ? 422 : error_info(err->code)->http_status;
}

void api_fail(struct api_call *call, const struct error *err)
{
    const struct error copy = *err; /* it may be the call's */
    int status = status_of(call, err);
    log_failure(call, err);
    struct http_request *r = api_take(call);
    if (r)
        http_fail_with(r, status, &copy);
}

static void answer(struct api_call *call, int status, const char *text, size_t len,
                   const struct error *err)
{
    if (err)
        api_fail(call, err);
    else
        api_answer_text(call, status, text, len);
}

void api_answer_as(void *call, const char *text, size_t len, const struct error *err)
{
    answer(call, 200, text, len, err);
}

void api_answer_created(void *call, const char *text, size_t len, const struct error *err)
{
    answer(call, 201, text, len, err);
}

void api_answer_accepted(void *call, const char *text, size_t len, const struct error *err)
{
    answer(call, 202, text, len, err);
}
