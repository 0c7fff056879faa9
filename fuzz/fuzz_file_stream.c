/* fuzz_file_stream.c - a stream means the same however it is cut, and paths never lead out
 *
 * The first byte says whether content follows the headers and how the stream is cut. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/file_stream.h"

#include <string.h>

#include "fuzz.h"

struct record {
    uint64_t hash;
    uint64_t left;
    bool has_entry;
    bool has_content;
};

static void mix(struct record *r, const void *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        r->hash = (r->hash ^ ((const uint8_t *)data)[i]) * 1099511628211u;
}

static bool leads_out(const char *path)
{
    return path[0] == '/' || strcmp(path, "..") == 0 || strncmp(path, "../", 3) == 0 ||
           strstr(path, "/../") ||
           (strlen(path) > 2 && strcmp(path + strlen(path) - 3, "/..") == 0);
}

static int on_entry(void *ctx, const struct guest_file *file, const char *path, struct error *err)
{
    struct record *r = ctx;
    BUG_ON(r->has_entry || leads_out(path) || strlen(path) != file->path_len);
    BUG_ON(file->size > INT64_MAX);
    r->has_entry = true;
    r->left = r->has_content && !(file->flags & GUEST_FILE_MISSING) ? file->size : 0;
    mix(r, file, sizeof(*file));
    mix(r, path, strlen(path));
    if (strcmp(path, "stop") == 0)
        return error_set(err, ERROR_LIMIT, "stopped");
    return 0;
}

static int on_content(void *ctx, const void *data, size_t len, struct error *err)
{
    (void)err;
    struct record *r = ctx;
    BUG_ON(!r->has_entry || len == 0 || len > r->left);
    r->left -= len;
    mix(r, data, len);
    return 0;
}

static int on_done(void *ctx, struct error *err)
{
    (void)err;
    struct record *r = ctx;
    BUG_ON(!r->has_entry || r->left > 0);
    r->has_entry = false;
    return 0;
}

static const struct file_stream_events events = {on_entry, on_content, on_done};

/* Feeds all of it in pieces; answers the result of the last. */
static int feed(struct file_stream_reader *reader, struct record *r, const uint8_t *data,
                size_t size, size_t chunk)
{
    int result = 0;
    file_stream_reader_init(reader, &events, r, r->has_content);
    for (size_t at = 0; at < size; at += chunk) {
        struct error err;
        int next = file_stream_reader_feed(reader, data + at, MIN(chunk, size - at), &err);
        BUG_ON(result < 0 && next == 0); /* a broken stream stays broken */
        result = next;
    }
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const bool has_content = data[0] & 1;
    const size_t chunk = 1 + (data[0] >> 1);
    struct record whole = {.has_content = has_content}, cut = {.has_content = has_content};
    struct file_stream_reader one, other;
    int result = feed(&one, &whole, data + 1, size - 1, size);
    BUG_ON(feed(&other, &cut, data + 1, size - 1, chunk) != result);
    BUG_ON(whole.hash != cut.hash || whole.left != cut.left);
    BUG_ON(one.is_over != other.is_over || one.is_cut != other.is_cut);
    return 0;
}
