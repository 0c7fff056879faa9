/* test_openapi.c - the document says what the tables say: all of it, and nothing that is not there
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/openapi.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "api/schemas.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "check.h"
#include "core/template.h"
#include "store/store_record.h"

#define METHODS_MAX 8

typedef void (*row_fn)(const struct api_route *row, const json_t *document);

static void for_each_row(row_fn fn)
{
    scoped_json json_t *document = openapi_json(api_groups);
    for (size_t g = 0; api_groups[g]; g++) {
        for (size_t i = 0; i < api_groups[g]->count; i++) {
            if (!(api_groups[g]->rows[i].flags & API_APART))
                fn(&api_groups[g]->rows[i], document);
        }
    }
}

static json_t *operation(const json_t *document, const struct api_route *row, const char *prefix)
{
    char path[256], method[METHODS_MAX] = "";
    size_t len = (size_t)snprintf(path, sizeof(path), "%s", prefix);
    for (const char *at = row->pattern; *at; at++) {
        if (*at != '*')
            path[len++] = *at;
    }
    path[len] = '\0';
    const char *name = method_name(row->method);
    for (size_t i = 0; name[i]; i++)
        method[i] = (char)tolower((unsigned char)name[i]);
    json_t *paths = json_object_get(document, "paths");
    return json_object_get(json_object_get(paths, path), method);
}

/* --- every row -------------------------------------------------------------------------------- */

static void check_is_there(const struct api_route *row, const json_t *document)
{
    bool is_below = !(row->flags & API_ONLY_ROOT);
    bool is_at_root = row->flags & (API_ONLY_ROOT | API_AT_ROOT);
    assert_int_equal(operation(document, row, API_PREFIX) != NULL, is_below);
    assert_int_equal(operation(document, row, "") != NULL, is_at_root);
}

static void test_rows(void **state)
{
    (void)state;
    for_each_row(check_is_there);
}

/* What people read and programs are made of. */
static void check_is_whole(const struct api_route *row, const json_t *document)
{
    (void)document;
    if (!row->id || !row->tag || !row->summary || !row->handler || !row->replies ||
        !row->replies->status)
        fail_msg("%s: has no id, tag, summary, handler or replies", row->pattern);
    if (row->flags & API_OPEN && row->scope)
        fail_msg("%s: is open, and asks for a scope", row->id);
    if (row->body && row->body_max == 0)
        fail_msg("%s: has a body of no bytes", row->id);
    for (const struct api_reply *r = row->replies; r->status; r++) {
        if (!r->help)
            fail_msg("%s: reply %d has no words", row->id, r->status);
        if (r->schema && !schema_find(r->schema))
            fail_msg("%s: there is no shape '%s' in schemas.c", row->id, r->schema);
    }
}

static void test_whole(void **state)
{
    (void)state;
    for_each_row(check_is_whole);
}

static void check_tag(const struct api_route *row, const json_t *document)
{
    size_t i;
    json_t *tag;
    json_array_foreach(json_object_get(document, "tags"), i, tag)
    {
        if (strcmp(json_string_value(json_object_get(tag, "name")), row->tag) == 0)
            return;
    }
    fail_msg("%s: the tag '%s' is not described", row->id, row->tag);
}

static void test_tags(void **state)
{
    (void)state;
    for_each_row(check_tag);
}

/* The same table under one name; and no request by the name of an answer. */
static void check_body_name(const struct api_route *row, const json_t *document)
{
    if (!row->body)
        return;
    if (schema_find(row->body->name))
        fail_msg("%s: its request has the name of an answer, '%s'", row->id, row->body->name);
    scoped_json json_t *own = params_schema(row->body);
    json_t *schemas_there = json_object_get(json_object_get(document, "components"), "schemas");
    if (!json_equal(own, json_object_get(schemas_there, row->body->name)))
        fail_msg("%s: '%s' is the name of another table, too", row->id, row->body->name);
}

static void test_bodies(void **state)
{
    (void)state;
    for_each_row(check_body_name);
}

/* Examples are there to be copied. */
static void check_example(const struct api_route *row, const json_t *document)
{
    (void)document;
    struct error err;
    if (!row->body)
        return;
    scoped_json json_t *example = openapi_example(row->body);
    void *values = xcalloc(1, row->body->size);
    if (params_read(values, row->body, example, &err) < 0)
        fail_msg("%s: the example is refused: %s", row->id, err.msg);
    params_release(values, row->body);
    free(values);
}

static void test_examples(void **state)
{
    (void)state;
    for_each_row(check_example);
}

static void check_security(const struct api_route *row, const json_t *document)
{
    json_t *one = operation(document, row, row->flags & API_ONLY_ROOT ? "" : API_PREFIX);
    size_t ways = json_array_size(json_object_get(one, "security"));
    bool is_closed = !(row->flags & API_OPEN), knows = row->flags & API_KNOWS;
    size_t wanted = is_closed ? row->scope & SCOPE_INTERNAL ? 1 : 2 : 0;
    assert_int_equal(ways, knows ? 3 : wanted); /* one of which is none */
    bool has_401 = json_object_get(json_object_get(one, "responses"), "401");
    assert_int_equal(has_401, is_closed); /* a wrong token is none at an open door */
}

static void test_security(void **state)
{
    (void)state;
    for_each_row(check_security);
}

static void test_routes(void **state)
{
    (void)state;
    size_t count;
    scoped(api_table) struct api_table *table = api_table_new(0);
    const struct route *routes = api_table_routes(table, &count);
    const char *wrong = route_check(routes, count);
    if (wrong)
        fail_msg("%s", wrong);
}

/* --- the document ----------------------------------------------------------------------------- */

/* Walks with a list of its own: how deep schemas nest is nobody's promise. */
static void for_each_object(json_t *root, void (*fn)(json_t *object, json_t *root, json_t *seen))
{
    scoped_json json_t *left = json_pack("[O]", root), *seen = json_object();
    while (json_array_size(left) > 0) {
        size_t last = json_array_size(left) - 1;
        scoped_json json_t *value = json_incref(json_array_get(left, last));
        json_array_remove(left, last);
        const char *key;
        size_t i;
        json_t *member;
        if (json_is_object(value))
            fn(value, root, seen);
        json_object_foreach(value, key, member)
        {
            json_array_append(left, member);
        }
        json_array_foreach(value, i, member)
        {
            json_array_append(left, member);
        }
    }
}

static void check_ref(json_t *object, json_t *root, json_t *seen)
{
    (void)seen;
    const char *ref = json_string_value(json_object_get(object, "$ref"));
    if (!ref)
        return;
    assert_int_equal(strncmp(ref, "#/", 2), 0);
    json_t *at = root;
    for (const char *word = ref + 2; at && *word;) {
        size_t len = strcspn(word, "/");
        at = json_object_getn(at, word, len);
        word += len + (word[len] == '/');
    }
    if (!at)
        fail_msg("%s: leads nowhere", ref);
}

static void test_refs(void **state)
{
    (void)state;
    scoped_json json_t *document = openapi_json(api_groups);
    for_each_object(document, check_ref);
}

static void check_id(json_t *object, json_t *root, json_t *seen)
{
    (void)root;
    const char *id = json_string_value(json_object_get(object, "operationId"));
    if (!id)
        return;
    if (json_object_get(seen, id))
        fail_msg("%s: is the id of two operations", id);
    json_object_set_new(seen, id, json_true());
}

static void test_ids(void **state)
{
    (void)state;
    scoped_json json_t *document = openapi_json(api_groups);
    for_each_object(document, check_id);
}

static void test_text(void **state)
{
    (void)state;
    scoped(openapi) struct openapi *one = openapi_new(api_groups), *two = openapi_new(api_groups);
    assert_string_equal(one->text, two->text);
    assert_string_equal(one->etag, two->etag);
    assert_int_equal(one->len, strlen(one->text));
    assert_int_equal(one->etag[0], '"');
}

/* --- shapes ----------------------------------------------------------------------------------- */

static json_t *property(const char *shape, const char *field)
{
    scoped_json json_t *schema = shape_schema(schema_find(shape));
    json_t *found = json_object_get(json_object_get(schema, "properties"), field);
    assert_non_null(found);
    return json_incref(found);
}

struct field {
    const char *name;
    const char *shape, *field, *want;
};

static const struct field fields[] = {
    {"a word is one of the table's", "Session", "state",
     "{\"type\":\"string\",\"enum\":[\"creating\",\"ready\",\"busy\",\"failed\",\"terminating\","
     "\"terminated\"]}"},
    {"an id has its pattern", "Session", "id",
     "{\"type\":\"string\",\"pattern\":\"^ses_[0123456789abcdefghjkmnpqrstvwxyz]{26}$\"}"},
    {"what may be null says so", "Execution", "started_at",
     "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"},
    {"another shape is named", "Execution", "usage", "{\"$ref\":\"#/components/schemas/Usage\"}"},
    {"another shape or null", "Execution", "error",
     "{\"anyOf\":[{\"$ref\":\"#/components/schemas/Exception\"},{\"type\":\"null\"}]}"},
    {"a list of them", "SessionList", "sessions",
     "{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/Session\"}}"},
};

static void test_field(void **state)
{
    const struct field *row = *state;
    scoped_json json_t *schema = property(row->shape, row->field);
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 4096);
    json_object_del(schema, "description");
    json_object_del(schema, "examples");
    json_add(&text, schema, JSON_STYLE_COMPACT);
    assert_string_equal(strbuf_str(&text), row->want);
}

static void test_required(void **state)
{
    (void)state;
    scoped_json json_t *schema = shape_schema(schema_find("Execution"));
    size_t fields_there = json_object_size(json_object_get(schema, "properties"));
    size_t required = json_array_size(json_object_get(schema, "required"));
    assert_int_equal(required + 3,
                     fields_there); /* all but `files`, `requirements`, `limits_not_in_force` */
    assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
}

struct pair {
    const char *name;
    const struct param_table *table;
    const char *shape;
};

/* What is answered is what was asked for, and more. */
static const struct pair pairs[] = {
    {"a template has all that can be asked of one", &template_table, "Template"},
    {"its resources, too", &resource_table, "TemplateResources"},
    {"its network, too", &network_table, "SessionNetwork"},
};

static void test_pair(void **state)
{
    const struct pair *pair = *state;
    for (size_t i = 0; i < pair->table->count; i++) {
        scoped_json json_t *schema = property(pair->shape, pair->table->rows[i].name);
        assert_non_null(schema);
    }
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "every row is in it, wherever it is served", test_rows);
    check_one(&check, "every row says what it is, and names shapes that exist", test_whole);
    check_one(&check, "every tag is described", test_tags);
    check_one(&check, "every request has a name of its own", test_bodies);
    check_one(&check, "every example is a good request", test_examples);
    check_one(&check, "every row says who may use it", test_security);
    check_one(&check, "no two routes fit one path", test_routes);
    check_one(&check, "every reference leads somewhere", test_refs);
    check_one(&check, "every operation has an id of its own", test_ids);
    check_one(&check, "the same tables give the same text", test_text);
    check_rows(&check, fields, test_field);
    check_one(&check, "a field is there unless it is optional, and no other is", test_required);
    check_rows(&check, pairs, test_pair);
    return check_run(&check, "openapi");
}
