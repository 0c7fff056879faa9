/* params.c - tables of rows: read from JSON or a query, written as JSON, told as a schema */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "codec/params_inside.h"

static const struct param *find(const struct param_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct param *p = &table->rows[i];
        if (strcmp(p->name, name) == 0 || (p->other_name && strcmp(p->other_name, name) == 0))
            return p;
    }
    return NULL;
}

static bool refuse_unknown(struct params_reader *r, const struct param_table *table,
                           const char *name)
{
    struct nearest nearest = {.word = name};
    char shown[PARAMS_SHOWN_SIZE];
    params_shorten(name, shown);
    for (size_t i = 0; i < table->count; i++) {
        nearest_offer(&nearest, table->rows[i].name);
        if (table->rows[i].other_name)
            nearest_offer(&nearest, table->rows[i].other_name);
    }
    error_set(r->err, ERROR_INVALID, "%s%s%s: no such field", r->path, r->path[0] ? "." : "",
              shown);
    if (nearest.best)
        error_hint(r->err, "did you mean '%s'?", nearest.best);
    return false;
}

static bool read_preset(struct params_reader *r, const struct param *p, void *out)
{
    json_error_t ignored;
    scoped_json json_t *preset =
        p->preset ? json_loads(p->preset, JSON_DECODE_ANY, &ignored) : NULL;
    if (!preset)
        return true;
    bool is_good = params_types[p->type].read(r, p, preset, params_at(out, p->offset));
    BUG_ON(!is_good);
    return true;
}

static bool read_row(struct params_reader *r, const struct param *p, const json_t *value, void *out)
{
    if (!value || json_is_null(value))
        return p->is_required ? params_refuse(r, "is required") : read_preset(r, p, out);
    bool was_secret = r->is_secret;
    r->is_secret |= p->is_secret;
    bool is_good = params_types[p->type].read(r, p, value, params_at(out, p->offset));
    r->is_secret = was_secret;
    if (!is_good)
        return false;
    if (p->has_offset)
        *(bool *)params_at(out, p->has_offset) = true;
    return true;
}

bool params_read_table(struct params_reader *r, const struct param_table *table,
                       const json_t *value, void *out)
{
    const char *name;
    json_t *field;
    size_t len = strlen(r->path);
    if (!json_is_object(value)) {
        if (!len)
            snprintf(r->path, PARAMS_PATH_BYTES, "body");
        return params_refuse_value(r, value, "an object");
    }
    json_object_foreach((json_t *)value, name, field)
    {
        if (!find(table, name))
            return refuse_unknown(r, table, name);
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct param *p = &table->rows[i];
        const json_t *one = json_object_get(value, p->name);
        const json_t *other = p->other_name ? json_object_get(value, p->other_name) : NULL;
        params_enter(r, len, len ? ".%s" : "%s", !one && other ? p->other_name : p->name, 0);
        if (one && other) {
            char what[96];
            snprintf(what, sizeof(what), "is given twice, as %s too", p->other_name);
            return params_refuse(r, what);
        }
        if (!read_row(r, p, one ? one : other, out))
            return false;
    }
    r->path[len] = '\0';
    return true;
}

int params_read(void *out, const struct param_table *table, const json_t *value, struct error *err)
{
    struct params_reader r = {.err = err};
    memset(out, 0, table->size);
    if (params_read_table(&r, table, value, out))
        return 0;
    params_release(out, table);
    return -1;
}

static bool read_text(struct params_reader *r, const struct param_table *table,
                      const struct param_text *field, json_t *object)
{
    const struct param *p = find(table, field->name);
    if (!p || !params_types[p->type].from_text)
        return refuse_unknown(r, table, field->name);
    snprintf(r->path, PARAMS_PATH_BYTES, "%s", field->name);
    if (json_object_get(object, field->name))
        return params_refuse(r, "is given twice");
    json_t *value = params_types[p->type].from_text(field->value);
    if (!value) {
        scoped_json json_t *shown = json_text(field->value, strlen(field->value));
        return params_refuse_value(r, shown, params_types[p->type].expected);
    }
    json_object_set_new(object, field->name, value);
    r->path[0] = '\0';
    return true;
}

int params_read_query(void *out, const struct param_table *table, const struct param_text *fields,
                      size_t count, struct error *err)
{
    struct params_reader r = {.err = err};
    scoped_json json_t *object = json_object();
    memset(out, 0, table->size);
    for (size_t i = 0; i < count; i++) {
        if (!read_text(&r, table, &fields[i], object))
            return -1;
    }
    return params_read(out, table, object, err);
}

void params_release(void *values, const struct param_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct param *p = &table->rows[i];
        if (params_types[p->type].release)
            params_types[p->type].release(p, params_at(values, p->offset));
    }
}

json_t *params_json(const void *values, const struct param_table *table)
{
    json_t *out = json_object();
    for (size_t i = 0; i < table->count; i++) {
        const struct param *p = &table->rows[i];
        json_object_set_new(out, p->name,
                            params_types[p->type].write(p, params_at_const(values, p->offset)));
    }
    return out;
}

/* --- the schema ------------------------------------------------------------------------------ */

static void set_json(json_t *schema, const char *name, const char *text)
{
    json_error_t ignored;
    json_t *value = text ? json_loads(text, JSON_DECODE_ANY, &ignored) : NULL;
    BUG_ON(text && !value);
    if (value)
        json_object_set_new(schema, name, value);
}

/* null is as good as no field, where there need not be one. */
static void allow_null(json_t *schema)
{
    json_t *type = json_object_get(schema, "type"), *any = json_object_get(schema, "anyOf");
    json_t *choices = json_object_get(schema, "enum");
    if (type)
        json_object_set_new(schema, "type", json_pack("[O, s]", type, "null"));
    if (any)
        json_array_append_new(any, json_pack("{s:s}", "type", "null"));
    if (choices)
        json_array_append_new(choices, json_null());
}

json_t *params_row_schema(const struct param *p)
{
    json_t *schema = params_types[p->type].schema(p);
    if (!p->is_required)
        allow_null(schema);
    if (p->help)
        json_object_set_new(schema, "description", json_string(p->help));
    set_json(schema, "default", p->preset);
    if (p->example) {
        json_error_t ignored;
        json_object_set_new(schema, "examples",
                            json_pack("[o]", json_loads(p->example, JSON_DECODE_ANY, &ignored)));
    }
    return schema;
}

/* Of two names for one thing at most one is there, and exactly one when it is required. No anyOf at
 * the top of a schema: some readers of tools' schemas take none there. */
static void forbid_both(json_t *schema, json_t *pairs, const struct param *p)
{
    json_array_append_new(pairs, json_pack("{s:[s, s]}", "required", p->name, p->other_name));
    if (!p->is_required)
        return;
    json_object_set_new(schema, "if", json_pack("{s:[s]}", "required", p->other_name));
    json_object_set_new(schema, "else", json_pack("{s:[s]}", "required", p->name));
}

json_t *params_schema(const struct param_table *table)
{
    json_t *properties = json_object(), *required = json_array(), *pairs = json_array();
    json_t *schema = json_pack("{s:s, s:s, s:o, s:b}", "type", "object", "title", table->name,
                               "properties", properties, "additionalProperties", 0);
    for (size_t i = 0; i < table->count; i++) {
        const struct param *p = &table->rows[i];
        json_object_set_new(properties, p->name, params_row_schema(p));
        if (p->other_name)
            json_object_set_new(properties, p->other_name, params_row_schema(p));
        if (p->other_name)
            forbid_both(schema, pairs, p);
        else if (p->is_required)
            json_array_append_new(required, json_string(p->name));
    }
    if (json_array_size(required))
        json_object_set(schema, "required", required);
    if (json_array_size(pairs) == 1)
        json_object_set(schema, "not", json_array_get(pairs, 0));
    else if (json_array_size(pairs) > 1)
        json_object_set_new(schema, "not", json_pack("{s:O}", "anyOf", pairs));
    json_decref(required);
    json_decref(pairs);
    return schema;
}
