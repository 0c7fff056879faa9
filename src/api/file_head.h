/* file_head.h - the head of an answer that is a file: Range, ETag, and fences around its content
 *
 * Whatever a file says of itself, it is sent as an attachment that no page of this origin runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/range.h"
#include "http/http.h"

/* Borrowed. */
struct file_head {
    const char *path; /* whose last part is the name */
    const char *type;
    const char *etag; /* with its quotes; strong */
    uint64_t size;
    int64_t modified_ns; /* wall clock; what has no place in a date is left out */
    bool is_shared;      /* other origins may show it: its address is the permission */
};

/* What the request wants of it; `length` is that of the body, also of a whole one. */
struct range file_head_range(const struct http_request *r, const struct file_head *head);

/* Answers what needs no byte of the file: 304, 416, a HEAD, an empty one. True: it is answered. */
bool file_head_settle(struct http_request *r, const struct file_head *head, struct range range);

/* 200 or 206; `range.length` bytes are to follow by http_stream_write(). */
void file_head_begin(struct http_request *r, const struct file_head *head, struct range range);

/* For what is no file and yet content of a sandbox: a tar stream. */
void file_head_add_name(struct http_request *r, const char *path);
void file_head_add_fences(struct http_request *r, bool is_shared);
