/* file_stream.h - the stream of files between the host and a sandbox's files worker
 *
 * What comes out of a sandbox is content: paths are checked here before anybody sees them, sizes
 * are held to what was announced, and a broken stream is an error of that sandbox alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "wire/guest.h"

/* Relative, no empty, "." or ".." part, no NUL, shorter than GUEST_PATH_MAX. */
bool file_stream_is_good_path(const char *path, size_t len);

/* Adds the header (and path) of one entry, or the end mark. */
void file_stream_add_entry(struct strbuf *out, const struct guest_file *file, const char *path);
void file_stream_add_end(struct strbuf *out);

/* Called in order: entry, then its content in pieces (only when the reader wants content), then
 * done after the last byte. Each answers 0, or -1 with *err, which poisons the reader. */
struct file_stream_events {
    int (*entry)(void *ctx, const struct guest_file *file, const char *path, struct error *err);
    int (*content)(void *ctx, const void *data, size_t len, struct error *err);
    int (*done)(void *ctx, struct error *err); /* may be NULL */
};

struct file_stream_reader {
    const struct file_stream_events *events;
    void *ctx;
    bool has_content; /* entries are followed by their bytes */
    bool is_over;     /* the end mark was read */
    bool is_cut;      /* and said that there was more */
    bool is_broken;   /* it failed once, and takes nothing more */
    struct guest_file file;
    size_t have;   /* bytes of header and path read so far */
    uint64_t left; /* bytes of content to come */
    char path[GUEST_PATH_MAX];
};

void file_stream_reader_init(struct file_stream_reader *r, const struct file_stream_events *events,
                             void *ctx, bool has_content);

/* Feeds bytes as they come. After a failure every further call fails. */
MUST_CHECK int file_stream_reader_feed(struct file_stream_reader *r, const void *data, size_t len,
                                       struct error *err);
