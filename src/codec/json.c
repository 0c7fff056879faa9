/* json.c - limits before the parser, clean text after it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/json.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/utf8.h"

#define PRINT_MAX_BYTES (1 * GIB) /* far above any answer: values are bounded when built */

/* jansson recurses once per level, so the depth is known before it starts. Brackets in a broken
 * document may be miscounted; the parser refuses that document anyway. */
static size_t measure_depth(const char *text, size_t len)
{
    size_t depth = 0, deepest = 0;
    bool is_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (is_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                is_string = false;
        } else if (c == '"') {
            is_string = true;
        } else if (c == '{' || c == '[') {
            depth++;
            deepest = MAX(deepest, depth);
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return deepest;
}

int json_parse(json_t **out, const char *text, size_t len, const struct json_limits *limits,
               struct error *err)
{
    size_t max_depth = limits->max_depth ? limits->max_depth : JSON_DEPTH_MAX;
    BUG_ON(limits->max_bytes == 0);
    if (len > limits->max_bytes)
        return error_set(err, ERROR_TOO_LARGE, "JSON longer than %zu bytes", limits->max_bytes);
    if (measure_depth(text, len) > max_depth)
        return error_set(err, ERROR_TOO_LARGE, "JSON nested deeper than %zu", max_depth);

    json_error_t cause;
    size_t flags = JSON_REJECT_DUPLICATES | (limits->has_nul ? JSON_ALLOW_NUL : 0);
    json_t *value = json_loadb(text, len, flags, &cause);
    if (!value) {
        scoped_strbuf struct strbuf words; /* they quote the text, and cut it anywhere */
        strbuf_init(&words, 4 * sizeof(cause.text));
        utf8_add_clean(&words, cause.text, strlen(cause.text));
        return error_set(err, ERROR_INVALID, "JSON line %d, column %d: %s", cause.line,
                         cause.column, strbuf_str(&words));
    }
    *out = value;
    return 0;
}

json_t *json_parse_own(const char *text, size_t len)
{
    struct error err;
    json_t *value;
    const struct json_limits limits = {.max_bytes = len, .has_nul = true};
    return len > 0 && json_parse(&value, text, len, &limits, &err) == 0 ? value : NULL;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\';
}

static void add_escape(struct strbuf *out, unsigned char c)
{
    static const char letters[] = {
        ['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
        ['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't',
    };
    if (letters[c])
        strbuf_add(out, (const char[]){'\\', letters[c]}, 2);
    else
        strbuf_add_fmt(out, "\\u%04X", c);
}

static void add_quoted(struct strbuf *out, const char *bytes, size_t len)
{
    strbuf_add_char(out, '"');
    for (size_t at = 0; at < len; at++) {
        size_t begin = at;
        while (at < len && is_plain((unsigned char)bytes[at]))
            at++;
        strbuf_add(out, bytes + begin, at - begin);
        if (at < len)
            add_escape(out, (unsigned char)bytes[at]);
    }
    strbuf_add_char(out, '"');
}

/* 15 digits: as many as survive in a double, so 46.007 stays 46.007. Always with a point or an
 * exponent, so that it is read as a real again. */
static void add_real(struct strbuf *out, double value)
{
    char text[32];
    snprintf(text, sizeof(text), "%.15g", value);
    const char *exponent = strchr(text, 'e');
    if (exponent) { /* 1e+07 is 1e7 */
        strbuf_add(out, text, (size_t)(exponent + 1 - text));
        if (exponent[1] == '-')
            strbuf_add_char(out, '-');
        strbuf_add_str(out, exponent + 1 + strspn(exponent + 1, "+-0"));
        return;
    }
    strbuf_add_str(out, text);
    if (!strchr(text, '.'))
        strbuf_add(out, ".0", 2);
}

static void add_integer(struct strbuf *out, json_int_t value)
{
    char text[FORMAT_BYTES];
    if (value < 0)
        strbuf_add_char(out, '-');
    format_u64(value < 0 ? -(uint64_t)value : (uint64_t)value, text);
    strbuf_add_str(out, text);
}

static void add_compact(struct strbuf *out, const json_t *value);

static void add_array(struct strbuf *out, const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        strbuf_add_char(out, i == 0 ? '[' : ',');
        add_compact(out, json_array_get(array, i));
    }
    strbuf_add_str(out, json_array_size(array) == 0 ? "[]" : "]");
}

static void add_object(struct strbuf *out, const json_t *object)
{
    char before = '{';
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        strbuf_add_char(out, before);
        add_quoted(out, key, strlen(key));
        strbuf_add_char(out, ':');
        add_compact(out, value);
        before = ',';
    }
    strbuf_add_str(out, before == '{' ? "{}" : "}");
}

/* As jansson writes it, which looks for loops on its way: each array and object is printed as an
 * address and put into a table. What we build has none, and is as deep as a document may be. */
static void add_compact(struct strbuf *out, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        add_object(out, value);
        break;
    case JSON_ARRAY:
        add_array(out, value);
        break;
    case JSON_STRING:
        add_quoted(out, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        add_integer(out, json_integer_value(value));
        break;
    case JSON_REAL:
        add_real(out, json_real_value(value));
        break;
    case JSON_TRUE:
        strbuf_add(out, "true", 4);
        break;
    case JSON_FALSE:
        strbuf_add(out, "false", 5);
        break;
    case JSON_NULL:
        strbuf_add(out, "null", 4);
        break;
    }
}

static int add_chunk(const char *chunk, size_t len, void *ctx)
{
    strbuf_add(ctx, chunk, len);
    return 0;
}

void json_add(struct strbuf *out, const json_t *value, enum json_style style)
{
    const size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(15) | JSON_INDENT(2);
    if (style == JSON_STYLE_COMPACT)
        add_compact(out, value);
    else
        BUG_ON(json_dump_callback(value, add_chunk, out, flags) < 0);
}

void json_add_text(struct strbuf *out, const char *bytes, size_t len)
{
    if (utf8_is_valid(bytes, len)) {
        add_quoted(out, bytes, len);
        return;
    }
    scoped_strbuf struct strbuf clean;
    strbuf_init(&clean, 3 * len); /* the worst case: every byte becomes U+FFFD */
    utf8_add_clean(&clean, bytes, len);
    add_quoted(out, strbuf_str(&clean), clean.len);
}

int json_write(int fd, const json_t *value, enum json_style style, struct error *err)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, PRINT_MAX_BYTES);
    json_add(&text, value, style);
    strbuf_add_char(&text, '\n');
    return fd_write_all(fd, strbuf_str(&text), text.len, err);
}

json_t *json_text(const char *bytes, size_t len)
{
    if (utf8_is_valid(bytes, len))
        return json_stringn_nocheck(bytes, len);
    scoped_strbuf struct strbuf clean;
    strbuf_init(&clean, 3 * len); /* the worst case: every byte becomes U+FFFD */
    utf8_add_clean(&clean, bytes, len);
    return json_stringn_nocheck(strbuf_str(&clean), clean.len);
}

json_t *json_text_or_null(const char *text)
{
    return text ? json_text(text, strlen(text)) : json_null();
}

json_t *json_number(uint64_t value)
{
    return value <= LLONG_MAX ? json_integer((json_int_t)value) : json_real((double)value);
}
