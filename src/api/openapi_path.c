/* openapi_path.c - one row of the table of routes as an operation */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/openapi_inside.h"
#include "api/schemas.h"
#include "base/memory.h"
#include "base/strbuf.h"

#define NAME_PATTERN "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
#define JSON_TYPE    "application/json"
#define EVENT_TYPE   "text/event-stream"

/* --- the path --------------------------------------------------------------------------------- */

char *openapi_path(const char *prefix, const char *pattern)
{
    scoped_strbuf struct strbuf path;
    strbuf_init(&path, 4 * KIB);
    strbuf_add_str(&path, prefix);
    for (const char *at = pattern; *at; at++) {
        if (*at != '*')
            strbuf_add_char(&path, *at);
    }
    return strbuf_take(&path);
}

/* What stands for a name in a path is told by the word before it. */
struct place {
    const char *word;
    const char *pattern; /* NULL: the id of a kind */
    enum id_kind id;
    const char *help, *example;
};

static const struct place places[] = {
    {"sessions", NAME_PATTERN, .help = "The id of the session, or its name.",
     .example = "analysis"},
    {"executions", .id = ID_EXECUTION, .help = "The id of the execution."},
    {"templates", NAME_PATTERN, .help = "The id of the template, or its name.",
     .example = "python"},
    {"checkpoints", NAME_PATTERN, .help = "The id of the checkpoint, or its name."},
    {"keys", .id = ID_KEY, .help = "The id of the key."},
    {"containers", NAME_PATTERN, .help = "The id of the container."},
    {"variables", "^.{1,256}$", .help = "The name of the variable.", .example = "x"},
    {"files", "^.{1,4095}$", .help = "The path of the file in the workspace; it may have slashes."},
};

/* The word before the brace at `at`. */
static const struct place *find_place(const char *pattern, const char *at)
{
    const char *end = at - 1, *begin = end;
    while (begin > pattern && begin[-1] != '/')
        begin--;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        size_t len = strlen(places[i].word);
        if (len == (size_t)(end - begin) && strncmp(begin, places[i].word, len) == 0)
            return &places[i];
    }
    return NULL;
}

static json_t *path_parameter(const char *pattern, const char *at)
{
    const struct place *place = find_place(pattern, at);
    scoped_free char *name = xstrndup(at + 1, strcspn(at + 1, "*}"));
    char id[ID_PATTERN_BYTES];
    json_t *schema = json_pack("{s:s, s:i}", "type", "string", "minLength", 1);
    json_t *parameter = json_pack("{s:s, s:s, s:b, s:O}", "name", name, "in", "path", "required", 1,
                                  "schema", schema);
    if (place) {
        if (!place->pattern)
            id_pattern(place->id, id);
        json_object_set_new(schema, "pattern", json_string(place->pattern ? place->pattern : id));
        json_object_set_new(parameter, "description", json_string(place->help));
    }
    if (place && place->example)
        json_object_set_new(parameter, "example", json_string(place->example));
    json_decref(schema);
    return parameter;
}

/* --- parameters ------------------------------------------------------------------------------- */

static json_t *query_parameter(const struct param *row, const char *name)
{
    struct param there = *row; /* in a query there is no null */
    there.is_required = true;
    json_t *schema = params_row_schema(&there);
    json_object_del(schema, "description");
    return json_pack("{s:s, s:s, s:b, s:s, s:o}", "name", name, "in", "query", "required",
                     (int)row->is_required, "description", row->help ? row->help : "", "schema",
                     schema);
}

static void add_query(json_t *list, const struct param_table *table)
{
    for (size_t i = 0; table && i < table->count; i++) {
        const struct param *row = &table->rows[i];
        json_array_append_new(list, query_parameter(row, row->name));
        if (row->other_name)
            json_array_append_new(list, query_parameter(row, row->other_name));
    }
}

static void add_shared(json_t *list, const char *name)
{
    scoped_free char *ref = xasprintf("#/components/parameters/%s", name);
    json_array_append_new(list, json_pack("{s:s}", "$ref", ref));
}

static bool streams_events(const struct api_route *row)
{
    for (const struct api_reply *r = row->replies; r && r->status; r++) {
        if (r->type && strcmp(r->type, EVENT_TYPE) == 0)
            return true;
    }
    return false;
}

static json_t *make_parameters(const struct api_route *row)
{
    json_t *list = json_array();
    for (const char *at = row->pattern; (at = strchr(at, '{')); at++)
        json_array_append_new(list, path_parameter(row->pattern, at));
    add_query(list, row->query);
    if (row->flags & API_CREATES)
        add_shared(list, OPENAPI_IDEMPOTENCY_KEY);
    if (row->method == METHOD_GET && streams_events(row))
        add_shared(list, OPENAPI_LAST_EVENT_ID);
    return list;
}

/* --- the body --------------------------------------------------------------------------------- */

static json_t *row_example(const struct param *row)
{
    json_error_t ignored;
    if (row->example)
        return json_loads(row->example, JSON_DECODE_ANY, &ignored);
    if (row->is_required && row->choices)
        return json_string(row->choices[0]);
    if (row->is_required && row->type == PARAM_LIST)
        return json_pack("[o]", openapi_example(row->table));
    return NULL;
}

json_t *openapi_example(const struct param_table *table)
{
    json_t *object = json_object();
    for (size_t i = 0; i < table->count; i++) {
        json_t *example = row_example(&table->rows[i]);
        if (example)
            json_object_set_new(object, table->rows[i].name, example);
    }
    return object;
}

static bool has_body(const struct api_route *row)
{
    return row->body_max > 0 || row->flags & API_UPLOADS;
}

/* A form has files, under any name. */
static json_t *make_bytes(const struct api_route *row)
{
    if (!row->body_type)
        return json_pack("{s:b, s:{s:{}}}", "required", 1, "content", "application/octet-stream");
    return json_pack("{s:b, s:{s:{s:{s:s, s:{s:{s:s, s:s}}}}}}", "required", 1, "content",
                     row->body_type, "schema", "type", "object", "additionalProperties", "file",
                     "type", "string", "format", "binary");
}

static json_t *make_body(const struct api_route *row)
{
    bool is_required = false;
    if (!row->body)
        return make_bytes(row);
    for (size_t i = 0; i < row->body->count; i++)
        is_required |= row->body->rows[i].is_required;
    return json_pack("{s:b, s:{s:{s:o, s:o}}}", "required", (int)is_required, "content", JSON_TYPE,
                     "schema", shape_ref(row->body->name), "example", openapi_example(row->body));
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Of a stream of events the schema is that of each one. */
static json_t *reply_content(const struct api_reply *reply)
{
    if (reply->schema)
        return json_pack("{s:o}", "schema", shape_ref(reply->schema));
    return json_pack("{s:{s:s}}", "schema", "type", "string");
}

static void add_reply(json_t *responses, const struct api_reply *reply)
{
    char status[16];
    snprintf(status, sizeof(status), "%d", reply->status);
    json_t *response = json_object_get(responses, status);
    if (!response) {
        response = json_pack("{s:s, s:o}", "description", reply->help, "headers",
                             openapi_headers(reply->status));
        json_object_set_new(responses, status, response);
    } else {
        scoped_free char *both = xasprintf(
            "%s %s", json_string_value(json_object_get(response, "description")), reply->help);
        json_object_set_new(response, "description", json_string(both));
    }
    if (!reply->schema && !reply->type)
        return;
    if (!json_object_get(response, "content"))
        json_object_set_new(response, "content", json_object());
    json_object_set_new(json_object_get(response, "content"), reply->type ? reply->type : JSON_TYPE,
                        reply_content(reply));
}

static void add_error(json_t *responses, int status)
{
    char key[16];
    scoped_free char *name = openapi_status_name(status);
    scoped_free char *ref = xasprintf("#/components/responses/%s", name);
    snprintf(key, sizeof(key), "%d", status);
    if (!json_object_get(responses, key))
        json_object_set_new(responses, key, json_pack("{s:s}", "$ref", ref));
}

static void add_errors(json_t *responses, const int *statuses)
{
    for (; statuses && *statuses; statuses++)
        add_error(responses, *statuses);
}

static json_t *make_responses(const struct api_route *row)
{
    static const int always[] = {400, 403, 429, 500, 503, 507, 0}, with_token[] = {401, 0},
                     with_query[] = {413, 0}, with_body[] = {408, 413, 415, 422, 0},
                     with_key[] = {409, 0};
    json_t *responses = json_object();
    for (const struct api_reply *r = row->replies; r && r->status; r++)
        add_reply(responses, r);
    add_errors(responses, row->errors);
    add_errors(responses, always);
    if (!(row->flags & API_OPEN))
        add_errors(responses, with_token);
    if (row->query)
        add_errors(responses, with_query);
    if (has_body(row))
        add_errors(responses, with_body);
    if (row->flags & API_CREATES)
        add_errors(responses, with_key);
    return responses;
}

/* --- all of it -------------------------------------------------------------------------------- */

/* Scopes stand where OAuth has its own: for other schemes they are roles. */
static json_t *make_security(const struct api_route *row)
{
    json_t *scopes = json_array(), *list;
    if (row->flags & API_OPEN && !(row->flags & API_KNOWS)) {
        json_decref(scopes);
        return json_array();
    }
    for (int i = 0; i < SCOPE_COUNT; i++) {
        if (row->scope & 1u << i)
            json_array_append_new(scopes, json_string(scope_info((enum scope_index)i)->word));
    }
    if (row->scope & SCOPE_INTERNAL)
        list = json_pack("[{s:O}]", OPENAPI_INTERNAL, scopes);
    else
        list = json_pack("[{s:O}, {s:O}]", OPENAPI_BEARER, scopes, OPENAPI_API_KEY, scopes);
    json_decref(scopes);
    if (row->flags & API_KNOWS)
        json_array_insert_new(list, 0, json_object()); /* or nothing */
    return list;
}

json_t *openapi_operation(const struct api_route *row, const char *suffix)
{
    scoped_free char *id = xasprintf("%s%s", row->id, suffix);
    json_t *operation = json_pack("{s:s, s:[s], s:s}", "operationId", id, "tags", row->tag,
                                  "summary", row->summary);
    json_t *parameters = make_parameters(row);
    if (row->help)
        json_object_set_new(operation, "description", json_string(row->help));
    if (json_array_size(parameters) > 0)
        json_object_set(operation, "parameters", parameters);
    json_decref(parameters);
    if (has_body(row))
        json_object_set_new(operation, "requestBody", make_body(row));
    json_object_set_new(operation, "responses", make_responses(row));
    json_object_set_new(operation, "security", make_security(row));
    return operation;
}
