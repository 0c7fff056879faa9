/* tar.h - headers of tar streams: POSIX ustar with pax records, and GNU's long names when read
 *
 * Bytes in, values out; nothing here touches a file. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAR_BLOCK       512
#define TAR_PATH_MAX    4096
#define TAR_RECORDS_MAX (64 * 1024) /* bytes of one pax header that are looked at */

enum tar_kind { TAR_FILE, TAR_DIRECTORY, TAR_LINK, TAR_OTHER };

struct tar_entry {
    enum tar_kind kind;
    unsigned mode; /* permissions */
    uint64_t size; /* bytes behind the header, whatever the kind */
    int64_t mtime; /* seconds */
    char path[TAR_PATH_MAX];
    char target[TAR_PATH_MAX]; /* of a link */
};

/* --- writing --------------------------------------------------------------------------------- */

/* A header, with the pax header before it that it needs. Answers its length. `out` has room for
 * TAR_HEADER_MAX. */
#define TAR_HEADER_MAX (2 * TAR_BLOCK + 3 * TAR_PATH_MAX)
size_t tar_write_header(const struct tar_entry *entry, char *out);

/* How many zeros follow content of that size, up to the next block. */
size_t tar_padding(uint64_t size);

/* --- reading --------------------------------------------------------------------------------- */

/* Takes a stream apart. All of it is zeroed before the first byte. */
struct tar_reader {
    char block[TAR_BLOCK];
    size_t block_len;
    uint64_t left, padding; /* of the content that is under way */
    enum { TAR_AT_HEADER, TAR_IN_CONTENT, TAR_IN_RECORDS, TAR_IN_NAME, TAR_OVER } state;
    char name_type; /* of TAR_IN_NAME: 'L' or 'K' */
    bool has_size, has_path, has_target;
    uint64_t next_size; /* what a pax header says about the entry behind it */
    size_t text_len;
    char text[TAR_RECORDS_MAX];
    struct tar_entry entry;
};

enum tar_step {
    TAR_MORE,    /* all bytes are used up */
    TAR_ENTRY,   /* reader->entry is a new one; its content follows as TAR_CONTENT */
    TAR_CONTENT, /* *data, *len: a piece of its content */
    TAR_END,     /* of the stream; what follows is of no interest */
    TAR_BAD,     /* this is no tar stream that is understood */
};

/* *used: how many bytes were taken. To be called again until TAR_MORE, TAR_END or TAR_BAD. */
enum tar_step tar_read(struct tar_reader *reader, const char *bytes, size_t count, size_t *used,
                       const char **data, size_t *len);

/* Whether a stream may end here. */
bool tar_is_complete(const struct tar_reader *reader);
