/* shape.c - one row of functions per type of field */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/shape.h"

#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "base/scoped.h"

/* --- types ------------------------------------------------------------------------------------ */

static json_t *schema_text(const struct shape_field *f)
{
    json_t *s = json_pack("{s:s}", "type", "string");
    if (f->of)
        json_object_set_new(s, "pattern", json_string(f->of));
    return s;
}

static json_t *schema_id(const struct shape_field *f)
{
    char pattern[ID_PATTERN_BYTES];
    id_pattern(f->id, pattern);
    return json_pack("{s:s, s:s}", "type", "string", "pattern", pattern);
}

static json_t *schema_time(const struct shape_field *f)
{
    (void)f;
    return json_pack("{s:s, s:s}", "type", "string", "format", "date-time");
}

static json_t *schema_word(const struct shape_field *f)
{
    json_t *words = json_array();
    for (size_t i = 0; f->words(i); i++)
        json_array_append_new(words, json_string(f->words(i)));
    return json_pack("{s:s, s:o}", "type", "string", "enum", words);
}

static json_t *schema_boolean(const struct shape_field *f)
{
    (void)f;
    return json_pack("{s:s}", "type", "boolean");
}

static json_t *schema_count(const struct shape_field *f)
{
    (void)f;
    return json_pack("{s:s, s:i}", "type", "integer", "minimum", 0);
}

static json_t *schema_integer(const struct shape_field *f)
{
    (void)f;
    return json_pack("{s:s}", "type", "integer");
}

static json_t *schema_number(const struct shape_field *f)
{
    (void)f;
    return json_pack("{s:s, s:i}", "type", "number", "minimum", 0);
}

json_t *shape_ref(const char *name)
{
    scoped_free char *ref = xasprintf("%s%s", SHAPE_REF_PREFIX, name);
    return json_pack("{s:s}", "$ref", ref);
}

static json_t *schema_object(const struct shape_field *f)
{
    json_t *any = json_array();
    for (const char *at = f->of; *at;) {
        size_t len = strcspn(at, "|");
        scoped_free char *name = xstrndup(at, len);
        json_array_append_new(any, shape_ref(name));
        at += len + (at[len] == '|');
    }
    if (json_array_size(any) > 1)
        return json_pack("{s:o}", "anyOf", any);
    json_t *only = json_incref(json_array_get(any, 0));
    json_decref(any);
    return only;
}

static json_t *schema_inner(const struct shape_field *f)
{
    return json_pack("{s:s, s:s, s:o}", "type", "string", "contentMediaType", "application/json",
                     "contentSchema", schema_object(f));
}

static json_t *schema_any(const struct shape_field *f)
{
    (void)f;
    return json_object();
}

static json_t *(*const types[SHAPE_TYPE_COUNT])(const struct shape_field *f) = {
    [SHAPE_TEXT] = schema_text,       [SHAPE_ID] = schema_id,
    [SHAPE_TIME] = schema_time,       [SHAPE_WORD] = schema_word,
    [SHAPE_BOOLEAN] = schema_boolean, [SHAPE_COUNT] = schema_count,
    [SHAPE_INTEGER] = schema_integer, [SHAPE_NUMBER] = schema_number,
    [SHAPE_OBJECT] = schema_object,   [SHAPE_INNER] = schema_inner,
    [SHAPE_ANY] = schema_any,
};

/* --- fields ----------------------------------------------------------------------------------- */

/* Takes the schema, and answers with one that takes null as well. */
static json_t *or_null(json_t *schema)
{
    json_t *type = json_object_get(schema, "type"), *words = json_object_get(schema, "enum");
    if (!type)
        return json_pack("{s:[o, {s:s}]}", "anyOf", schema, "type", "null");
    json_object_set_new(schema, "type", json_pack("[O, s]", type, "null"));
    if (words)
        json_array_append_new(words, json_null());
    return schema;
}

static json_t *field_schema(const struct shape_field *f)
{
    json_t *schema = types[f->type](f);
    json_error_t ignored;
    if (f->flags & SHAPE_LIST)
        schema = json_pack("{s:s, s:o}", "type", "array", "items", schema);
    if (f->flags & SHAPE_MAP)
        schema = json_pack("{s:s, s:o}", "type", "object", "additionalProperties", schema);
    if (f->flags & SHAPE_NULL)
        schema = or_null(schema);
    if (f->help)
        json_object_set_new(schema, "description", json_string(f->help));
    if (f->example)
        json_object_set_new(schema, "examples",
                            json_pack("[o]", json_loads(f->example, JSON_DECODE_ANY, &ignored)));
    return schema;
}

json_t *shape_schema(const struct shape *shape)
{
    json_t *properties = json_object(), *required = json_array();
    for (size_t i = 0; i < shape->count; i++) {
        const struct shape_field *f = &shape->fields[i];
        json_object_set_new(properties, f->name, field_schema(f));
        if (!(f->flags & SHAPE_OPTIONAL))
            json_array_append_new(required, json_string(f->name));
    }
    json_t *schema =
        json_pack("{s:s, s:s, s:o, s:o, s:b}", "type", "object", "title", shape->name, "properties",
                  properties, "required", required, "additionalProperties", 0);
    if (shape->help)
        json_object_set_new(schema, "description", json_string(shape->help));
    return schema;
}
