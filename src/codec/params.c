/* params.c - one row of functions per type of parameter */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/params.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/utf8.h"

#define SHOWN_BYTES 40 /* of a wrong value or name */
#define SHOWN_SIZE  (SHOWN_BYTES + sizeof("..."))
#define PATH_BYTES  128

struct reader {
    char path[PATH_BYTES]; /* of the field that is read: "files[2].path" */
    struct error *err;
};

struct type {
    const char *expected; /* in words */
    bool (*read)(struct reader *r, const struct param *p, const json_t *value, void *out);
    json_t *(*from_text)(const char *text); /* NULL: not for queries; the result may be NULL */
    void (*release)(const struct param *p, void *out);
    json_t *(*schema)(const struct param *p);
    json_t *(*write)(const struct param *p, const void *value);
};

static const struct type types[PARAM_TYPE_COUNT];

/* --- saying what is wrong -------------------------------------------------------------------- */

static bool refuse(struct reader *r, const char *what)
{
    error_set(r->err, ERROR_INVALID, "%s: %s", r->path, what);
    return false;
}

/* Valid UTF-8, cut between two characters. */
static void shorten(const char *text, char out[SHOWN_SIZE])
{
    scoped_strbuf struct strbuf clean;
    strbuf_init(&clean, 4 * MIB);
    utf8_add_clean(&clean, text, MIN(strlen(text), 4 * SHOWN_BYTES));
    size_t len = MIN(clean.len, SHOWN_BYTES);
    const char *bytes = strbuf_str(&clean);
    while (len < clean.len && len > 0 && ((unsigned char)bytes[len] & 0xc0) == 0x80)
        len--;
    snprintf(out, SHOWN_SIZE, "%.*s%s", (int)len, bytes, len < clean.len ? "..." : "");
}

static void show(const json_t *value, char out[SHOWN_SIZE])
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    shorten(text ? text : "", out);
    free(text);
}

static bool refuse_value(struct reader *r, const json_t *value, const char *expected)
{
    char shown[SHOWN_SIZE];
    show(value, shown);
    error_set(r->err, ERROR_INVALID, "%s: expected %s, not %s", r->path, expected, shown);
    return false;
}

static void *at(void *base, size_t offset)
{
    return (char *)base + offset;
}

static const void *at_const(const void *base, size_t offset)
{
    return (const char *)base + offset;
}

static size_t max_len(const struct param *p)
{
    return p->max_len ? p->max_len : PARAM_LEN_DEFAULT;
}

static bool has_range(const struct param *p)
{
    return p->min != 0 || p->max != 0;
}

static bool is_in_range(struct reader *r, const struct param *p, double value)
{
    char expected[96];
    if (has_range(p) ? value >= p->min && value <= p->max : value >= 0)
        return true;
    if (has_range(p))
        snprintf(expected, sizeof(expected), "must be between %.15g and %.15g, not %.15g", p->min,
                 p->max, value);
    else
        snprintf(expected, sizeof(expected), "must not be negative, and is %.15g", value);
    return refuse(r, expected);
}

/* --- text ------------------------------------------------------------------------------------ */

static bool is_good_text(struct reader *r, const struct param *p, const char *text, size_t len)
{
    char what[96];
    if (p->type != PARAM_STRING || len <= max_len(p)) {
        if (!p->check || p->check(text))
            return true;
        scoped_json json_t *value = json_stringn(text, len);
        return refuse_value(r, value, p->pattern ? p->pattern : "another text");
    }
    snprintf(what, sizeof(what), "has %zu bytes; at most %zu are taken", len, max_len(p));
    refuse(r, what);
    r->err->code = ERROR_TOO_LARGE;
    return false;
}

static bool read_string(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    if (!json_is_string(value))
        return refuse_value(r, value, "a string");
    if (!is_good_text(r, p, json_string_value(value), json_string_length(value)))
        return false;
    *(char **)out = xstrndup(json_string_value(value), json_string_length(value));
    return true;
}

static void release_string(const struct param *p, void *out)
{
    (void)p;
    free(*(char **)out);
    *(char **)out = NULL;
}

static json_t *schema_string(const struct param *p)
{
    json_t *s = json_pack("{s:s, s:I}", "type", "string", "maxLength", (json_int_t)max_len(p));
    if (p->pattern)
        json_object_set_new(s, "pattern", json_string(p->pattern));
    return s;
}

static json_t *write_string(const struct param *p, const void *value)
{
    (void)p;
    const char *text = *(char *const *)value;
    return json_text_or_null(text);
}

static json_t *text_of(const char *text)
{
    return json_string(text); /* NULL when it is not UTF-8 */
}

static bool read_choice(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    const char *text = json_string_value(value);
    char all[160] = "one of";
    for (int i = 0; p->choices[i]; i++) {
        if (text && strcmp(text, p->choices[i]) == 0) {
            *(int *)out = i;
            return true;
        }
        size_t len = strlen(all);
        snprintf(all + len, sizeof(all) - len, "%s %s", i ? "," : "", p->choices[i]);
    }
    return refuse_value(r, value, all);
}

static json_t *schema_choice(const struct param *p)
{
    json_t *list = json_array();
    for (int i = 0; p->choices[i]; i++)
        json_array_append_new(list, json_string(p->choices[i]));
    return json_pack("{s:s, s:o}", "type", "string", "enum", list);
}

static json_t *write_choice(const struct param *p, const void *value)
{
    return json_string(p->choices[*(const int *)value]);
}

/* --- numbers --------------------------------------------------------------------------------- */

static bool read_boolean(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    (void)p;
    if (!json_is_boolean(value))
        return refuse_value(r, value, "true or false");
    *(bool *)out = json_is_true(value);
    return true;
}

static json_t *boolean_of(const char *text)
{
    bool value;
    return parse_bool(text, &value) ? json_boolean(value) : NULL;
}

static json_t *schema_boolean(const struct param *p)
{
    (void)p;
    return json_pack("{s:s}", "type", "boolean");
}

static json_t *write_boolean(const struct param *p, const void *value)
{
    (void)p;
    return json_boolean(*(const bool *)value);
}

static bool read_integer(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    if (!json_is_integer(value))
        return refuse_value(r, value, "a whole number");
    if (!is_in_range(r, p, (double)json_integer_value(value)))
        return false;
    *(int64_t *)out = json_integer_value(value);
    return true;
}

static bool read_number(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    if (!json_is_number(value) || !isfinite(json_number_value(value)))
        return refuse_value(r, value, "a number");
    if (!is_in_range(r, p, json_number_value(value)))
        return false;
    *(double *)out = json_number_value(value);
    return true;
}

static bool read_seconds(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    double seconds = 0;
    if (!read_number(r, p, value, &seconds))
        return false;
    if (seconds > (double)INT64_MAX / 1e6)
        return refuse_value(r, value, "fewer seconds");
    uint64_t ms = (uint64_t)(seconds * 1000);
    *(uint64_t *)out = ms + ((double)ms < seconds * 1000); /* never cut to 0 */
    return true;
}

static bool read_size(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    uint64_t bytes;
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        bytes = (uint64_t)json_integer_value(value);
    else if (!json_is_string(value) || !parse_size(json_string_value(value), &bytes))
        return refuse_value(r, value, "a number of bytes, or a string such as \"256M\"");
    if (!is_in_range(r, p, (double)bytes))
        return false;
    *(uint64_t *)out = bytes;
    return true;
}

static json_t *integer_of(const char *text)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool is_plain = *text == '-' || (*text >= '0' && *text <= '9');
    return is_plain && !*end && !errno ? json_integer(value) : NULL;
}

static json_t *number_of(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    bool is_plain = strspn(text, "-0123456789.eE+") == strlen(text) && *text;
    return is_plain && !*end && isfinite(value) ? json_real(value) : NULL;
}

/* A range that a number of seconds can have is one of numbers; of integers it is one of integers:
 * 1e6 is no way to say a size. */
static json_t *schema_range(const struct param *p, const char *type, bool is_whole)
{
    json_t *s = json_pack("{s:s}", "type", type);
    double min = has_range(p) ? p->min : 0;
    json_object_set_new(s, "minimum", is_whole ? json_integer((json_int_t)min) : json_real(min));
    if (has_range(p))
        json_object_set_new(s, "maximum",
                            is_whole ? json_integer((json_int_t)p->max) : json_real(p->max));
    return s;
}

static json_t *schema_integer(const struct param *p)
{
    return schema_range(p, "integer", true);
}

static json_t *schema_number(const struct param *p)
{
    return schema_range(p, "number", false);
}

static json_t *schema_size(const struct param *p)
{
    return json_pack("{s:[o, {s:s, s:s}]}", "anyOf", schema_range(p, "integer", true), "type",
                     "string", "pattern", "^[0-9]+([KMGT]i?B?)?$");
}

/* 0 where 0 could not have been said: nothing was. */
static json_t *unless_absent(const struct param *p, double value, json_t *written)
{
    if (value != 0 || !has_range(p) || p->min <= 0)
        return written;
    json_decref(written);
    return json_null();
}

static json_t *write_integer(const struct param *p, const void *value)
{
    int64_t number = *(const int64_t *)value;
    return unless_absent(p, (double)number, json_integer(number));
}

static json_t *write_number(const struct param *p, const void *value)
{
    double number = *(const double *)value;
    return unless_absent(p, number, json_real(number));
}

static json_t *write_seconds(const struct param *p, const void *value)
{
    uint64_t ms = *(const uint64_t *)value;
    return unless_absent(p, (double)ms,
                         ms % 1000 ? json_real((double)ms / 1000) : json_number(ms / 1000));
}

static json_t *write_size(const struct param *p, const void *value)
{
    uint64_t bytes = *(const uint64_t *)value;
    return unless_absent(p, (double)bytes, json_number(bytes));
}

/* --- many ------------------------------------------------------------------------------------ */

static bool is_short(struct reader *r, const struct param *p, size_t count)
{
    char what[96];
    if (count <= max_len(p))
        return true;
    snprintf(what, sizeof(what), "has %zu entries; at most %zu are taken", count, max_len(p));
    refuse(r, what);
    r->err->code = ERROR_TOO_LARGE;
    return false;
}

static void enter(struct reader *r, size_t len, const char *format, const char *name, size_t index)
{
    if (name)
        snprintf(r->path + len, PATH_BYTES - len, format, name);
    else
        snprintf(r->path + len, PATH_BYTES - len, "[%zu]", index);
}

static bool read_strings(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    struct param_strings *list = out;
    size_t len = strlen(r->path), count = json_array_size(value);
    if (!json_is_array(value))
        return refuse_value(r, value, "a list of strings");
    if (!is_short(r, p, count))
        return false;
    list->items = xcalloc(count + 1, sizeof(*list->items));
    for (; list->count < count; list->count++) {
        const json_t *item = json_array_get(value, list->count);
        enter(r, len, NULL, NULL, list->count);
        if (!json_is_string(item))
            return refuse_value(r, item, "a string");
        if (!is_good_text(r, p, json_string_value(item), json_string_length(item)))
            return false;
        list->items[list->count] = xstrdup(json_string_value(item));
    }
    r->path[len] = '\0';
    return true;
}

static void release_strings(const struct param *p, void *out)
{
    (void)p;
    struct param_strings *list = out;
    while (list->count > 0)
        free(list->items[--list->count]);
    free(list->items);
    *list = (struct param_strings){0};
}

static json_t *schema_strings(const struct param *p)
{
    json_t *item = json_pack("{s:s}", "type", "string");
    if (p->pattern)
        json_object_set_new(item, "pattern", json_string(p->pattern));
    return json_pack("{s:s, s:o, s:I}", "type", "array", "items", item, "maxItems",
                     (json_int_t)max_len(p));
}

static json_t *write_strings(const struct param *p, const void *value)
{
    (void)p;
    const struct param_strings *list = value;
    json_t *out = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(out, json_string(list->items[i]));
    return out;
}

static bool read_map(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    struct param_map *map = out;
    const char *name;
    char shown[SHOWN_SIZE];
    json_t *item;
    size_t len = strlen(r->path), count = json_object_size(value);
    if (!json_is_object(value))
        return refuse_value(r, value, "an object of strings");
    if (!is_short(r, p, count))
        return false;
    map->names = xcalloc(count + 1, sizeof(*map->names));
    map->values = xcalloc(count + 1, sizeof(*map->values));
    json_object_foreach((json_t *)value, name, item)
    {
        shorten(name, shown);
        enter(r, len, ".%s", shown, 0);
        if (!is_good_text(r, p, name, strlen(name)))
            return false;
        if (!json_is_string(item))
            return refuse_value(r, item, "a string");
        map->names[map->count] = xstrdup(name);
        map->values[map->count++] = xstrdup(json_string_value(item));
    }
    r->path[len] = '\0';
    return true;
}

static void release_map(const struct param *p, void *out)
{
    (void)p;
    struct param_map *map = out;
    for (size_t i = 0; i < map->count; i++) {
        free(map->names[i]);
        free(map->values[i]);
    }
    free(map->names);
    free(map->values);
    *map = (struct param_map){0};
}

static json_t *schema_map(const struct param *p)
{
    json_t *s = json_pack("{s:s, s:{s:s}, s:I}", "type", "object", "additionalProperties", "type",
                          "string", "maxProperties", (json_int_t)max_len(p));
    if (p->pattern)
        json_object_set_new(s, "propertyNames", json_pack("{s:s}", "pattern", p->pattern));
    return s;
}

static json_t *write_map(const struct param *p, const void *value)
{
    (void)p;
    const struct param_map *map = value;
    json_t *out = json_object();
    for (size_t i = 0; i < map->count; i++)
        json_object_set_new(out, map->names[i], json_string(map->values[i]));
    return out;
}

static bool read_table(struct reader *r, const struct param_table *table, const json_t *value,
                       void *out);

static bool read_object(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    return read_table(r, p->table, value, out);
}

static void release_object(const struct param *p, void *out)
{
    params_release(out, p->table);
}

static json_t *schema_object(const struct param *p)
{
    return params_schema(p->table);
}

static json_t *write_object(const struct param *p, const void *value)
{
    return params_json(value, p->table);
}

static bool read_list(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    struct param_list *list = out;
    size_t len = strlen(r->path), count = json_array_size(value);
    if (!json_is_array(value))
        return refuse_value(r, value, "a list of objects");
    if (!is_short(r, p, count))
        return false;
    list->items = xcalloc(count + 1, p->table->size);
    while (list->count < count) {
        size_t i = list->count++; /* a half-read one is released, too */
        enter(r, len, NULL, NULL, i);
        if (!read_table(r, p->table, json_array_get(value, i), at(list->items, i * p->table->size)))
            return false;
    }
    r->path[len] = '\0';
    return true;
}

static void release_list(const struct param *p, void *out)
{
    struct param_list *list = out;
    while (list->count > 0)
        params_release(at(list->items, --list->count * p->table->size), p->table);
    free(list->items);
    *list = (struct param_list){0};
}

static json_t *schema_list(const struct param *p)
{
    return json_pack("{s:s, s:o, s:I}", "type", "array", "items", params_schema(p->table),
                     "maxItems", (json_int_t)max_len(p));
}

static json_t *write_list(const struct param *p, const void *value)
{
    const struct param_list *list = value;
    json_t *out = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(out,
                              params_json(at_const(list->items, i * p->table->size), p->table));
    return out;
}

static bool read_json(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    (void)r, (void)p;
    *(json_t **)out = json_incref((json_t *)value);
    return true;
}

static void release_json(const struct param *p, void *out)
{
    (void)p;
    json_decref(*(json_t **)out);
    *(json_t **)out = NULL;
}

static json_t *schema_json(const struct param *p)
{
    (void)p;
    return json_object();
}

static json_t *write_json(const struct param *p, const void *value)
{
    (void)p;
    json_t *any = *(json_t *const *)value;
    return any ? json_incref(any) : json_null();
}

static const struct type types[PARAM_TYPE_COUNT] = {
    [PARAM_STRING] = {"a string", read_string, text_of, release_string, schema_string,
                      write_string},
    [PARAM_CHOICE] = {"one of the words", read_choice, text_of, NULL, schema_choice, write_choice},
    [PARAM_BOOLEAN] = {"true or false", read_boolean, boolean_of, NULL, schema_boolean,
                       write_boolean},
    [PARAM_INTEGER] = {"a whole number", read_integer, integer_of, NULL, schema_integer,
                       write_integer},
    [PARAM_NUMBER] = {"a number", read_number, number_of, NULL, schema_number, write_number},
    [PARAM_SECONDS] = {"a number of seconds", read_seconds, number_of, NULL, schema_number,
                       write_seconds},
    [PARAM_SIZE] = {"a size", read_size, text_of, NULL, schema_size, write_size},
    [PARAM_MAP] = {NULL, read_map, NULL, release_map, schema_map, write_map},
    [PARAM_STRINGS] = {NULL, read_strings, NULL, release_strings, schema_strings, write_strings},
    [PARAM_OBJECT] = {NULL, read_object, NULL, release_object, schema_object, write_object},
    [PARAM_LIST] = {NULL, read_list, NULL, release_list, schema_list, write_list},
    [PARAM_JSON] = {NULL, read_json, NULL, release_json, schema_json, write_json},
};

/* --- tables ---------------------------------------------------------------------------------- */

static const struct param *find(const struct param_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct param *p = &table->rows[i];
        if (strcmp(p->name, name) == 0 || (p->other_name && strcmp(p->other_name, name) == 0))
            return p;
    }
    return NULL;
}

static bool refuse_unknown(struct reader *r, const struct param_table *table, const char *name)
{
    struct nearest nearest = {.word = name};
    char shown[SHOWN_SIZE];
    shorten(name, shown);
    for (size_t i = 0; i < table->count; i++)
        nearest_offer(&nearest, table->rows[i].name);
    error_set(r->err, ERROR_INVALID, "%s%s%s: no such field", r->path, r->path[0] ? "." : "",
              shown);
    if (nearest.best)
        error_hint(r->err, "did you mean '%s'?", nearest.best);
    return false;
}

static bool read_preset(struct reader *r, const struct param *p, void *out)
{
    json_error_t ignored;
    scoped_json json_t *preset =
        p->preset ? json_loads(p->preset, JSON_DECODE_ANY, &ignored) : NULL;
    if (!preset)
        return true;
    bool is_good = types[p->type].read(r, p, preset, at(out, p->offset));
    BUG_ON(!is_good);
    return true;
}

static bool read_row(struct reader *r, const struct param *p, const json_t *value, void *out)
{
    if (!value || json_is_null(value))
        return p->is_required ? refuse(r, "is required") : read_preset(r, p, out);
    if (!types[p->type].read(r, p, value, at(out, p->offset)))
        return false;
    if (p->has_offset)
        *(bool *)at(out, p->has_offset) = true;
    return true;
}

static bool read_table(struct reader *r, const struct param_table *table, const json_t *value,
                       void *out)
{
    const char *name;
    json_t *field;
    size_t len = strlen(r->path);
    if (!json_is_object(value)) {
        if (!len)
            snprintf(r->path, PATH_BYTES, "body");
        return refuse_value(r, value, "an object");
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
        enter(r, len, len ? ".%s" : "%s", !one && other ? p->other_name : p->name, 0);
        if (one && other) {
            char what[96];
            snprintf(what, sizeof(what), "is given twice, as %s too", p->other_name);
            return refuse(r, what);
        }
        if (!read_row(r, p, one ? one : other, out))
            return false;
    }
    r->path[len] = '\0';
    return true;
}

int params_read(void *out, const struct param_table *table, const json_t *value, struct error *err)
{
    struct reader r = {.err = err};
    memset(out, 0, table->size);
    if (read_table(&r, table, value, out))
        return 0;
    params_release(out, table);
    return -1;
}

static bool read_text(struct reader *r, const struct param_table *table,
                      const struct param_text *field, json_t *object)
{
    const struct param *p = find(table, field->name);
    if (!p || !types[p->type].from_text)
        return refuse_unknown(r, table, field->name);
    snprintf(r->path, PATH_BYTES, "%s", field->name);
    if (json_object_get(object, field->name))
        return refuse(r, "is given twice");
    json_t *value = types[p->type].from_text(field->value);
    if (!value) {
        scoped_json json_t *shown = json_text(field->value, strlen(field->value));
        return refuse_value(r, shown, types[p->type].expected);
    }
    json_object_set_new(object, field->name, value);
    r->path[0] = '\0';
    return true;
}

int params_read_query(void *out, const struct param_table *table, const struct param_text *fields,
                      size_t count, struct error *err)
{
    struct reader r = {.err = err};
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
        if (types[p->type].release)
            types[p->type].release(p, at(values, p->offset));
    }
}

json_t *params_json(const void *values, const struct param_table *table)
{
    json_t *out = json_object();
    for (size_t i = 0; i < table->count; i++) {
        const struct param *p = &table->rows[i];
        json_object_set_new(out, p->name, types[p->type].write(p, at_const(values, p->offset)));
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
    json_t *schema = types[p->type].schema(p);
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
