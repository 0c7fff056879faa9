/* run_text.c - a line about the end, then output, values, the exception, and files */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mcp/run_text.h"

#include <stdio.h>
#include <string.h>

#include "api/mcp/show.h"
#include "api/mcp/visible.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "codec/base64.h"
#include "codec/url.h"

/* What is told of each part is bounded, and a character becomes six at most. */
#define TEXT_MAX (1 * MIB)
#define URI_MAX  (16 * KIB)

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* --- the end ---------------------------------------------------------------------------------- */

static void add_missing_limits(struct strbuf *out, const json_t *names)
{
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name) strbuf_add_fmt(
        out, "%s%s", i ? ", " : "limits not in force here: ", json_string_value(name));
    strbuf_add(out, "\n", json_array_size(names) > 0);
}

static void add_end(struct strbuf *out, const json_t *document)
{
    const json_t *exit_code = json_object_get(document, "exit_code");
    const json_t *reason = json_object_get(document, "reason");
    const char *signal = text_of(document, "signal");
    strbuf_add_str(out, text_of(document, "state"));
    if (json_is_integer(exit_code))
        strbuf_add_fmt(out, ", exit code %d", (int)json_integer_value(exit_code));
    if (*signal)
        strbuf_add_fmt(out, ", ended by %s", signal);
    strbuf_add_fmt(out, ", %.0f ms\n", json_number_value(json_object_get(document, "duration_ms")));
    add_missing_limits(out, json_object_get(document, "limits_not_in_force"));
    if (!json_is_object(reason))
        return;
    strbuf_add_fmt(out, "%s: %s\n", text_of(reason, "kind"), text_of(reason, "message"));
    if (*text_of(reason, "hint"))
        strbuf_add_fmt(out, "hint: %s\n", text_of(reason, "hint"));
}

/* --- output ----------------------------------------------------------------------------------- */

size_t run_text_cut(const char *text, size_t len, size_t max)
{
    size_t end = MIN(len, max);
    while (end > 0 && end < len && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    return end;
}

static void end_line(struct strbuf *out)
{
    if (out->len > 0 && out->data[out->len - 1] != '\n')
        strbuf_add_char(out, '\n');
}

/* Whole lines read better than parts, where lines are not too long for that. */
static size_t end_of_line(const char *text, size_t at)
{
    const char *newline = memrchr(text, '\n', at);
    size_t end = newline ? (size_t)(newline - text) + 1 : 0;
    return end > at / 2 ? end : at;
}

static size_t begin_of_line(const char *text, size_t len, size_t at)
{
    const char *newline = memchr(text + at, '\n', (len - at) / 2);
    if (newline)
        return (size_t)(newline - text) + 1;
    while (at < len && ((unsigned char)text[at] & 0xc0) == 0x80)
        at++;
    return at;
}

/* Output that comes to its point does so at its end, so the tail has the larger part. */
static void add_long(struct strbuf *out, const char *text, size_t len, size_t max, const char *rest)
{
    size_t head = end_of_line(text, run_text_cut(text, len, max / 3));
    size_t tail = begin_of_line(text, len, len - 2 * (max / 3));
    show_output(out, text, head);
    end_line(out);
    strbuf_add_fmt(out,
                   "[... %zu of %zu bytes are left out here; %s, \"offset\": %zu} reads on ...]\n",
                   tail - head, len, rest, head);
    show_output(out, text + tail, len - tail);
    end_line(out);
}

/* A line of ours, above what a program says. */
static void add_head(struct strbuf *out, const char *name, const char *more, const char *text,
                     size_t len)
{
    end_line(out);
    strbuf_add_fmt(out, "[%s%s%s]\n", name, more,
                   show_has_lookalike(text, len) ? "; lines that look like ours begin with '\\'"
                                                 : "");
}

static void add_stream(struct strbuf *out, const json_t *document, const char *name, size_t max)
{
    char rest[160], more[120] = "";
    const json_t *value = json_object_get(document, name);
    const json_t *cut = json_object_get(json_object_get(document, "truncated"), name);
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);
    if (len == 0)
        return;
    if (cut)
        snprintf(more, sizeof(more), " of %.0f bytes, of which the server kept head and tail",
                 json_number_value(json_object_get(cut, "total_bytes")));
    add_head(out, name, more, text, len);
    if (len <= max) {
        show_output(out, text, len);
        end_line(out);
        return;
    }
    snprintf(rest, sizeof(rest), "read_artifact {\"execution_id\": \"%.40s\", \"stream\": \"%s\"",
             text_of(document, "id"), name);
    add_long(out, text, len, max, rest);
}

static void add_exception(struct strbuf *out, const json_t *document)
{
    char brief[4400];
    const json_t *error = json_object_get(document, "error");
    const char *text = text_of(error, "traceback");
    if (!json_is_object(error))
        return;
    if (!*text) {
        snprintf(brief, sizeof(brief), "%.200s: %.4000s", text_of(error, "name"),
                 text_of(error, "value"));
        text = brief;
    }
    /* Its last lines say what it was. */
    size_t len = strlen(text);
    size_t from = len > RUN_TEXT_STDERR_BYTES ? len - RUN_TEXT_STDERR_BYTES : 0;
    while (((unsigned char)text[from] & 0xc0) == 0x80)
        from++;
    add_head(out, "exception", from ? ", its last part" : "", text + from, len - from);
    show_output(out, text + from, len - from);
    end_line(out);
}

/* --- values ----------------------------------------------------------------------------------- */

static void add_result(struct strbuf *out, const json_t *result, size_t max)
{
    const json_t *value = json_object_get(json_object_get(result, "data"), "text/plain");
    const char *text = json_string_value(value);
    size_t len = json_string_length(value), kept = run_text_cut(text, len, max);
    add_head(out, json_is_true(json_object_get(result, "main")) ? "value" : "shown", "", text,
             kept);
    show_output(out, text, kept);
    end_line(out);
    if (kept < len)
        strbuf_add_fmt(out, "[... %zu more bytes: print what you need of it]\n", len - kept);
}

static void add_results(struct strbuf *out, const json_t *results)
{
    size_t i, room = RUN_TEXT_RESULTS_BYTES, left = 0;
    json_t *result;
    json_array_foreach(results, i, result)
    {
        const json_t *text = json_object_get(json_object_get(result, "data"), "text/plain");
        size_t len = MIN(json_string_length(text), (size_t)RUN_TEXT_RESULT_BYTES);
        if (len > room)
            left++;
        else if (len > 0)
            add_result(out, result, len);
        room -= MIN(len, room);
    }
    if (left > 0) {
        end_line(out);
        strbuf_add_fmt(out, "[... %zu more values: show fewer, or shorter ones]\n", left);
    }
}

/* --- pictures --------------------------------------------------------------------------------- */

bool run_text_has_room(const struct run_images *images, size_t bytes)
{
    size_t i, sum = bytes;
    json_t *image;
    json_array_foreach(images->list, i, image) sum +=
        json_string_length(json_object_get(image, "data"));
    return json_array_size(images->list) < RUN_TEXT_IMAGES_MAX && sum <= RUN_TEXT_IMAGE_BYTES;
}

/* What the code says that it is, and what it is. */
static const char *type_of(const json_t *data)
{
    size_t len = json_string_length(data);
    scoped_free uint8_t *bytes = xmalloc(len + 1);
    return base64_decode(json_string_value(data), len, bytes, &len) ? visible_type(bytes, len)
                                                                    : NULL;
}

/* The picture of a result, in the first form that models take; NULL: it has none. */
static const json_t *image_of(const json_t *result)
{
    const char *mime;
    json_t *form;
    json_object_foreach(json_object_get(result, "data"), mime, form)
    {
        if (visible_is_type(mime) && json_is_string(form))
            return form;
    }
    return NULL;
}

void run_text_images(const json_t *document, struct run_images *out)
{
    size_t i;
    json_t *result;
    *out = (struct run_images){.list = json_array()};
    json_array_foreach(json_object_get(document, "results"), i, result)
    {
        const json_t *data = image_of(result);
        if (!data)
            continue;
        const char *mime = run_text_has_room(out, json_string_length(data)) ? type_of(data) : NULL;
        if (mime)
            json_array_append_new(out->list, json_pack("{s:s, s:O}", "mime", mime, "data", data));
        else
            out->is_cut = true;
    }
}

/* What was shown is often saved, too, and is told once. */
static bool is_repeated(const json_t *images, size_t index)
{
    bool is_file = json_object_get(json_array_get(images, index), "path");
    for (size_t i = 0; is_file && i < index; i++) {
        if (json_equal(json_object_get(json_array_get(images, i), "data"),
                       json_object_get(json_array_get(images, index), "data")))
            return true;
    }
    return false;
}

static void add_images(json_t *content, const json_t *images)
{
    size_t i;
    json_t *image;
    json_array_foreach(images, i, image)
    {
        if (!is_repeated(images, i))
            json_array_append_new(content, json_pack("{s:s, s:O, s:O}", "type", "image", "data",
                                                     json_object_get(image, "data"), "mimeType",
                                                     json_object_get(image, "mime")));
    }
}

/* --- files ------------------------------------------------------------------------------------ */

void run_text_add_uri(struct strbuf *out, const char *execution, const char *path)
{
    strbuf_add_fmt(out, RUN_TEXT_URI "%s/files/", execution);
    url_add_path(out, path);
}

/* A name that is no UTF-8 is not told as it is, so it has none. */
bool run_text_has_uri(const char *path)
{
    return url_can_carry(path) && !strstr(path, "\xef\xbf\xbd");
}

static json_t *make_link(const json_t *document, const json_t *file)
{
    char words[96];
    scoped_strbuf struct strbuf uri, name;
    const char *path = text_of(file, "path"), *mime = text_of(file, "mime_type");
    json_int_t size = json_integer_value(json_object_get(file, "size"));
    strbuf_init(&uri, URI_MAX);
    strbuf_init(&name, URI_MAX);
    run_text_add_uri(&uri, text_of(document, "id"), path);
    show_name(&name, path);
    snprintf(words, sizeof(words), "%.60s, %lld bytes", mime, (long long)size);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "type", "resource_link", "uri",
                     strbuf_str(&uri), "name", strbuf_str(&name), "description", words, "mimeType",
                     mime, "size", size);
}

/* What is to be said of a picture; "" of anything else. */
static const char *fate_of(const json_t *images, const char *path, const char *mime)
{
    size_t i;
    json_t *image;
    json_array_foreach(images, i, image)
    {
        if (strcmp(text_of(image, "path"), path) == 0)
            return ", shown below";
    }
    return visible_is_type(mime) ? ", not shown here" : "";
}

static json_t *files_of(const json_t *document, const json_t *images, struct strbuf *out)
{
    size_t i;
    json_t *file;
    const json_t *files = json_object_get(document, "artifacts");
    json_t *links = json_array();
    if (json_array_size(files) == 0)
        return links;
    end_line(out);
    strbuf_add_fmt(out, "[files of %s, for read_artifact]\n", text_of(document, "id"));
    json_array_foreach(files, i, file)
    {
        const char *path = text_of(file, "path"), *mime = text_of(file, "mime_type");
        if (i >= RUN_TEXT_FILES_MAX) {
            strbuf_add_fmt(out, "- and %zu more: list_artifacts names all\n",
                           json_array_size(files) - i);
            break;
        }
        strbuf_add_str(out, "- ");
        show_name(out, path);
        strbuf_add_fmt(out, " (%s, %lld bytes%s)\n", mime,
                       (long long)json_integer_value(json_object_get(file, "size")),
                       fate_of(images, path, mime));
        if (run_text_has_uri(path))
            json_array_append_new(links, make_link(document, file));
    }
    return links;
}

static void add_cut_images(struct strbuf *out)
{
    end_line(out);
    strbuf_add_str(out, "[more pictures are left out: save them to files, or show fewer]\n");
}

json_t *run_text_content(const json_t *document, const struct run_images *images, bool has_links)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, TEXT_MAX);
    add_end(&text, document);
    size_t before = text.len;
    add_stream(&text, document, "stdout", RUN_TEXT_STDOUT_BYTES);
    add_stream(&text, document, "stderr", RUN_TEXT_STDERR_BYTES);
    add_results(&text, json_object_get(document, "results"));
    add_exception(&text, document);
    if (images->is_cut)
        add_cut_images(&text);
    scoped_json json_t *links = files_of(document, images->list, &text);
    if (text.len == before && json_array_size(images->list) == 0)
        strbuf_add_str(&text, "(it printed nothing)\n");
    json_t *content =
        json_pack("[{s:s, s:o}]", "type", "text", "text", json_text(strbuf_str(&text), text.len));
    add_images(content, images->list);
    if (has_links)
        json_array_extend(content, links);
    return content;
}
