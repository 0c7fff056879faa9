/* json.c - limits before the parser, clean text after it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/json.h"

#include <limits.h>

#include "base/fd.h"
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

static int add_chunk(const char *chunk, size_t len, void *ctx)
{
    strbuf_add(ctx, chunk, len);
    return 0;
}

void json_add(struct strbuf *out, const json_t *value, enum json_style style)
{
    /* 15 digits: as many as survive in a double, so 46.007 stays 46.007. */
    size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(15) |
                   (style == JSON_STYLE_PRETTY ? JSON_INDENT(2) : JSON_COMPACT);
    BUG_ON(json_dump_callback(value, add_chunk, out, flags) < 0);
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
