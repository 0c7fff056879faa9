/* openapi.c - the document around the operations: what they are about, and what they share */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/openapi_inside.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/schemas.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "codec/sha256.h"

#define TEXT_MAX (16 * MIB)

/* --- words ------------------------------------------------------------------------------------ */

static const char about[] =
    "Runs code that nobody has read yet in sealed sandboxes.\n\n"
    "Requests and answers are JSON. A field or parameter that is not listed here is refused by its "
    "name. A program that fails is a result; an error of this interface has the shape `Error`, and "
    "every answer carries `X-Request-Id`, by which it is found in the log.\n\n"
    "Before a request comes to its route, it may be refused as a message:\n\n";

struct tag {
    const char *name, *help;
};

static const struct tag tags[] = {
    {"sessions", "Sandboxes that live on: variables and files survive from one run to the next."},
    {"executions", "Code that is run, in a session or on its own, and what came of it."},
    {"files", "What is in the workspace of a session: bytes in, bytes out."},
    {"terminals", "A terminal in a session."},
    {"templates", "Named recipes for sandboxes."},
    {"keys", "Who may use this server, for what, and how much of it."},
    {"operation", "How the server is, what it can run, and what runs where."},
    {"docs", "This description."},
    {"internal", "What executors outside of the server report; each may be sent twice."},
};

const struct openapi_status openapi_statuses[] = {
    {400, "The request cannot be read: its JSON, a parameter or a header; the message says which."},
    {401, "The token is missing, or none that is known here."},
    {403, "The token may not do this, or the request comes from a page of another site."},
    {404, "There is no such thing, or it is not yours."},
    {405, "This path does not take this method."},
    {408, "The request did not arrive in time."},
    {409, "Not in the state that it is in."},
    {413, "The body, or something in it, is too large."},
    {415, "The body is in no form that is taken here."},
    {416, "The file has no such range."},
    {422, "The body was read, but a value in it cannot be taken; the message names the field."},
    {426, "This path speaks WebSocket."},
    {429, "Too many requests, or no room for one more; Retry-After says when to come back."},
    {500, "Something broke here; the log has it under the request's id."},
    {502, "The interpreter of a session gave an answer that makes no sense."},
    {503, "Not now: something that is needed does not answer."},
    {504, "Something that is needed did not answer in time."},
    {507, "There is no room left to store this."},
    {0},
};

/* --- parts ------------------------------------------------------------------------------------ */

/* What the HTTP layer refuses, by its own table. */
static json_t *make_info(void)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 64 * KIB);
    strbuf_add_str(&text, about);
    strbuf_add_str(&text, "| status | code | why |\n|---|---|---|\n");
    for (int i = REFUSAL_NONE + 1; i < REFUSAL_COUNT; i++) {
        const struct refusal_info *info = refusal_info((enum refusal)i);
        strbuf_add_fmt(&text, "| %d | `%s` | %s |\n", info->status, info->code, info->message);
    }
    return json_pack("{s:s, s:s, s:s, s:{s:s, s:s}, s:s}", "title", "Cove", "version", COVE_VERSION,
                     "summary", "Sealed sandboxes for code that nobody has read yet", "license",
                     "name", "Apache-2.0", "identifier", "Apache-2.0", "description",
                     strbuf_str(&text));
}

static json_t *make_tags(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < ARRAY_LEN(tags); i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s}", "name", tags[i].name, "description", tags[i].help));
    return list;
}

static json_t *make_security_schemes(void)
{
    return json_pack("{s:{s:s, s:s, s:s}, s:{s:s, s:s, s:s, s:s}, s:{s:s, s:s, s:s}}",
                     OPENAPI_BEARER, "type", "http", "scheme", "bearer", "description",
                     "An API key, or the operator's token.", OPENAPI_API_KEY, "type", "apiKey",
                     "in", "header", "name", "X-API-Key", "description",
                     "The same in a header of its own.", OPENAPI_INTERNAL, "type", "http", "scheme",
                     "bearer", "description", "The internal token, which only executors have.");
}

static json_t *make_parameters(void)
{
    json_t *key = json_pack(
        "{s:s, s:s, s:s, s:{s:s, s:i, s:i, s:s}}", "name", "Idempotency-Key", "in", "header",
        "description",
        "However often a request is sent with the same key, within a day, it has one effect and "
        "one answer.",
        "schema", "type", "string", "minLength", 1, "maxLength", 255, "pattern", "^[!-~]+$");
    json_t *last =
        json_pack("{s:s, s:s, s:s, s:{s:s}}", "name", "Last-Event-ID", "in", "header",
                  "description", "Goes on behind the event with this id; any other begins anew.",
                  "schema", "type", "string");
    return json_pack("{s:o, s:o}", OPENAPI_IDEMPOTENCY_KEY, key, OPENAPI_LAST_EVENT_ID, last);
}

struct header {
    const char *name, *help, *schema; /* schema as JSON */
    int statuses[3];                  /* that have it; none: all */
    bool is_sure;                     /* it is always there */
};

static const struct header headers[] = {
    {"X-Request-Id",
     "By which the request is found in the log.",
     "{\"type\": \"string\"}",
     {0},
     true},
    {"Retry-After",
     "Seconds after which to try again, where that is known.",
     "{\"type\": \"integer\", \"minimum\": 1}",
     {409, 429, 503},
     false},
    {"WWW-Authenticate", "How to show a token.", "{\"type\": \"string\"}", {401}, true},
};

static bool has_header(const struct header *h, int status)
{
    bool is_for_all = h->statuses[0] == 0;
    for (size_t i = 0; i < ARRAY_LEN(h->statuses); i++)
        is_for_all |= h->statuses[i] == status;
    return is_for_all;
}

json_t *openapi_headers(int status)
{
    json_t *object = json_object();
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        scoped_free char *ref = xasprintf("#/components/headers/%s", headers[i].name);
        if (has_header(&headers[i], status))
            json_object_set_new(object, headers[i].name, json_pack("{s:s}", "$ref", ref));
    }
    return object;
}

static json_t *make_headers(void)
{
    json_t *object = json_object();
    json_error_t ignored;
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        json_t *schema = json_loads(headers[i].schema, 0, &ignored);
        json_object_set_new(object, headers[i].name,
                            json_pack("{s:s, s:b, s:o}", "description", headers[i].help, "required",
                                      (int)headers[i].is_sure, "schema", schema));
    }
    return object;
}

char *openapi_status_name(int status)
{
    return xasprintf("Error%d", status);
}

static json_t *make_responses(void)
{
    json_t *object = json_object();
    for (const struct openapi_status *s = openapi_statuses; s->status; s++) {
        scoped_free char *name = openapi_status_name(s->status);
        json_object_set_new(object, name,
                            json_pack("{s:s, s:o, s:{s:{s:o}}}", "description", s->help, "headers",
                                      openapi_headers(s->status), "content", "application/json",
                                      "schema", shape_ref(SCHEMA_ERROR)));
    }
    return object;
}

/* Those of answers, and those of requests by the names of their tables. */
static json_t *make_schemas(const struct api_group *const *groups)
{
    json_t *object = json_object();
    for (size_t i = 0; i < schema_count; i++)
        json_object_set_new(object, schemas[i].name, shape_schema(&schemas[i]));
    for (; *groups; groups++) {
        for (size_t i = 0; i < (*groups)->count; i++) {
            const struct param_table *body = (*groups)->rows[i].body;
            if (body && !json_object_get(object, body->name))
                json_object_set_new(object, body->name, params_schema(body));
        }
    }
    return object;
}

/* --- paths ------------------------------------------------------------------------------------ */

static void add_row(json_t *paths, const struct api_route *row, const char *prefix,
                    const char *suffix)
{
    scoped_free char *method = xstrdup(method_name(row->method));
    scoped_free char *path = openapi_path(prefix, row->pattern);
    for (char *at = method; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    if (!json_object_get(paths, path))
        json_object_set_new(paths, path, json_object());
    json_object_set_new(json_object_get(paths, path), method, openapi_operation(row, suffix));
}

static json_t *make_paths(const struct api_group *const *groups)
{
    json_t *paths = json_object();
    for (; *groups; groups++) {
        for (size_t i = 0; i < (*groups)->count; i++) {
            const struct api_route *row = &(*groups)->rows[i];
            bool is_below = !(row->flags & API_ONLY_ROOT);
            if (row->flags & API_APART)
                continue;
            if (is_below)
                add_row(paths, row, API_PREFIX, "");
            if (row->flags & (API_AT_ROOT | API_ONLY_ROOT))
                add_row(paths, row, "", is_below ? "AtRoot" : "");
        }
    }
    return paths;
}

json_t *openapi_json(const struct api_group *const *groups)
{
    json_t *components =
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "schemas", make_schemas(groups), "responses",
                  make_responses(), "parameters", make_parameters(), "headers", make_headers(),
                  "securitySchemes", make_security_schemes());
    /* The server is where the document came from, whatever stands before it. */
    return json_pack("{s:s, s:s, s:o, s:[{s:s}], s:o, s:o, s:o}", "openapi", "3.1.0",
                     "jsonSchemaDialect", "https://json-schema.org/draft/2020-12/schema", "info",
                     make_info(), "servers", "url", "/", "tags", make_tags(), "paths",
                     make_paths(groups), "components", components);
}

/* --- the text --------------------------------------------------------------------------------- */

char *openapi_etag(const void *data, size_t len)
{
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    scoped(sha256) struct sha256 *h = sha256_new();
    sha256_add(h, data, len);
    sha256_end(h, hash);
    format_hex(hash, SHA256_BYTES, hex);
    return xasprintf("\"%.32s\"", hex);
}

struct openapi *openapi_new(const struct api_group *const *groups)
{
    struct openapi *o = xcalloc(1, sizeof(*o));
    scoped_json json_t *document = openapi_json(groups);
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, TEXT_MAX);
    json_add(&text, document, JSON_STYLE_COMPACT);
    o->len = text.len;
    o->text = strbuf_take(&text);
    o->etag = openapi_etag(o->text, o->len);
    return o;
}

void openapi_free(struct openapi *o)
{
    if (!o)
        return;
    free(o->text);
    free(o->etag);
    free(o);
}
