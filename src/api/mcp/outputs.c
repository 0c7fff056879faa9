/* outputs.c - schemas put together from shapes, and executions made fit for them */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mcp/outputs.h"

#include <string.h>

#include "api/mcp/run_text.h"
#include "api/mcp/visible.h"
#include "api/schemas.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "core/errand.h"

#define SCHEMA_MAX (64 * KIB)
#define DEPTH_MAX  16 /* of shapes in shapes; more is a circle */

/* --- shapes ----------------------------------------------------------------------------------- */

static const char *file_kind(size_t i)
{
    return i <= ERRAND_SPECIAL ? errand_kind_name((enum errand_kind)i) : NULL;
}

/* clang-format off */
static const struct shape_field file_fields[] = {
    {"path", SHAPE_TEXT, .help = "Relative to the working directory; bytes that are no UTF-8 are U+FFFD."},
    {"kind", SHAPE_WORD, .words = file_kind},
    {"size", SHAPE_COUNT, .help = "In bytes."},
    {"mime_type", SHAPE_TEXT, SHAPE_NULL, .help = "By its name; null for what is no file."},
    {"modified_at", SHAPE_TIME, SHAPE_NULL},
    {"download_url", SHAPE_TEXT, SHAPE_NULL, .help = "A signed address that needs no token and expires; null: there is none."},
};
static const struct shape_field file_list_fields[] = {
    {"files", SHAPE_OBJECT, SHAPE_LIST, .of = "ToolFile"},
    {"truncated", SHAPE_BOOLEAN, .help = "There are more."},
};
static const struct shape_field reading_fields[] = {
    {"mime_type", SHAPE_TEXT},
    {"offset", SHAPE_COUNT, .help = "Of the first byte that was read."},
    {"size", SHAPE_COUNT, .help = "Bytes that were read."},
    {"total_size", SHAPE_COUNT, .help = "Bytes that there are."},
    {"content", SHAPE_TEXT, SHAPE_OPTIONAL, .help = "The text..."},
    {"content_base64", SHAPE_TEXT, SHAPE_OPTIONAL, .help = "...or the bytes; neither of a picture, which is an image in the content."},
};
static const struct shape_field upload_fields[] = {
    {"session_id", SHAPE_TEXT, .help = "As it was given."},
    {"path", SHAPE_TEXT},
    {"size", SHAPE_COUNT, .help = "In bytes."},
    {"created", SHAPE_BOOLEAN, .help = "There was none of this name."},
};

#define SHAPE(words, text, table) {.name = (words), .help = (text), .fields = (table), .count = ARRAY_LEN(table)}
static const struct shape tool_shapes[] = {
    SHAPE("ToolFile", NULL, file_fields),
    SHAPE(OUTPUTS_FILE_LIST, "Files of an execution or of a session.", file_list_fields),
    SHAPE(OUTPUTS_READING, "A part of a file, or of what was printed.", reading_fields),
    SHAPE(OUTPUTS_UPLOAD, "A file that was written.", upload_fields),
};
#undef SHAPE
/* clang-format on */

static const struct shape *find_shape(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(tool_shapes); i++) {
        if (strcmp(tool_shapes[i].name, name) == 0)
            return &tool_shapes[i];
    }
    return schema_find(name);
}

/* --- schemas ---------------------------------------------------------------------------------- */

static json_t *expand(json_t *schema, unsigned depth);

static json_t *schema_of(const char *name, unsigned depth)
{
    const struct shape *shape = find_shape(name);
    BUG_ON(!shape);
    return expand(shape_schema(shape), depth);
}

static void expand_members(json_t *schema, unsigned depth)
{
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_object(schema)) {
        json_object_foreach(schema, key, value)
            json_object_set_new(schema, key, expand(json_incref(value), depth));
    } else if (json_is_array(schema)) {
        json_array_foreach(schema, i, value)
            json_array_set_new(schema, i, expand(json_incref(value), depth));
    }
}

/* Takes the schema, and answers with one in which shapes stand where they were named: some hosts
 * make types of schemas, and not all of those follow references. */
static json_t *expand(json_t *schema, unsigned depth)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    BUG_ON(depth > DEPTH_MAX);
    if (!ref) {
        expand_members(schema, depth + 1);
        return schema;
    }
    json_t *whole = schema_of(ref + strlen(SHAPE_REF_PREFIX), depth + 1);
    json_object_del(schema, "$ref");
    json_object_update(whole, schema); /* what the field says of it */
    json_decref(schema);
    return whole;
}

char *outputs_schema(const char *shape)
{
    scoped_json json_t *schema = schema_of(shape, 0);
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, SCHEMA_MAX);
    json_add(&text, schema, JSON_STYLE_COMPACT);
    BUG_ON(text.overflow);
    return strbuf_take(&text);
}

/* --- an execution ----------------------------------------------------------------------------- */

static json_t *truncated_of(json_t *out)
{
    return json_object_get(out, "truncated");
}

/* Head and tail, as the server itself cuts; `truncated` has the true size. */
static void cut_stream(json_t *out, const char *name)
{
    const json_t *text = json_object_get(out, name);
    size_t len = json_string_length(text), half = OUTPUTS_STREAM_BYTES / 2;
    if (len <= OUTPUTS_STREAM_BYTES)
        return;
    const char *bytes = json_string_value(text);
    const json_t *told = json_object_get(json_object_get(truncated_of(out), name), "total_bytes");
    json_int_t total = told ? json_integer_value(told) : (json_int_t)len;
    scoped_strbuf struct strbuf kept;
    strbuf_init(&kept, OUTPUTS_STREAM_BYTES);
    strbuf_add(&kept, bytes, run_text_cut(bytes, len, half));
    size_t tail = len - half;
    while (tail < len && ((unsigned char)bytes[tail] & 0xc0) == 0x80)
        tail++;
    strbuf_add(&kept, bytes + tail, len - tail);
    json_object_set_new(
        truncated_of(out), name,
        json_pack("{s:I, s:I}", "kept_bytes", (json_int_t)kept.len, "total_bytes", total));
    json_object_set_new(out, name, json_text(strbuf_str(&kept), kept.len));
}

/* Pictures of it are content of their own: as base64 they would fill a model's context. */
static json_t *result_of(const json_t *result, size_t *room, bool *is_cut)
{
    const char *mime;
    json_t *form, *data = json_object();
    json_object_foreach(json_object_get(result, "data"), mime, form)
    {
        size_t len = json_string_length(form);
        if (visible_is_type(mime))
            continue;
        if (len > *room) {
            *is_cut = true;
            continue;
        }
        *room -= len;
        json_object_set(data, mime, form);
    }
    return json_pack("{s:O, s:o}", "main", json_object_get(result, "main"), "data", data);
}

static void cut_results(json_t *out, const json_t *results)
{
    size_t i, room = OUTPUTS_RESULTS_BYTES;
    bool is_cut = false;
    json_t *result, *list = json_array();
    json_array_foreach(results, i, result)
        json_array_append_new(list, result_of(result, &room, &is_cut));
    json_object_set_new(out, "results", list);
    if (is_cut)
        json_object_set_new(truncated_of(out), "results", json_true());
}

json_t *outputs_execution(const json_t *document)
{
    json_t *out = json_copy((json_t *)document);
    json_object_set_new(out, "truncated", json_copy(json_object_get(document, "truncated")));
    json_object_del(out, "files");
    cut_stream(out, "stdout");
    cut_stream(out, "stderr");
    cut_results(out, json_object_get(document, "results"));
    return out;
}
