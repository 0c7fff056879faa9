/* s3_put.c - writing: a part that fills while the one before is sent
 *
 * What ends before its first part is full is one PUT. Else an upload is begun, its parts follow one
 * after the other, and completing it makes the blob appear. A put that fails or is ended early has
 * S3 throw the parts away; the one request of it that cannot be called off is the first, whose
 * answer is waited for, since only it tells what there is to throw away. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/parse.h"
#include "blob/s3_inside.h"

#define WAITING_MAX       (256 * MIB) /* a caller that does not listen */
#define PARTS_MAX         10000       /* S3's limit */
#define PARTS_OF_ONE_SIZE 1000        /* then they grow: 270 GB have room in all */
#define PART_XML_BYTES    (256 * PARTS_MAX)

struct s3_put {
    struct blob_put put;
    struct s3 *s3;
    struct s3_put *next, **at;
    struct blob_put_order order;
    char *key, *content_type;
    struct strbuf waiting;
    uint64_t total; /* bytes that came */
    struct s3_call *call;
    struct loop_timer *timer; /* until what is wrong with the end is told */
    bool is_ended, is_dropped, wants_drain;
    bool is_beginning; /* the upload's id is about to come */

    char *upload_id;
    struct strbuf parts; /* the document that completes it */
    unsigned part_count;
};

static struct s3_put *of(struct blob_put *put)
{
    return (struct s3_put *)put;
}

static void put_free(struct s3_put *p)
{
    *p->at = p->next;
    if (p->next)
        p->next->at = p->at;
    strbuf_release(&p->waiting);
    strbuf_release(&p->parts);
    free(p->key);
    free(p->content_type);
    free(p->upload_id);
    free(p);
}

/* --- the end --------------------------------------------------------------------------------- */

/* Nobody waits for it; what it cannot do S3's own rules for unfinished uploads will. */
static void on_thrown_away(void *ctx, struct s3_call *call, const struct error *err)
{
    (void)ctx;
    (void)call;
    (void)err;
}

static void throw_away(struct s3_put *p)
{
    if (!p->upload_id)
        return;
    const struct s3_call_order order = {.what = "call off",
                                        .method = "DELETE",
                                        .key = p->key,
                                        .query = {{"uploadId", p->upload_id}},
                                        .on_done = on_thrown_away};
    s3_call_begin(p->s3, &order);
}

static void finish(struct s3_put *p, const struct error *err)
{
    if (err)
        throw_away(p);
    if (!p->is_dropped)
        p->order.on_done(p->order.ctx, err);
    put_free(p);
}

/* --- the way there --------------------------------------------------------------------------- */

static void pump(struct s3_put *p);

static uint64_t part_bytes(const struct s3_put *p)
{
    uint64_t bytes = p->s3->part_bytes * (1 + p->part_count / PARTS_OF_ONE_SIZE);
    if (p->order.size != BLOB_SIZE_UNKNOWN)
        bytes = MAX(bytes, p->order.size / (PARTS_MAX - 1) + 1);
    return bytes;
}

static struct http_body *take_body(struct strbuf *from)
{
    size_t len = from->len;
    return http_body_new(strbuf_take(from), len);
}

/* Room for what comes next is made before anybody is asked for it; who is asked may end the put. */
static void go_on(struct s3_put *p)
{
    pump(p);
    if (!p->wants_drain || p->is_ended || p->waiting.len >= part_bytes(p))
        return;
    p->wants_drain = false;
    if (p->order.on_drain)
        p->order.on_drain(p->order.ctx);
}

static void begin(struct s3_put *p, const struct s3_call_order *order)
{
    struct s3_call_order full = *order;
    full.key = p->key;
    full.ctx = p;
    p->call = s3_call_begin(p->s3, &full);
    http_body_unref(order->body);
}

static void on_single(void *ctx, struct s3_call *call, const struct error *err)
{
    struct s3_put *p = ctx;
    (void)call;
    p->call = NULL;
    finish(p, err);
}

static void put_single(struct s3_put *p)
{
    begin(p, &(struct s3_call_order){.what = "keep",
                                     .method = "PUT",
                                     .headers = {{"content-type", p->content_type}},
                                     .body = take_body(&p->waiting),
                                     .on_done = on_single});
}

static void on_upload(void *ctx, struct s3_call *call, const struct error *err)
{
    struct s3_put *p = ctx;
    struct error local;
    p->call = NULL;
    p->is_beginning = false;
    if (!err && !s3_call_answer(call)->upload_id[0]) {
        const struct s3_failure failure = {
            .what = "begin", .key = p->key, .status = 200, .code = "", .region = ""};
        s3_error(&local, &failure);
        err = &local;
    }
    if (!err)
        p->upload_id = xstrdup(s3_call_answer(call)->upload_id);
    if (err || p->is_dropped) {
        if (!err)
            throw_away(p);
        finish(p, err);
        return;
    }
    go_on(p);
}

static void begin_upload(struct s3_put *p)
{
    p->is_beginning = true;
    begin(p, &(struct s3_call_order){.what = "begin",
                                     .method = "POST",
                                     .query = {{"uploads", ""}},
                                     .headers = {{"content-type", p->content_type}},
                                     .on_done = on_upload});
}

/* An ETag goes into a document of ours. */
static bool add_part(struct s3_put *p, const char *etag)
{
    if (!etag || !*etag || strlen(etag) > BLOB_ETAG_MAX_BYTES || strpbrk(etag, "<>&"))
        return false;
    strbuf_add_fmt(&p->parts, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>",
                   p->part_count, etag);
    return true;
}

static void on_part(void *ctx, struct s3_call *call, const struct error *err)
{
    struct s3_put *p = ctx;
    struct error local;
    p->call = NULL;
    if (!err && !add_part(p, s3_call_header(call, "etag"))) {
        error_set(&local, ERROR_UNAVAILABLE, "keep blob '%s': the storage gave no ETag for a part",
                  p->key);
        error_word(&local, "storage_unavailable");
        err = &local;
    }
    if (err)
        finish(p, err);
    else
        go_on(p);
}

static void send_part(struct s3_put *p)
{
    char number[FORMAT_BYTES];
    format_u64(++p->part_count, number);
    begin(p, &(struct s3_call_order){.what = "write",
                                     .method = "PUT",
                                     .query = {{"partNumber", number}, {"uploadId", p->upload_id}},
                                     .body = take_body(&p->waiting),
                                     .on_done = on_part});
}

/* Whether the blob is there although nobody could be told so: its size and the number of its parts
 * are what was sent. */
static void on_second_look(void *ctx, struct s3_call *call, const struct error *err)
{
    struct s3_put *p = ctx;
    struct blob_info info = {0};
    struct error lost;
    char mark[FORMAT_BYTES + 1];
    p->call = NULL;
    if (!err)
        s3_call_info(call, &info);
    snprintf(mark, sizeof(mark), "-%u", p->part_count);
    const char *dash = strrchr(info.etag, '-');
    if (!err && info.size == p->total && dash && strcmp(dash, mark) == 0) {
        finish(p, NULL);
        return;
    }
    error_set(&lost, ERROR_UNAVAILABLE, "keep blob '%s': the storage has lost the upload", p->key);
    error_word(&lost, "storage_unavailable");
    finish(p, &lost);
}

/* The answer of a first attempt may have been lost, and then there is no such upload any more. */
static void on_complete(void *ctx, struct s3_call *call, const struct error *err)
{
    struct s3_put *p = ctx;
    p->call = NULL;
    if (err && s3_call_attempt(call) > 1 &&
        strcmp(s3_call_answer(call)->code, "NoSuchUpload") == 0) {
        begin(p, &(struct s3_call_order){
                     .what = "look at", .method = "HEAD", .on_done = on_second_look});
        return;
    }
    finish(p, err);
}

static void complete(struct s3_put *p)
{
    strbuf_add_str(&p->parts, "</CompleteMultipartUpload>");
    begin(p, &(struct s3_call_order){.what = "keep",
                                     .method = "POST",
                                     .query = {{"uploadId", p->upload_id}},
                                     .body = take_body(&p->parts),
                                     .on_done = on_complete});
}

static bool has_wrong_size(const struct s3_put *p)
{
    return p->order.size != BLOB_SIZE_UNKNOWN && p->order.size != p->total;
}

static void refuse_size(void *ctx)
{
    struct s3_put *p = ctx;
    struct error err;
    loop_timer_free(take_ptr(&p->timer));
    error_set(&err, ERROR_INVALID, "blob '%s' was to have %llu bytes, and %llu came", p->key,
              (unsigned long long)p->order.size, (unsigned long long)p->total);
    error_word(&err, "size_mismatch");
    finish(p, &err);
}

/* What is next; one request at a time. */
static void pump(struct s3_put *p)
{
    bool is_part = p->waiting.len >= part_bytes(p);
    if (p->call || p->timer)
        return;
    if (p->is_ended && has_wrong_size(p))
        p->timer = loop_timer_new(p->s3->loop, 0, refuse_size, p);
    else if (p->is_ended && !p->upload_id)
        put_single(p);
    else if (is_part && !p->upload_id)
        begin_upload(p);
    else if (is_part || (p->is_ended && p->waiting.len > 0))
        send_part(p);
    else if (p->is_ended)
        complete(p);
}

/* --- calls ----------------------------------------------------------------------------------- */

struct blob_put *s3_put_open(struct blob *blob, const struct blob_put_order *order)
{
    struct s3 *s3 = (struct s3 *)blob;
    struct s3_put *p = xcalloc(1, sizeof(*p));
    *p = (struct s3_put){.put = {.ops = blob->ops},
                         .s3 = s3,
                         .next = s3->writers,
                         .at = &s3->writers,
                         .order = *order,
                         .key = xstrdup(order->key),
                         .content_type = xstrdup(order->content_type ? order->content_type
                                                                     : "application/octet-stream")};
    if (p->next)
        p->next->at = &p->next;
    s3->writers = p;
    strbuf_init(&p->waiting, WAITING_MAX);
    strbuf_init(&p->parts, PART_XML_BYTES);
    strbuf_add_str(&p->parts, "<CompleteMultipartUpload>");
    return &p->put;
}

bool s3_put_write(struct blob_put *put, const void *data, size_t len)
{
    struct s3_put *p = of(put);
    BUG_ON(p->is_ended);
    strbuf_add(&p->waiting, data, len);
    BUG_ON(p->waiting.overflow);
    p->total += len;
    pump(p);
    p->wants_drain = p->waiting.len >= part_bytes(p);
    return !p->wants_drain;
}

void s3_put_end(struct blob_put *put)
{
    struct s3_put *p = of(put);
    BUG_ON(p->is_ended);
    p->is_ended = true;
    pump(p);
}

void s3_put_abort(struct blob_put *put)
{
    struct s3_put *p = of(put);
    p->is_dropped = true;
    loop_timer_free(take_ptr(&p->timer));
    if (p->is_beginning)
        return;
    if (p->call)
        s3_call_cancel(take_ptr(&p->call));
    throw_away(p);
    put_free(p);
}

void s3_put_cut(struct s3_put *p)
{
    loop_timer_free(take_ptr(&p->timer));
    if (p->call)
        s3_call_cancel(p->call);
    put_free(p);
}
