/* file_stream.c - an incremental reader that believes nothing */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/file_stream.h"

#include <string.h>

bool file_stream_is_good_path(const char *path, size_t len)
{
    if (len == 0 || len >= GUEST_PATH_MAX || memchr(path, '\0', len))
        return false;
    for (size_t at = 0; at <= len;) {
        const char *slash = memchr(path + at, '/', len - at);
        size_t part = slash ? (size_t)(slash - path) - at : len - at;
        if (part == 0 || part > 255 || (part <= 2 && memcmp(path + at, "..", part) == 0))
            return false;
        at += part + 1;
    }
    return true;
}

void file_stream_add_entry(struct strbuf *out, const struct guest_file *file, const char *path)
{
    struct guest_file copy = *file;
    copy.path_len = (uint32_t)strlen(path);
    strbuf_add(out, &copy, sizeof(copy));
    strbuf_add(out, path, copy.path_len);
}

void file_stream_add_end(struct strbuf *out)
{
    const struct guest_file end = {.flags = GUEST_FILE_END};
    strbuf_add(out, &end, sizeof(end));
}

void file_stream_reader_init(struct file_stream_reader *r, const struct file_stream_events *events,
                             void *ctx, bool has_content)
{
    memset(r, 0, sizeof(*r));
    r->events = events;
    r->ctx = ctx;
    r->has_content = has_content;
}

/* The header is whole: is it one that the worker could have sent? */
static int check_header(struct file_stream_reader *r, struct error *err)
{
    const struct guest_file *f = &r->file;
    if (f->flags & GUEST_FILE_END) {
        r->is_over = true;
        r->is_cut = f->flags & GUEST_FILE_TRUNCATED;
        return 0;
    }
    if (f->path_len == 0 || f->path_len >= GUEST_PATH_MAX || f->size > INT64_MAX ||
        f->flags & ~(uint32_t)GUEST_FILE_MISSING)
        return error_set(err, ERROR_INVALID, "the sandbox sent a broken list of files");
    return 0;
}

static int end_file(struct file_stream_reader *r, struct error *err)
{
    r->have = 0;
    return r->events->done ? r->events->done(r->ctx, err) : 0;
}

static int begin_file(struct file_stream_reader *r, struct error *err)
{
    r->path[r->file.path_len] = '\0';
    if (!file_stream_is_good_path(r->path, r->file.path_len))
        return error_set(err, ERROR_INVALID, "the sandbox sent an impossible path");
    bool has_bytes = r->has_content && !(r->file.flags & GUEST_FILE_MISSING);
    r->left = has_bytes ? r->file.size : 0;
    if (r->events->entry(r->ctx, &r->file, r->path, err) < 0)
        return -1;
    return r->left == 0 ? end_file(r, err) : 0;
}

static ssize_t take_content(struct file_stream_reader *r, const char *data, size_t len,
                            struct error *err)
{
    size_t n = (size_t)MIN(r->left, len);
    if (r->events->content(r->ctx, data, n, err) < 0)
        return -1;
    r->left -= n;
    return r->left == 0 && end_file(r, err) < 0 ? -1 : (ssize_t)n;
}

/* Reads as much of header, path or content as is there; answers how many bytes it took, or -1. */
static ssize_t take_some(struct file_stream_reader *r, const char *data, size_t len,
                         struct error *err)
{
    size_t head = sizeof(r->file), n;
    if (r->left > 0)
        return take_content(r, data, len, err);
    if (r->have < head) {
        n = MIN(head - r->have, len);
        memcpy((char *)&r->file + r->have, data, n);
        r->have += n;
        return r->have == head && check_header(r, err) < 0 ? -1 : (ssize_t)n;
    }
    n = MIN(head + r->file.path_len - r->have, len);
    memcpy(r->path + (r->have - head), data, n);
    r->have += n;
    return r->have == head + r->file.path_len && begin_file(r, err) < 0 ? -1 : (ssize_t)n;
}

int file_stream_reader_feed(struct file_stream_reader *r, const void *data, size_t len,
                            struct error *err)
{
    const char *p = data;
    if (r->is_broken)
        return error_set(err, ERROR_INVALID, "the sandbox sent a broken list of files");
    while (len > 0) {
        ssize_t n = r->is_over ? error_set(err, ERROR_INVALID,
                                           "the sandbox went on after its list of files")
                               : take_some(r, p, len, err);
        if (n < 0) {
            r->is_broken = true; /* what the header holds now was never checked */
            return -1;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}
