/* rest_upload.c - a large file past this server: an address of the bucket, then into the session */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/file_json.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "core/errand.h"
#include "core/uploads.h"

#define REMOVE_MS     5000 /* a storage that is silent has the file told all the same */
#define BODY_MAX      (64 * KIB)
#define URL_MAX_BYTES (16 * KIB)
#define EXPIRES_MS    3600000u
#define NS_PER_S      1000000000ll
#define FILE_MODE     0644

/* --- an address to put it to ------------------------------------------------------------------ */

struct upload_wish {
    uint64_t ttl_ms;
};

struct place_wish {
    char *path;
    bool overwrites;
};

/* clang-format off */
static const struct param upload_rows[] = {
    {.name = "expires_in", .other_name = "expires_in_seconds", .type = PARAM_SECONDS,
     .offset = offsetof(struct upload_wish, ttl_ms), .min = 1, .max = 24.0 * 3600, .example = "3600",
     .help = "Seconds for which the address works; an hour by default."},
};
static const struct param_table upload_table = PARAM_TABLE(struct upload_wish, "CreateUpload", upload_rows);

static const struct param place_rows[] = {
    {.name = "path", .type = PARAM_STRING, .is_required = true, .offset = offsetof(struct place_wish, path),
     .max_len = GUEST_PATH_MAX, .example = "\"data.parquet\"", .help = "Relative to the workspace. Folders are made."},
    {.name = "overwrite", .type = PARAM_BOOLEAN, .offset = offsetof(struct place_wish, overwrites), .preset = "true",
     .help = "Whether a file that is there is replaced."},
};
static const struct param_table place_table = PARAM_TABLE(struct place_wish, "PlaceUpload", place_rows);
/* clang-format on */

static int check_storage(const struct api *api, struct error *err)
{
    if (api->blob && blob_can_presign(api->blob))
        return 0;
    error_set(err, ERROR_CONFLICT, "this server keeps files on its own disk, which has no address");
    error_hint(err, "PUT the file to /sessions/{id}/files/{path}; the operator raises --upload-max "
                    "for larger ones, or sets up a bucket");
    return error_word(err, "uploads_unavailable");
}

static int make_upload(struct api_call *call, json_t **out, struct error *err)
{
    const struct upload_wish *wish = api_body(call);
    const struct api *api = api_of(call);
    const char *word = api_parameter(call, "id");
    char id[ID_BYTES], key[UPLOAD_KEY_BYTES], expires[CLOCK_TEXT_BYTES];
    unsigned seconds = (unsigned)MAX(1, (wish->ttl_ms ? wish->ttl_ms : EXPIRES_MS) / 1000);
    scoped_strbuf struct strbuf url;
    strbuf_init(&url, URL_MAX_BYTES);
    if (!plane_use(api->plane, api_caller(call), word, err) || check_storage(api, err) < 0 ||
        id_make(ID_UPLOAD, id, err) < 0)
        return -1;
    upload_key(plane_session_id(api->plane, api_caller(call), word), id, key);
    const struct blob_presign_order order = {.method = BLOB_PUT, .key = key, .expires_s = seconds};
    blob_presign(api->blob, &order, &url);
    clock_format(clock_wall_ns() + seconds * NS_PER_S, expires);
    *out = json_pack("{s:s, s:s, s:s, s:s}", "id", id, "method", "PUT", "url", strbuf_str(&url),
                     "expires_at", expires);
    return 0;
}

static void on_create(struct api_call *call)
{
    struct error err;
    json_t *document = NULL;
    if (make_upload(call, &document, &err) < 0)
        api_fail(call, &err);
    else
        api_answer(call, 201, document);
}

/* --- from there into the session -------------------------------------------------------------- */

struct placing {
    struct placing *next; /* in api.placings */
    struct api *api;
    struct api_call *call; /* NULL: it was told, or who asked has left; it is about to end */
    struct blob *blob;
    struct errand *errand; /* NULL: it is over */
    struct blob_get *get;  /* NULL: all has come, or nothing will */
    char key[UPLOAD_KEY_BYTES];
    char *session, *path;
    json_t *file;             /* as it is now; NULL: not known yet */
    int status;               /* to answer; 0: it is not there yet */
    struct loop_timer *timer; /* until it is told, removed or not */
};

static void free_placing(struct placing *p)
{
    if (p->errand)
        errand_close(p->errand);
    if (p->get)
        blob_get_abort(p->get);
    loop_timer_free(p->timer);
    json_decref(p->file);
    free(p->session);
    free(p->path);
    free(p);
}

static void fail(struct placing *p, const struct error *err)
{
    api_on_gone(p->call, NULL, NULL);
    api_fail(p->call, err);
    free_placing(p);
}

/* What has not come whole has never been; the upload stays, for another try. */
static void on_gone(void *ctx)
{
    struct placing *p = ctx;
    api_take(take_ptr(&p->call));
    loop_timer_free(take_ptr(&p->timer));
    if (!p->status) /* else the storage has a word for us yet */
        free_placing(p);
}

static void on_data(void *ctx, const void *data, size_t len)
{
    struct placing *p = ctx;
    if (!errand_write(p->errand, data, len))
        blob_get_pause(p->get);
}

static void on_drained(void *ctx)
{
    struct placing *p = ctx;
    if (p->get)
        blob_get_resume(p->get);
}

static void on_got(void *ctx, const struct error *cause)
{
    struct placing *p = ctx;
    struct error err;
    p->get = NULL;
    if (!cause) {
        errand_commit(p->errand);
        return;
    }
    err = *cause;
    if (cause->code == ERROR_NOT_FOUND) {
        error_set(&err, ERROR_NOT_FOUND, "nothing was uploaded, or it was placed already");
        error_hint(&err, "PUT the bytes to the url of the upload first");
        error_word(&err, "upload_not_found");
    }
    fail(p, &err);
}

static void on_entry(void *ctx, const struct errand_entry *entry)
{
    struct placing *p = ctx;
    json_decref(p->file);
    p->file = file_json(p->session, p->path, entry);
}

static void tell(void *ctx)
{
    struct placing *p = ctx;
    struct api_call *call = take_ptr(&p->call);
    loop_timer_free(take_ptr(&p->timer));
    if (!call)
        return;
    api_on_gone(call, NULL, NULL);
    if (p->file)
        api_answer(call, p->status, take_ptr(&p->file));
    else
        api_answer_empty(call, p->status);
}

/* Told only now: who is told may put other bytes to the same address at once, and they must not be
 * what is removed. What could not be removed goes in a day. */
static void on_removed(void *ctx, const struct error *err)
{
    (void)err;
    struct placing *p = ctx, **at = &p->api->placings;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    tell(p);
    free_placing(p);
}

void placing_free_all(struct api *api)
{
    while (api->placings) {
        struct placing *p = api->placings;
        api->placings = p->next;
        free_placing(p);
    }
}

static void on_ended(void *ctx, const struct errand_end *end)
{
    struct placing *p = ctx;
    p->errand = NULL;
    if (end->error.msg[0]) {
        fail(p, &end->error);
        return;
    }
    p->status = !p->file ? 204 : end->is_created ? 201 : 200;
    p->timer = loop_timer_new(p->api->loop, REMOVE_MS, tell, p);
    p->next = p->api->placings;
    p->api->placings = p;
    blob_remove(p->blob, p->key, on_removed, p);
}

static const struct errand_events events = {
    .entry = on_entry, .drained = on_drained, .ended = on_ended};

static int begin(struct placing *p, const struct place_wish *wish, struct error *err)
{
    const struct api *api = api_of(p->call);
    const char *upload = api_parameter(p->call, "upload");
    const char *word = api_parameter(p->call, "id");
    const struct errand_order order = {.op = FILES_WRITE,
                                       .flags =
                                           FILES_PARENTS | (wish->overwrites ? FILES_REPLACE : 0),
                                       .path = p->path,
                                       .mode = FILE_MODE,
                                       .events = &events,
                                       .ctx = p};
    if (!id_is_valid(ID_UPLOAD, upload)) {
        error_set(err, ERROR_NOT_FOUND, "there is no upload '%.64s'", upload);
        return error_word(err, "upload_not_found");
    }
    if (!plane_use(api->plane, api_caller(p->call), word, err) || check_storage(api, err) < 0 ||
        plane_open_errand(&p->errand, api->plane, api_caller(p->call), word, &order, err) < 0)
        return -1;
    upload_key(plane_session_id(api->plane, api_caller(p->call), word), upload, p->key);
    return 0;
}

static void on_place(struct api_call *call)
{
    const struct place_wish *wish = api_body(call);
    struct error err;
    struct placing *p = xcalloc(1, sizeof(*p));
    *p = (struct placing){.api = api_of(call),
                          .call = call,
                          .blob = api_of(call)->blob,
                          .session = xstrdup(api_parameter(call, "id")),
                          .path = xstrdup(wish->path)};
    if (begin(p, wish, &err) < 0) {
        api_fail(call, &err);
        free_placing(p);
        return;
    }
    api_on_gone(call, on_gone, p);
    p->get = blob_get_open(
        p->blob,
        &(struct blob_get_order){.key = p->key, .on_data = on_data, .on_done = on_got, .ctx = p});
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct api_reply create_reply[] = {{201, "Upload", NULL, "The address."}, {0}};
static const struct api_reply place_reply[] = {
    {201, "File", NULL, "It is there."}, {200, "File", NULL, "It replaced one."}, {0}};
static const int create_errors[] = {404, 409, 0}, place_errors[] = {404, 409, 413, 504, 507, 0};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_POST, .pattern = "/sessions/{id}/uploads", .scope = SCOPE_FILES, .body_max = BODY_MAX,
     .body = &upload_table, .handler = on_create, .id = "createUpload", .tag = "files",
     .summary = "Make an address to upload a large file to",
     .help = "The bytes go to the bucket, past this server and its --upload-max: curl -T FILE URL. Then the file is "
             "placed in the session. A server without a bucket answers 409 uploads_unavailable.",
     .replies = create_reply, .errors = create_errors},
    {.method = METHOD_POST, .pattern = "/sessions/{id}/uploads/{upload}", .scope = SCOPE_FILES, .body_max = BODY_MAX,
     .body = &place_table, .handler = on_place, .id = "placeUpload", .tag = "files",
     .summary = "Put what was uploaded into the workspace",
     .help = "Whole or not at all. It is gone from the bucket then; what is never placed goes after a day.",
     .replies = place_reply, .errors = place_errors},
};
/* clang-format on */
const struct api_group rest_upload_group = {rows, ARRAY_LEN(rows)};
