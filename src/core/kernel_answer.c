/* kernel_answer.c - read strictly, and written anew: nothing is passed on that was not understood
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel_answer.h"

#include <ctype.h>
#include <string.h>

#include "base/strbuf.h"
#include "codec/base64.h"

#define LIST_DEPTH     4 /* the object, its list, a row, a shape */
#define DIMENSIONS_MAX 64
#define MIME_MAX_BYTES 100

static int refuse(struct error *err, const char *what)
{
    error_set(err, ERROR_UNAVAILABLE, "the interpreter's answer makes no sense: %s", what);
    return error_word(err, KERNEL_ANSWER_INVALID);
}

/* The reasons of a parser are about bytes that nobody sees. */
static int refuse_json(struct error *err)
{
    if (err->code == ERROR_TOO_LARGE)
        return -1;
    return refuse(err, "it is no JSON");
}

/* --- a list of variables ---------------------------------------------------------------------- */

static bool is_size(const json_t *value)
{
    return json_is_null(value) || (json_is_integer(value) && json_integer_value(value) >= 0);
}

static bool is_shape(const json_t *value)
{
    if (json_is_null(value))
        return true;
    if (!json_is_array(value) || json_array_size(value) > DIMENSIONS_MAX)
        return false;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *length = json_array_get(value, i);
        if (json_is_null(length) || !is_size(length))
            return false;
    }
    return true;
}

static bool is_text(const json_t *value)
{
    return json_is_string(value);
}

static const struct {
    const char *name;
    bool (*check)(const json_t *value);
} columns[] = {
    {"name", is_text},   {"type", is_text},    {"size", is_size},
    {"shape", is_shape}, {"preview", is_text},
};

/* NULL: it is none. */
static json_t *copy_row(const json_t *row)
{
    json_t *copy = json_object();
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        json_t *value = json_object_get(row, columns[i].name);
        if (!value || !columns[i].check(value)) {
            json_decref(copy);
            return NULL;
        }
        json_object_set(copy, columns[i].name, value);
    }
    return copy;
}

int kernel_answer_variables(json_t **out, const char *body, size_t len, struct error *err)
{
    const struct json_limits limits = {.max_bytes = KERNEL_ANSWER_LIST_MAX,
                                       .max_depth = LIST_DEPTH};
    scoped_json json_t *answer = NULL;
    scoped_json json_t *rows = json_array();
    if (json_parse(&answer, body, len, &limits, err) < 0)
        return err->code == ERROR_TOO_LARGE ? refuse(err, "it is too large") : refuse_json(err);
    const json_t *list = json_object_get(answer, "variables");
    const json_t *is_cut = json_object_get(answer, "truncated");
    if (!json_is_array(list) || !json_is_boolean(is_cut))
        return refuse(err, "it has no list of variables");
    if (json_array_size(list) > KERNEL_ANSWER_ROWS_MAX)
        return refuse(err, "it has too many variables");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *row = copy_row(json_array_get(list, i));
        if (!row)
            return refuse(err, "a variable is described in another way");
        json_array_append_new(rows, row);
    }
    *out = json_pack("{s:O, s:b}", "variables", rows, "truncated", json_is_true(is_cut));
    return 0;
}

/* --- one value -------------------------------------------------------------------------------- */

/* "text/plain"; what a client may see in a header, and nothing more. */
static bool is_mime(const char *text, size_t len)
{
    const char *slash = memchr(text, '/', len);
    if (!slash || slash == text || slash == text + len - 1 || len > MIME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isascii(text[i]) || (!isalnum((unsigned char)text[i]) && !strchr("/+-._", text[i])))
            return false;
    }
    return true;
}

/* Any value, not only those that may stand alone: so it is read as the only one of a list. */
static int parse_value(json_t **out, const char *bytes, size_t len, struct error *err)
{
    const struct json_limits limits = {.max_bytes = KERNEL_ANSWER_VALUE_MAX + 2};
    scoped_json json_t *list = NULL;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, KERNEL_ANSWER_VALUE_MAX + 3);
    strbuf_add_char(&text, '[');
    strbuf_add(&text, bytes, len);
    strbuf_add_char(&text, ']');
    if (json_parse(&list, strbuf_str(&text), text.len, &limits, err) < 0)
        return refuse_json(err);
    if (json_array_size(list) != 1)
        return refuse(err, "it is no JSON");
    *out = json_incref(json_array_get(list, 0));
    return 0;
}

static json_t *encode(const char *bytes, size_t len)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, BASE64_ENCODED_LEN(KERNEL_ANSWER_VALUE_MAX) + 1);
    base64_add(&text, bytes, len);
    return json_stringn_nocheck(strbuf_str(&text), text.len);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

int kernel_answer_value(json_t **out, const char *body, size_t len, struct error *err)
{
    const char *end = memchr(body, '\0', len);
    if (!end || !is_mime(body, (size_t)(end - body)))
        return refuse(err, "it has no type");
    const char *bytes = end + 1;
    size_t count = len - (size_t)(bytes - body);
    json_t *value = NULL;
    const char *encoding = begins(body, "text/") ? "text" : "base64";
    if (count > KERNEL_ANSWER_VALUE_MAX)
        return error_set(err, ERROR_TOO_LARGE, "the value has %zu bytes; at most %zu are passed on",
                         count, (size_t)KERNEL_ANSWER_VALUE_MAX);
    if (strcmp(body, "application/json") == 0) {
        encoding = "json";
        if (parse_value(&value, bytes, count, err) < 0)
            return -1;
    } else {
        value = encoding[0] == 't' ? json_text(bytes, count) : encode(bytes, count);
    }
    *out = json_pack("{s:s, s:s, s:o}", "mime_type", body, "encoding", encoding, "value", value);
    return 0;
}
