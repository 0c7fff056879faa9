/* file_head.c - RFC 9110: If-None-Match before Range, Range only beside an If-Range that holds */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/file_head.h"

#include <string.h>
#include <time.h>

#include "base/strbuf.h"
#include "codec/disposition.h"
#include "codec/etag.h"

#define NS_PER_S      1000000000ll
#define DATE_MAX_S    253402300799ll /* the last second of the year 9999 */
#define DATE_BYTES    40
#define UNSATISFIABLE 416

struct range file_head_range(const struct http_request *r, const struct file_head *head)
{
    struct range range = {.kind = RANGE_WHOLE};
    /* A date is no strong validator for what code may write twice in a second. */
    if (http_method(r) == METHOD_GET && range_counts(http_header(r, "if-range"), head->etag, NULL))
        range = range_of(http_header(r, "range"), head->size);
    if (range.kind == RANGE_WHOLE)
        range.length = head->size;
    return range;
}

static void add_modified(struct http_request *r, int64_t modified_ns)
{
    char text[DATE_BYTES];
    struct tm tm;
    time_t seconds = modified_ns / NS_PER_S;
    if (modified_ns < 0 || seconds > DATE_MAX_S) /* a tenant may set any time */
        return;
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    http_add_header(r, "Last-Modified", text);
}

void file_head_add_name(struct http_request *r, const char *path)
{
    scoped_strbuf struct strbuf value;
    strbuf_init(&value, DISPOSITION_MAX_BYTES);
    disposition_add(&value, DISPOSITION_ATTACHMENT, path, strlen(path));
    http_add_header(r, "Content-Disposition", strbuf_str(&value));
}

void file_head_add_fences(struct http_request *r, bool is_shared)
{
    http_add_header(r, "Cache-Control", "private, no-cache");
    http_add_header(r, "Content-Security-Policy", "default-src 'none'; sandbox");
    http_add_header(r, "Cross-Origin-Resource-Policy", is_shared ? "cross-origin" : "same-origin");
    http_add_header(r, "Referrer-Policy", "no-referrer");
}

static void refuse_range(struct http_request *r, const struct file_head *head, struct range range)
{
    char text[RANGE_TEXT_BYTES];
    range_format(range, head->size, text);
    http_add_header(r, "Content-Range", text);
    http_fail_as(r, &(struct http_error){.status = UNSATISFIABLE,
                                         .code = "range_not_satisfiable",
                                         .message = "the file has no such bytes",
                                         .hint = "Content-Range has its size"});
}

bool file_head_settle(struct http_request *r, const struct file_head *head, struct range range)
{
    const char *known = http_header(r, "if-none-match");
    if (known && etag_is_listed(known, head->etag)) {
        http_add_header(r, "ETag", head->etag);
        file_head_add_fences(r, head->is_shared);
        http_respond(r, 304, NULL, NULL, 0);
    } else if (range.kind == RANGE_UNSATISFIABLE) {
        refuse_range(r, head, range);
    } else if (http_method(r) == METHOD_HEAD || range.length == 0) {
        file_head_begin(r, head, range);
        http_stream_end(r);
    } else {
        return false;
    }
    return true;
}

void file_head_begin(struct http_request *r, const struct file_head *head, struct range range)
{
    bool is_part = range.kind == RANGE_PART;
    file_head_add_fences(r, head->is_shared);
    http_add_header(r, "ETag", head->etag);
    http_add_header(r, "Accept-Ranges", "bytes");
    add_modified(r, head->modified_ns);
    file_head_add_name(r, head->path);
    if (is_part) {
        char text[RANGE_TEXT_BYTES];
        range_format(range, head->size, text);
        http_add_header(r, "Content-Range", text);
    }
    http_stream_begin(r, is_part ? 206 : 200, head->type, range.length);
}
