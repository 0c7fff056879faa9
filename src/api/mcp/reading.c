/* reading.c - found, opened, collected, told
 *
 * Whether an execution is the caller's own is asked of the plane first; the archive knows no
 * owners. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mcp/reading.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp/run_text.h"
#include "api/mcp/visible.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "codec/base64.h"
#include "codec/url.h"
#include "core/errand.h"
#include "core/mime.h"

#define DOCUMENT_MAX (256 * MIB)
#define BYTES_MAX    (4 * MIB)

struct reading {
    struct mcp_call *call;
    struct api *api;
    char *execution, *session, *path, *stream, *uri;
    uint64_t offset, limit, total;
    const char *mime;
    struct strbuf bytes;
    struct errand *errand; /* under way; NULL: not */
    struct blob_get *get;  /* the same */
    struct error problem;  /* msg "": none */
};

static char *copy(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static void free_reading(struct reading *r)
{
    if (r->errand)
        errand_close(r->errand);
    if (r->get)
        blob_get_abort(r->get);
    strbuf_release(&r->bytes);
    free(r->execution);
    free(r->session);
    free(r->path);
    free(r->stream);
    free(r->uri);
    free(r);
}

/* Bytes that nobody wants any more are not fetched; what is only looked for comes to its end. */
static void on_cancel(void *ctx)
{
    struct reading *r = ctx;
    if (!r->get && !r->errand)
        return;
    mcp_answer_text(r->call, "");
    free_reading(r);
}

/* --- telling ---------------------------------------------------------------------------------- */

static void fail(struct reading *r, const struct error *err)
{
    struct mcp_call *call = r->call;
    if (r->uri && err->code == ERROR_NOT_FOUND)
        mcp_not_found(call, r->uri);
    else if (r->uri)
        mcp_fail(call, RPC_INTERNAL, NULL, "%s%s%s", err->msg, err->hint[0] ? "; " : "", err->hint);
    else
        toolbox_fail(call, err);
    free_reading(r);
}

/* By its name, and by what is in it; a part of one is none. */
static bool is_whole_image(const struct reading *r)
{
    return visible_is_type(r->mime) && r->bytes.len == r->total &&
           visible_type(strbuf_str(&r->bytes), r->bytes.len);
}

/* What only pretends to be a picture, or is a part of one, must not be shown as one. */
static const char *mime_to_tell(const struct reading *r)
{
    if (is_whole_image(r))
        return visible_type(strbuf_str(&r->bytes), r->bytes.len);
    return visible_is_type(r->mime) ? "application/octet-stream" : r->mime;
}

/* A part of a text may begin and end within a character. */
static bool is_text(struct reading *r)
{
    size_t from = 0;
    while (r->offset > 0 && from < MIN(4u, r->bytes.len) &&
           ((unsigned char)r->bytes.data[from] & 0xc0) == 0x80)
        from++;
    if (from > 0) {
        memmove(r->bytes.data, r->bytes.data + from, r->bytes.len - from);
        r->bytes.len -= from;
        r->offset += from;
    }
    size_t end = r->bytes.len;
    for (size_t i = 0; i < 4 && end > 0 && !utf8_is_valid(r->bytes.data, end); i++)
        end--;
    if (!utf8_is_valid(strbuf_str(&r->bytes), end))
        return false;
    if (!r->stream && memchr(strbuf_str(&r->bytes), '\0', end)) /* what is printed may have it */
        return false;
    r->bytes.len = end;
    return true;
}

static char *encode(const struct reading *r)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, BASE64_ENCODED_LEN(r->bytes.len) + 1);
    base64_add(&text, strbuf_str(&r->bytes), r->bytes.len);
    return xstrdup(strbuf_str(&text));
}

static json_t *make_contents(struct reading *r, const char *uri)
{
    json_t *item = json_pack("{s:s, s:s}", "uri", uri, "mimeType", mime_to_tell(r));
    if (!is_whole_image(r) && is_text(r)) {
        json_object_set_new(item, "text", json_text(strbuf_str(&r->bytes), r->bytes.len));
        return item;
    }
    scoped_free char *blob = encode(r);
    json_object_set_new(item, "blob", json_string(blob));
    return item;
}

/* What it is a part of, when it is one, and how to get the rest. */
static bool add_range(struct strbuf *text, const struct reading *r)
{
    uint64_t end = r->offset + r->bytes.len;
    if (r->offset == 0 && end == r->total)
        return false;
    strbuf_add_fmt(text, "[bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64, r->offset, end, r->total);
    if (end < r->total)
        strbuf_add_fmt(text, "; \"offset\": %" PRIu64 " reads on", end);
    strbuf_add_char(text, ']');
    return true;
}

/* Text as it is, with a line that says what it is a part of. */
static json_t *make_text(const struct reading *r)
{
    scoped_strbuf struct strbuf text, range;
    strbuf_init(&text, BYTES_MAX + KIB);
    strbuf_init(&range, KIB);
    strbuf_add(&text, strbuf_str(&r->bytes), r->bytes.len);
    if (add_range(&range, r))
        strbuf_add_fmt(&text, "\n%s", strbuf_str(&range));
    else if (r->total == 0)
        strbuf_add_str(&text, "[it is empty]");
    return mcp_text_content(strbuf_str(&text), text.len);
}

static json_t *make_image(const struct reading *r)
{
    scoped_free char *data = encode(r);
    return mcp_media_content("image", mime_to_tell(r), data);
}

/* What is neither text nor a picture. */
static json_t *make_bytes(struct reading *r)
{
    scoped_strbuf struct strbuf uri;
    strbuf_init(&uri, 16 * KIB);
    if (r->execution) {
        run_text_add_uri(&uri, r->execution, r->path);
    } else {
        strbuf_add_fmt(&uri, "cove://sessions/%s/files/", r->session);
        url_add_path(&uri, r->path);
    }
    return json_pack("{s:s, s:o}", "type", "resource", "resource",
                     make_contents(r, strbuf_str(&uri)));
}

/* Bytes have no place for a word on what they are a part of: it stands behind them. */
static json_t *make_content(struct reading *r)
{
    scoped_strbuf struct strbuf range;
    strbuf_init(&range, KIB);
    if (is_whole_image(r))
        return json_pack("[o]", make_image(r));
    if (is_text(r))
        return json_pack("[o]", make_text(r));
    json_t *content = json_pack("[o]", make_bytes(r));
    if (add_range(&range, r))
        json_array_append_new(content, mcp_text_content(strbuf_str(&range), range.len));
    return content;
}

/* The shape OUTPUTS_READING; after the content, which may have moved the ends. */
static json_t *make_data(struct reading *r)
{
    json_t *data = json_pack("{s:s, s:I, s:I, s:I}", "mime_type", mime_to_tell(r), "offset",
                             (json_int_t)r->offset, "size", (json_int_t)r->bytes.len, "total_size",
                             (json_int_t)r->total);
    if (is_whole_image(r))
        return data;
    if (is_text(r)) {
        json_object_set_new(data, "content", json_text(strbuf_str(&r->bytes), r->bytes.len));
        return data;
    }
    scoped_free char *bytes = encode(r);
    json_object_set_new(data, "content_base64", json_string(bytes));
    return data;
}

static void tell(struct reading *r)
{
    struct mcp_call *call = r->call;
    if (r->uri) {
        mcp_answer_contents(call, json_pack("[o]", make_contents(r, r->uri)));
    } else {
        json_t *content = make_content(r);
        toolbox_answer(call, content, toolbox_is_structured(call) ? make_data(r) : NULL);
    }
    free_reading(r);
}

/* --- how much --------------------------------------------------------------------------------- */

/* Sets what is to be read of `total` bytes. */
static int plan(struct reading *r, uint64_t total, uint64_t *length, struct error *err)
{
    bool is_image = visible_is_type(r->mime);
    uint64_t usual = is_image || r->uri ? READING_WHOLE_BYTES : READING_TEXT_BYTES;
    r->total = total;
    if (r->offset > total) {
        error_set(err, ERROR_INVALID, "offset: %" PRIu64 " is beyond the end at %" PRIu64,
                  r->offset, total);
        return error_hint(err, "use a smaller offset");
    }
    if ((is_image || r->uri) && !r->limit && total > READING_WHOLE_BYTES) {
        error_set(err, ERROR_TOO_LARGE,
                  "'%.200s' has %" PRIu64 " bytes: too large to be %s, which takes %d",
                  r->path ? r->path : r->stream, total, r->uri ? "read whole" : "shown",
                  READING_WHOLE_BYTES);
        return error_hint(err, r->uri ? "read_artifact with offset and limit reads parts of it"
                                      : "make a smaller picture, read parts of it with offset and "
                                        "limit, or give the user its download_url");
    }
    *length = MIN(total - r->offset, r->limit ? MIN(r->limit, READING_TEXT_MAX) : usual);
    return 0;
}

/* --- a file as an execution left it ----------------------------------------------------------- */

static void on_blob_data(void *ctx, const void *data, size_t len)
{
    struct reading *r = ctx;
    strbuf_add(&r->bytes, data, len);
}

static void on_blob_done(void *ctx, const struct error *err)
{
    struct reading *r = ctx;
    r->get = NULL;
    if (err)
        fail(r, err);
    else
        tell(r);
}

static void on_found(void *ctx, const struct archive_file *file, const struct error *cause)
{
    struct reading *r = ctx;
    struct error err;
    uint64_t length = 0;
    if (cause) {
        fail(r, cause);
        return;
    }
    if (plan(r, file->size, &length, &err) < 0) {
        fail(r, &err);
        return;
    }
    if (length == 0) {
        tell(r);
        return;
    }
    const struct blob_get_order order = {.key = file->place,
                                         .offset = r->offset,
                                         .length = length,
                                         .on_data = on_blob_data,
                                         .on_done = on_blob_done,
                                         .ctx = r};
    r->get = blob_get_open(r->api->blob, &order);
}

static void tell_stream(struct reading *r, const json_t *document)
{
    struct error err;
    uint64_t length = 0;
    const json_t *text = json_object_get(document, r->stream);
    if (plan(r, json_string_length(text), &length, &err) < 0) {
        fail(r, &err);
        return;
    }
    if (length > 0)
        strbuf_add(&r->bytes, json_string_value(text) + r->offset, length);
    tell(r);
}

static void fail_unkept(struct reading *r)
{
    struct error err;
    error_set(&err, ERROR_NOT_FOUND, "files of executions are not kept here");
    error_hint(&err, "use a session_id, and read them in the session");
    fail(r, &err);
}

static void on_execution(void *ctx, const char *text, size_t len, const struct error *cause)
{
    struct reading *r = ctx;
    struct error err;
    scoped_json json_t *document = NULL;
    const struct json_limits limits = {.max_bytes = DOCUMENT_MAX, .has_nul = true};
    if (cause)
        fail(r, cause);
    else if (json_parse(&document, text, len, &limits, &err) < 0)
        fail(r, &err);
    else if (r->stream)
        tell_stream(r, document);
    else if (r->api->archive)
        archive_find(r->api->archive, r->execution, r->path, on_found, r);
    else
        fail_unkept(r);
}

/* --- a file in a session ---------------------------------------------------------------------- */

static void on_entry(void *ctx, const struct errand_entry *entry)
{
    struct reading *r = ctx;
    uint64_t length = 0;
    if (entry->kind != ERRAND_FILE)
        return; /* the reason follows */
    if (plan(r, entry->size, &length, &r->problem) < 0)
        length = 0;
    errand_go(r->errand, MIN(r->offset, entry->size), length);
}

static void on_bytes(void *ctx, const void *data, size_t len)
{
    struct reading *r = ctx;
    strbuf_add(&r->bytes, data, len);
}

static void on_ended(void *ctx, const struct errand_end *end)
{
    struct reading *r = ctx;
    r->errand = NULL;
    if (r->problem.msg[0])
        fail(r, &r->problem);
    else if (end->error.msg[0])
        fail(r, &end->error);
    else
        tell(r);
}

static const struct errand_events events = {
    .entry = on_entry, .bytes = on_bytes, .ended = on_ended};

static void read_session(struct reading *r)
{
    struct error err;
    const struct errand_order order = {
        .op = FILES_READ, .path = r->path, .events = &events, .ctx = r};
    if (!errand_path_is_valid(r->path)) {
        error_set(&err, ERROR_INVALID, "path: '%.200s' is not a path below the workspace", r->path);
        fail(r, &err);
    } else if (plane_open_errand(&r->errand, r->api->plane, toolbox_caller(r->call), r->session,
                                 &order, &err) < 0) {
        fail(r, &err);
    }
}

void reading_begin(struct mcp_call *call, const struct reading_order *order)
{
    struct reading *r = xcalloc(1, sizeof(*r));
    *r = (struct reading){.call = call,
                          .api = toolbox_api(call),
                          .execution = copy(order->execution),
                          .session = copy(order->session),
                          .path = copy(order->path),
                          .stream = copy(order->stream),
                          .uri = copy(order->uri),
                          .offset = order->offset,
                          .limit = order->limit,
                          .mime = order->path ? mime_of(order->path) : "text/plain"};
    strbuf_init(&r->bytes, BYTES_MAX);
    mcp_on_cancel(call, on_cancel, r);
    if (r->execution)
        plane_get_execution(r->api->plane, toolbox_caller(call), r->execution, on_execution, r);
    else
        read_session(r);
}
