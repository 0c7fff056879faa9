/* params_type.c - one row of functions per type of parameter */
/* SPDX-License-Identifier: Apache-2.0 */
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
#include "codec/params_inside.h"

/* --- saying what is wrong -------------------------------------------------------------------- */

bool params_refuse(struct params_reader *r, const char *what)
{
    error_set(r->err, ERROR_INVALID, "%s: %s", r->path, what);
    return false;
}

void params_shorten(const char *text, char out[PARAMS_SHOWN_SIZE])
{
    scoped_strbuf struct strbuf clean;
    strbuf_init(&clean, 4 * MIB);
    utf8_add_clean(&clean, text, MIN(strlen(text), 4 * PARAMS_SHOWN_BYTES));
    size_t len = MIN(clean.len, PARAMS_SHOWN_BYTES);
    const char *bytes = strbuf_str(&clean);
    while (len < clean.len && len > 0 && ((unsigned char)bytes[len] & 0xc0) == 0x80)
        len--;
    snprintf(out, PARAMS_SHOWN_SIZE, "%.*s%s", (int)len, bytes, len < clean.len ? "..." : "");
}

static void show(const json_t *value, char out[PARAMS_SHOWN_SIZE])
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    params_shorten(text ? text : "", out);
    free(text);
}

bool params_refuse_value(struct params_reader *r, const json_t *value, const char *expected)
{
    char shown[PARAMS_SHOWN_SIZE] = "what was given";
    if (!r->is_secret)
        show(value, shown);
    error_set(r->err, ERROR_INVALID, "%s: expected %s, not %s", r->path, expected, shown);
    return false;
}

static size_t max_len(const struct param *p)
{
    return p->max_len ? p->max_len : PARAM_LEN_DEFAULT;
}

static bool has_range(const struct param *p)
{
    return p->min != 0 || p->max != 0;
}

static bool is_in_range(struct params_reader *r, const struct param *p, double value)
{
    char expected[96];
    if (has_range(p) ? value >= p->min && value <= p->max : value >= 0)
        return true;
    if (has_range(p))
        snprintf(expected, sizeof(expected), "must be between %.15g and %.15g, not %.15g", p->min,
                 p->max, value);
    else
        snprintf(expected, sizeof(expected), "must not be negative, and is %.15g", value);
    return params_refuse(r, expected);
}

/* --- text ------------------------------------------------------------------------------------ */

static bool is_good_text(struct params_reader *r, const struct param *p, const char *text,
                         size_t len)
{
    char what[96];
    if (p->type != PARAM_STRING || len <= max_len(p)) {
        if (!p->check || p->check(text))
            return true;
        scoped_json json_t *value = json_stringn(text, len);
        return params_refuse_value(r, value, p->pattern ? p->pattern : "another text");
    }
    snprintf(what, sizeof(what), "has %zu bytes; at most %zu are taken", len, max_len(p));
    params_refuse(r, what);
    r->err->code = ERROR_TOO_LARGE;
    return false;
}

static bool read_string(struct params_reader *r, const struct param *p, const json_t *value,
                        void *out)
{
    if (!json_is_string(value))
        return params_refuse_value(r, value, "a string");
    if (!is_good_text(r, p, json_string_value(value), json_string_length(value)))
        return false;
    *(char **)out = xstrndup(json_string_value(value), json_string_length(value));
    return true;
}

static void release_string(const struct param *p, void *out)
{
    if (p->is_secret && *(char **)out)
        explicit_bzero(*(char **)out, strlen(*(char **)out));
    free(*(char **)out);
    *(char **)out = NULL;
}

static json_t *schema_string(const struct param *p)
{
    json_t *s = json_pack("{s:s, s:I}", "type", "string", "maxLength", (json_int_t)max_len(p));
    if (p->pattern)
        json_object_set_new(s, "pattern", json_string(p->pattern));
    if (p->is_secret)
        json_object_set_new(s, "writeOnly", json_true());
    return s;
}

static json_t *write_string(const struct param *p, const void *value)
{
    const char *text = *(char *const *)value;
    return json_text_or_null(p->is_secret ? NULL : text);
}

static json_t *text_of(const char *text)
{
    return json_string(text); /* NULL when it is not UTF-8 */
}

static bool read_choice(struct params_reader *r, const struct param *p, const json_t *value,
                        void *out)
{
    const char *text = json_string_value(value);
    char all[160] = "one of";
    struct nearest nearest = {.word = text ? text : ""};
    for (int i = 0; p->choices[i]; i++) {
        nearest_offer(&nearest, p->choices[i]);
        if (text && strcmp(text, p->choices[i]) == 0) {
            *(int *)out = i;
            return true;
        }
        size_t len = strlen(all);
        snprintf(all + len, sizeof(all) - len, "%s %s", i ? "," : "", p->choices[i]);
    }
    params_refuse_value(r, value, all);
    if (nearest.best)
        error_hint(r->err, "did you mean '%s'?", nearest.best);
    return false;
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

static bool read_boolean(struct params_reader *r, const struct param *p, const json_t *value,
                         void *out)
{
    (void)p;
    if (!json_is_boolean(value))
        return params_refuse_value(r, value, "true or false");
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

static bool read_integer(struct params_reader *r, const struct param *p, const json_t *value,
                         void *out)
{
    if (!json_is_integer(value))
        return params_refuse_value(r, value, "a whole number");
    if (!is_in_range(r, p, (double)json_integer_value(value)))
        return false;
    *(int64_t *)out = json_integer_value(value);
    return true;
}

static bool read_number(struct params_reader *r, const struct param *p, const json_t *value,
                        void *out)
{
    if (!json_is_number(value) || !isfinite(json_number_value(value)))
        return params_refuse_value(r, value, "a number");
    if (!is_in_range(r, p, json_number_value(value)))
        return false;
    *(double *)out = json_number_value(value);
    return true;
}

static bool read_seconds(struct params_reader *r, const struct param *p, const json_t *value,
                         void *out)
{
    double seconds = 0;
    if (!read_number(r, p, value, &seconds))
        return false;
    if (seconds > (double)INT64_MAX / 1e6)
        return params_refuse_value(r, value, "fewer seconds");
    uint64_t ms = (uint64_t)(seconds * 1000);
    *(uint64_t *)out = ms + ((double)ms < seconds * 1000); /* never cut to 0 */
    return true;
}

static bool read_size(struct params_reader *r, const struct param *p, const json_t *value,
                      void *out)
{
    uint64_t bytes;
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        bytes = (uint64_t)json_integer_value(value);
    else if (!json_is_string(value) || !parse_size(json_string_value(value), &bytes))
        return params_refuse_value(r, value, "a number of bytes, or a string such as \"256M\"");
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

static bool is_short(struct params_reader *r, const struct param *p, size_t count)
{
    char what[96];
    if (count <= max_len(p))
        return true;
    snprintf(what, sizeof(what), "has %zu entries; at most %zu are taken", count, max_len(p));
    params_refuse(r, what);
    r->err->code = ERROR_TOO_LARGE;
    return false;
}

void params_enter(struct params_reader *r, size_t len, const char *format, const char *name,
                  size_t index)
{
    if (name)
        snprintf(r->path + len, PARAMS_PATH_BYTES - len, format, name);
    else
        snprintf(r->path + len, PARAMS_PATH_BYTES - len, "[%zu]", index);
}

static bool read_strings(struct params_reader *r, const struct param *p, const json_t *value,
                         void *out)
{
    struct param_strings *list = out;
    size_t len = strlen(r->path), count = json_array_size(value);
    if (!json_is_array(value))
        return params_refuse_value(r, value, "a list of strings");
    if (!is_short(r, p, count))
        return false;
    list->items = xcalloc(count + 1, sizeof(*list->items));
    for (; list->count < count; list->count++) {
        const json_t *item = json_array_get(value, list->count);
        params_enter(r, len, NULL, NULL, list->count);
        if (!json_is_string(item))
            return params_refuse_value(r, item, "a string");
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

static bool read_map(struct params_reader *r, const struct param *p, const json_t *value, void *out)
{
    struct param_map *map = out;
    const char *name;
    char shown[PARAMS_SHOWN_SIZE];
    json_t *item;
    size_t len = strlen(r->path), count = json_object_size(value);
    if (!json_is_object(value))
        return params_refuse_value(r, value, "an object of strings");
    if (!is_short(r, p, count))
        return false;
    map->names = xcalloc(count + 1, sizeof(*map->names));
    map->values = xcalloc(count + 1, sizeof(*map->values));
    json_object_foreach((json_t *)value, name, item)
    {
        params_shorten(name, shown);
        params_enter(r, len, ".%s", shown, 0);
        if (!is_good_text(r, p, name, strlen(name)))
            return false;
        if (!json_is_string(item))
            return params_refuse_value(r, item, "a string");
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

static bool read_object(struct params_reader *r, const struct param *p, const json_t *value,
                        void *out)
{
    return params_read_table(r, p->table, value, out);
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

static bool read_list(struct params_reader *r, const struct param *p, const json_t *value,
                      void *out)
{
    struct param_list *list = out;
    size_t len = strlen(r->path), count = json_array_size(value);
    if (!json_is_array(value))
        return params_refuse_value(r, value, "a list of objects");
    if (!is_short(r, p, count))
        return false;
    list->items = xcalloc(count + 1, p->table->size);
    while (list->count < count) {
        size_t i = list->count++; /* a half-read one is released, too */
        params_enter(r, len, NULL, NULL, i);
        if (!params_read_table(r, p->table, json_array_get(value, i),
                               params_at(list->items, i * p->table->size)))
            return false;
    }
    r->path[len] = '\0';
    return true;
}

static void release_list(const struct param *p, void *out)
{
    struct param_list *list = out;
    while (list->count > 0)
        params_release(params_at(list->items, --list->count * p->table->size), p->table);
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
        json_array_append_new(
            out, params_json(params_at_const(list->items, i * p->table->size), p->table));
    return out;
}

static bool read_json(struct params_reader *r, const struct param *p, const json_t *value,
                      void *out)
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

const struct params_type params_types[PARAM_TYPE_COUNT] = {
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
