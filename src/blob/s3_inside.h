/* s3_inside.h - what the files of s3*.c share: a call, which is one request tried until it is clear
 *
 * A call signs, sends, judges the answer and tries again. Puts and gets are made of calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "blob/blob_ops.h"
#include "blob/s3.h"
#include "blob/s3_answer.h"
#include "codec/sigv4.h"
#include "http/http_client.h"

#define S3_PAIRS_MAX 4 /* of a call's query, and of its headers */

struct s3 {
    struct blob blob;
    struct loop *loop;
    struct http_client *client;
    char *base; /* "https://host" */
    char *host; /* as it is sent and signed */
    char *root; /* of paths: "/bucket/" or "/" */
    char *bucket, *prefix, *endpoint;
    char *region, *access_key, *secret_key, *session_token;
    uint64_t part_bytes, pause_ms;
    unsigned attempts;
    int64_t skew_s; /* the server's clock is so far ahead of ours */
    struct s3_call *calls;
    struct s3_put *writers;
    struct s3_get *readers;
    struct blob_health figures;
};

struct sigv4_keys s3_keys(const struct s3 *s3);
int64_t s3_now_s(const struct s3 *s3); /* by the server's clock */

/* --- s3_call.c ------------------------------------------------------------------------------- */

struct s3_call;

struct s3_call_order {
    const char *what; /* "keep", for messages */
    const char *method;
    const char *key;                       /* NULL: the bucket itself */
    struct sigv4_pair query[S3_PAIRS_MAX]; /* copied, as all texts are */
    struct sigv4_pair headers[S3_PAIRS_MAX];
    struct http_body *body; /* NULL: none */

    /* a download: the range of it, and who reads */
    bool is_stream;
    uint64_t offset, length;                          /* 0: to the end */
    void (*on_head)(void *ctx, struct s3_call *call); /* once, of an answer that is good */
    void (*on_data)(void *ctx, const void *data, size_t len);

    /* Exactly once, never from inside s3_call_begin(). The call is gone after it. */
    void (*on_done)(void *ctx, struct s3_call *call, const struct error *err);
    void *ctx;
    void *owned; /* malloc'ed memory that ends with the call; NULL: none */
};

struct s3_call *s3_call_begin(struct s3 *s3, const struct s3_call_order *order);
void s3_call_cancel(struct s3_call *call);
void s3_call_pause(struct s3_call *call);
void s3_call_resume(struct s3_call *call);

/* In the callbacks. */
int s3_call_status(const struct s3_call *call);
unsigned s3_call_attempt(const struct s3_call *call); /* 1 is the first */
const char *s3_call_header(struct s3_call *call, const char *name);
const struct s3_answer *s3_call_answer(const struct s3_call *call);
void s3_call_info(struct s3_call *call, struct blob_info *out); /* of a HEAD or GET */

/* --- s3_error.c ------------------------------------------------------------------------------ */

struct s3_failure {
    const char *what, *key;
    int status;
    const char *code;   /* of S3, or "" */
    const char *region; /* where the bucket is, or "" */
    bool is_silent;     /* no answer came, or not all of it */
};

/* Says what it means and what to do, and not where the storage is: clients read it. -1. */
int s3_error(struct error *err, const struct s3_failure *failure);

/* May it be gone the next time? */
bool s3_error_passes(const struct s3_failure *failure);

/* --- s3_put.c, s3_get.c ----------------------------------------------------------------------- */

struct blob_put *s3_put_open(struct blob *blob, const struct blob_put_order *order);
bool s3_put_write(struct blob_put *put, const void *data, size_t len);
void s3_put_end(struct blob_put *put);
void s3_put_abort(struct blob_put *put);
void s3_put_cut(struct s3_put *put); /* with the blob: there is nobody left to tell S3 */

struct blob_get *s3_get_open(struct blob *blob, const struct blob_get_order *order);
void s3_get_pause(struct blob_get *get);
void s3_get_resume(struct blob_get *get);
void s3_get_abort(struct blob_get *get);
void s3_get_cut(struct s3_get *get);
