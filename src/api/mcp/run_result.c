/* run_result.c - one picture after the other, then the answer
 *
 * What cannot be had is not shown; its file is named all the same. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mcp/run_result.h"

#include <stdlib.h>
#include <string.h>

#include "api/mcp/outputs.h"
#include "api/mcp/run_text.h"
#include "api/mcp/toolbox.h"
#include "api/mcp/visible.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "codec/base64.h"
#include "mcp/mcp_task.h"

struct answering {
    struct mcp_call *call;
    struct api *api;
    json_t *document;
    struct run_images images;
    size_t index;         /* of the next artifact */
    struct strbuf bytes;  /* of the one before */
    struct blob_get *get; /* under way; NULL: not */
};

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void free_answering(struct answering *a)
{
    if (a->get)
        blob_get_abort(a->get);
    strbuf_release(&a->bytes);
    json_decref(a->images.list);
    json_decref(a->document);
    free(a);
}

/* The server ends before a task was answered. */
static void on_dropped(void *ctx)
{
    free_answering(ctx);
}

static void finish(struct answering *a)
{
    struct mcp_call *call = a->call;
    mcp_task_on_drop(call, NULL, NULL);
    bool has_links = mcp_version_has(mcp_call_version(call), MCP_HAS_LINKS);
    json_t *content = run_text_content(a->document, &a->images, has_links);
    toolbox_answer(call, content,
                   toolbox_is_structured(call) ? outputs_execution(a->document) : NULL);
    free_answering(a);
}

/* Nobody waits any more. What is only looked for comes to its end. */
static void on_cancel(void *ctx)
{
    struct answering *a = ctx;
    if (!a->get)
        return;
    blob_get_abort(take_ptr(&a->get));
    finish(a);
}

/* --- one picture ------------------------------------------------------------------------------ */

static const json_t *current(const struct answering *a)
{
    return json_array_get(json_object_get(a->document, "artifacts"), a->index - 1);
}

static void add_picture(struct answering *a)
{
    const char *mime = visible_type(strbuf_str(&a->bytes), a->bytes.len);
    scoped_strbuf struct strbuf data;
    strbuf_init(&data, BASE64_ENCODED_LEN(a->bytes.len) + 1);
    base64_add(&data, strbuf_str(&a->bytes), a->bytes.len);
    if (mime)
        json_array_append_new(a->images.list,
                              json_pack("{s:s, s:s, s:O}", "mime", mime, "data", strbuf_str(&data),
                                        "path", json_object_get(current(a), "path")));
}

static void go_on(struct answering *a);

static void on_data(void *ctx, const void *data, size_t len)
{
    struct answering *a = ctx;
    strbuf_add(&a->bytes, data, len);
}

static void on_done(void *ctx, const struct error *err)
{
    struct answering *a = ctx;
    a->get = NULL;
    if (!err && !a->bytes.overflow)
        add_picture(a);
    go_on(a);
}

static void on_found(void *ctx, const struct archive_file *file, const struct error *err)
{
    struct answering *a = ctx;
    if (mcp_is_cancelled(a->call) || (err && err->code != ERROR_NOT_FOUND)) {
        finish(a); /* there may be no archive any more */
        return;
    }
    if (err || file->size == 0 || file->size > RUN_RESULT_PICTURE_BYTES) {
        go_on(a);
        return;
    }
    const struct blob_get_order order = {
        .key = file->place, .on_data = on_data, .on_done = on_done, .ctx = a};
    strbuf_clear(&a->bytes);
    a->get = blob_get_open(a->api->blob, &order);
}

/* --- all of them ------------------------------------------------------------------------------ */

static bool is_wanted(const struct answering *a, const json_t *file)
{
    json_int_t size = json_integer_value(json_object_get(file, "size"));
    return visible_is_type(text_of(file, "mime_type")) && size > 0 &&
           size <= RUN_RESULT_PICTURE_BYTES &&
           run_text_has_room(&a->images, BASE64_ENCODED_LEN((size_t)size));
}

static void go_on(struct answering *a)
{
    const json_t *files = json_object_get(a->document, "artifacts");
    while (a->index < json_array_size(files) && a->index < RUN_TEXT_FILES_MAX &&
           !mcp_is_cancelled(a->call)) {
        const json_t *file = json_array_get(files, a->index++);
        if (!is_wanted(a, file))
            continue;
        archive_find(a->api->archive, text_of(a->document, "id"), text_of(file, "path"), on_found,
                     a);
        return;
    }
    finish(a);
}

void run_result_begin(struct mcp_call *call, json_t *document)
{
    struct answering *a = xcalloc(1, sizeof(*a));
    *a = (struct answering){.call = call, .api = toolbox_api(call), .document = document};
    strbuf_init(&a->bytes, RUN_RESULT_PICTURE_BYTES);
    run_text_images(document, &a->images);
    mcp_on_cancel(call, on_cancel, a);
    mcp_task_on_drop(call, on_dropped, a);
    if (a->api->archive)
        go_on(a);
    else
        finish(a);
}
