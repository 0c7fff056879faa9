/* rest_link.c - /files/...: what is signed needs no token; and how one asks for such an address
 *
 * With `exe` it is a file as an execution left it, from the archive; without, as it is now in its
 * session. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/download.h"
#include "api/file_head.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "codec/disposition.h"
#include "core/errand.h"

#define SIGN_BODY_MAX (64 * KIB)
#define REDIRECT_S    300 /* for which an address of the bucket works; it is followed at once */

/* --- an artifact on its way ------------------------------------------------------------------- */

#define ETAG_BYTES (SHA256_HEX_BYTES + 2)

struct fetch {
    struct api_call *call; /* until its request is taken */
    struct blob *blob;
    struct http_request *request; /* NULL: the peer has left */
    struct blob_get *get;
    char *path, *mime, *place;
    char etag[ETAG_BYTES];
    struct file_head head;
    struct range range;
    bool has_begun;
};

static void free_fetch(struct fetch *f)
{
    if (f->get)
        blob_get_abort(f->get);
    free(f->path);
    free(f->mime);
    free(f->place);
    free(f);
}

static void on_gone(void *ctx)
{
    free_fetch(ctx);
}

static void on_drain(void *ctx)
{
    struct fetch *f = ctx;
    blob_get_resume(f->get);
}

/* Not before: what is missing is told with a status of its own. */
static void on_begin(void *ctx, const struct blob_info *info)
{
    struct fetch *f = ctx;
    (void)info;
    f->has_begun = true;
    file_head_begin(f->request, &f->head, f->range);
    http_on_drain(f->request, on_drain, f);
}

static void on_data(void *ctx, const void *data, size_t len)
{
    struct fetch *f = ctx;
    if (!http_stream_write(f->request, data, len))
        blob_get_pause(f->get);
}

/* The row names a place at which nothing is: its bytes were lost, or removed just now. */
static int explain(struct error *err, const struct error *cause)
{
    *err = *cause;
    if (cause->code != ERROR_NOT_FOUND)
        return -1;
    error_set(err, ERROR_NOT_FOUND, "the bytes of the file are not kept any more");
    error_hint(err, "run the code again");
    return error_word(err, "artifact_gone");
}

static void on_done(void *ctx, const struct error *cause)
{
    struct fetch *f = ctx;
    struct error err;
    f->get = NULL;
    http_on_gone(f->request, NULL, NULL);
    if (cause && f->has_begun) {
        http_stream_abort(f->request); /* so that the peer sees that something is missing */
    } else if (cause) {
        explain(&err, cause);
        http_fail(f->request, &err);
    } else {
        http_stream_end(f->request);
    }
    free_fetch(f);
}

static void set_head(struct fetch *f, const struct archive_file *file)
{
    char hex[SHA256_HEX_BYTES];
    format_hex(file->sha256, SHA256_BYTES, hex);
    snprintf(f->etag, sizeof(f->etag), "\"%s\"", hex);
    f->mime = xstrdup(file->mime);
    f->head = (struct file_head){.path = f->path,
                                 .type = f->mime,
                                 .etag = f->etag,
                                 .size = file->size,
                                 .modified_ns = file->modified_ns,
                                 .is_shared = true};
}

static void stream(struct fetch *f)
{
    const struct blob_get_order order = {.key = f->place,
                                         .offset = f->range.first,
                                         .length = f->range.length,
                                         .on_begin = on_begin,
                                         .on_data = on_data,
                                         .on_done = on_done,
                                         .ctx = f};
    http_on_gone(f->request, on_gone, f);
    f->get = blob_get_open(f->blob, &order);
}

/* --- from the bucket itself ------------------------------------------------------------------- */

/* The bucket answers as we would: an attachment, with the type of its name. It is another origin,
 * so nothing in it can run in ours. */
static void redirect(struct fetch *f)
{
    scoped_strbuf struct strbuf url, disposition;
    strbuf_init(&url, LINK_MAX_BYTES);
    strbuf_init(&disposition, DISPOSITION_MAX_BYTES);
    disposition_add(&disposition, DISPOSITION_ATTACHMENT, f->path, strlen(f->path));
    const struct blob_presign_order order = {.method = BLOB_GET,
                                             .key = f->place,
                                             .expires_s = REDIRECT_S,
                                             .disposition = strbuf_str(&disposition),
                                             .type = f->mime};
    blob_presign(f->blob, &order, &url);
    http_add_header(f->request, "Location", strbuf_str(&url));
    http_add_header(f->request, "Cache-Control", "no-store");
    http_add_header(f->request, "Referrer-Policy", "no-referrer");
    http_respond(f->request, 307, NULL, NULL, 0);
}

/* A question cannot be called off, so the peer may have left meanwhile. */
static void on_left(void *ctx)
{
    struct fetch *f = ctx;
    f->request = NULL;
}

/* Asked first, so that what is missing, or a bucket that is dead, is told in our words. */
static void on_stat(void *ctx, const struct error *cause, const struct blob_info *info)
{
    struct fetch *f = ctx;
    struct error err;
    if (f->request && !cause && info->is_near) {
        stream(f);
        return;
    }
    if (f->request)
        http_on_gone(f->request, NULL, NULL);
    if (f->request && cause) {
        explain(&err, cause);
        http_fail(f->request, &err);
    } else if (f->request) {
        redirect(f);
    }
    free_fetch(f);
}

static bool comes_from_bucket(const struct api *api, uint64_t size)
{
    return api->redirect_bytes > 0 && size >= api->redirect_bytes &&
           blob_can_presign(api->artifacts);
}

static void on_found(void *ctx, const struct archive_file *file, const struct error *err)
{
    struct fetch *f = ctx;
    const struct api *api = api_of(f->call);
    f->blob = api->artifacts;
    if (err) {
        api_fail(f->call, err);
        free_fetch(f);
        return;
    }
    f->request = api_take(f->call);
    if (!f->request) {
        free_fetch(f);
        return;
    }
    f->place = xstrdup(file->place);
    set_head(f, file);
    f->range = file_head_range(f->request, &f->head);
    if (file_head_settle(f->request, &f->head, f->range)) {
        free_fetch(f);
        return;
    }
    if (!comes_from_bucket(api, file->size)) {
        stream(f);
        return;
    }
    http_on_gone(f->request, on_left, f);
    blob_stat(f->blob, f->place, on_stat, f);
}

/* --- the door --------------------------------------------------------------------------------- */

struct link_query {
    char *execution, *expires, *signature;
};

/* clang-format off */
#define AT(field) offsetof(struct link_query, field)
static const struct param link_rows[] = {
    {.name = "exe", .type = PARAM_STRING, .offset = AT(execution), .max_len = ID_BYTES,
     .help = "The execution that left the file so."},
    {.name = "exp", .type = PARAM_STRING, .offset = AT(expires), .max_len = 20,
     .help = "When the address stops to work, in seconds since 1970."},
    {.name = "sig", .type = PARAM_STRING, .offset = AT(signature), .max_len = 64,
     .help = "The signature."},
};
#undef AT
static const struct param_table link_table = PARAM_TABLE(struct link_query, "FileLink", link_rows);
/* clang-format on */

static void on_file(struct api_call *call)
{
    const struct link_query *q = api_query(call);
    const struct api *api = api_of(call);
    const struct links_target target = {.session = api_parameter(call, "session"),
                                        .execution = q->execution ? q->execution : "",
                                        .path = api_parameter(call, "path")};
    struct error err;
    /* Without them it is no address of ours, as with wrong ones. */
    const char *expires = q->expires ? q->expires : "",
               *signature = q->signature ? q->signature : "";
    if (links_check(api->links, &target, expires, signature, clock_wall_ns(), &err) < 0) {
        api_fail(call, &err);
        return;
    }
    if (!target.execution[0]) {
        const struct plane_caller anybody = {.owner = "", .sees_all = true};
        download_begin(call, &anybody, target.session, target.path, DOWNLOAD_FILE);
        return;
    }
    struct fetch *f = xcalloc(1, sizeof(*f));
    f->call = call;
    f->path = xstrdup(target.path);
    archive_find(api->archive, target.execution, target.path, on_found, f);
}

/* --- asking for an address ---------------------------------------------------------------------
 */

struct sign_wish {
    char *path;
    uint64_t ttl_ms; /* 0: as long as usual */
};

/* clang-format off */
#define AT(field) offsetof(struct sign_wish, field)
static const struct param sign_rows[] = {
    {.name = "path", .type = PARAM_STRING, .is_required = true, .offset = AT(path), .max_len = GUEST_PATH_MAX,
     .example = "\"out.png\"", .help = "Relative to the workspace. The file need not be there yet."},
    {.name = "expires_in", .other_name = "expires_in_seconds", .type = PARAM_SECONDS, .offset = AT(ttl_ms), .min = 1,
     .max = 30.0 * 24 * 3600, .example = "3600", .help = "Seconds for which the address works."},
};
#undef AT
static const struct param_table sign_table = PARAM_TABLE(struct sign_wish, "SignFile", sign_rows);
/* clang-format on */

static int make_link(struct api_call *call, json_t **out, struct error *err)
{
    const struct sign_wish *wish = api_body(call);
    const struct api *api = api_of(call);
    const char *word = api_parameter(call, "id");
    char expires[CLOCK_TEXT_BYTES];
    int64_t expires_ns;
    scoped_strbuf struct strbuf url;
    strbuf_init(&url, LINK_MAX_BYTES);
    if (links_check_ttl(api->links, wish->ttl_ms, err) < 0 ||
        !plane_use(api->plane, api_caller(call), word, err))
        return -1;
    const struct links_target target = {.session =
                                            plane_session_id(api->plane, api_caller(call), word),
                                        .execution = "",
                                        .path = wish->path};
    if (!errand_path_is_valid(wish->path) ||
        !links_add(api->links, &url, &target, wish->ttl_ms, clock_wall_ns(), &expires_ns)) {
        error_set(err, ERROR_INVALID, "path: no address can lead to '%.200s'", wish->path);
        return error_hint(err, "give a path relative to the workspace, of UTF-8 and without "
                               "control characters");
    }
    clock_format(expires_ns, expires);
    *out = json_pack("{s:s, s:s, s:s}", "path", wish->path, "url", strbuf_str(&url), "expires_at",
                     expires);
    return 0;
}

static void on_sign(struct api_call *call)
{
    struct error err;
    json_t *document = NULL;
    if (make_link(call, &document, &err) < 0)
        api_fail(call, &err);
    else
        api_answer(call, 200, document);
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct api_reply file_reply[] = {
    {200, NULL, "*/*", "The file, with a type by its name."},
    {206, NULL, "*/*", "The part of it that Range asks for."},
    {304, NULL, NULL, "It is the one that If-None-Match names."},
    {307, NULL, NULL,
     "It is large, and the operator has it fetched from the storage: see Location."},
    {0}};
static const int file_errors[] = {404, 409, 416, 0}, sign_errors[] = {404, 409, 0};
static const struct api_reply sign_reply[] = {{200, "SignedFile", NULL, "The address."}, {0}};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_GET, .pattern = "/files/{session}/{path*}", .flags = API_OPEN | API_ONLY_ROOT,
     .query = &link_table, .handler = on_file, .id = "getSignedFile", .tag = "files",
     .summary = "Fetch a file by its signed address",
     .help = "download_url of an artifact is such an address. It needs no token, works until it expires, and for "
             "nothing but what it was made for. The file comes as an attachment that no page can run.",
     .replies = file_reply, .errors = file_errors},
    {.method = METHOD_POST, .pattern = "/sessions/{id}/files/sign", .scope = SCOPE_FILES, .body_max = SIGN_BODY_MAX,
     .body = &sign_table, .handler = on_sign, .id = "signFile", .tag = "files",
     .summary = "Make an address that needs no token",
     .help = "Whoever has it can read this one file of the session, as it is then, until it expires or the session "
             "ends. A file as an execution left it has such an address already: download_url.",
     .replies = sign_reply, .errors = sign_errors},
};
/* clang-format on */
const struct api_group rest_link_group = {rows, ARRAY_LEN(rows)};
