/* tar_read.c - takes a tar stream apart, in pieces of any length
 *
 * It is fed by a host with what somebody sent. Numbers are checked before they are used, texts are
 * cut nowhere: what does not fit is refused. Whether a path is a good one is not judged here. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macros.h"
#include "init/tar.h"

#define NAME_AT      0
#define NAME_LEN     100
#define MODE_AT      100
#define SIZE_AT      124
#define MTIME_AT     136
#define CHECKSUM_AT  148
#define CHECKSUM_LEN 8
#define TYPE_AT      156
#define TARGET_AT    157
#define MAGIC_AT     257
#define PREFIX_AT    345
#define PREFIX_LEN   155
#define SIZE_MAX_OK  ((uint64_t)1 << 62)

/* --- numbers and texts ----------------------------------------------------------------------- */

static bool read_octal(const char *at, size_t len, uint64_t *out)
{
    uint64_t value = 0;
    size_t i = 0;
    while (i < len && at[i] == ' ')
        i++;
    for (; i < len && at[i] >= '0' && at[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(at[i] - '0'); /* eleven digits: it cannot overflow */
    for (; i < len; i++) {
        if (at[i] != ' ' && at[i] != '\0')
            return false;
    }
    *out = value;
    return true;
}

/* GNU's form for what twelve bytes of octal cannot say: the first bit set, then a number. */
static bool read_number(const char *at, size_t len, uint64_t *out)
{
    uint64_t value = (unsigned char)at[0] & 0x3f;
    if (!((unsigned char)at[0] & 0x80))
        return read_octal(at, len, out);
    if ((unsigned char)at[0] & 0x40)
        return false; /* negative */
    for (size_t i = 1; i < len; i++) {
        if (value >> 55)
            return false;
        value = value << 8 | (unsigned char)at[i];
    }
    *out = value;
    return true;
}

static bool read_decimal(const char *at, size_t len, uint64_t *out)
{
    uint64_t value = 0;
    if (len == 0 || len > 19)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(at[i] - '0');
    }
    *out = value;
    return true;
}

static bool copy_text(char out[TAR_PATH_MAX], const char *from, size_t len)
{
    if (len >= TAR_PATH_MAX || memchr(from, '\0', len))
        return false;
    memcpy(out, from, len);
    out[len] = '\0';
    return true;
}

static bool has_good_checksum(const char *block)
{
    uint64_t told, sum = 0;
    if (!read_octal(block + CHECKSUM_AT, CHECKSUM_LEN, &told))
        return false;
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        bool is_own = i >= CHECKSUM_AT && i < CHECKSUM_AT + CHECKSUM_LEN;
        sum += is_own ? ' ' : (unsigned char)block[i];
    }
    return sum == told;
}

static bool is_zero(const char *block)
{
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        if (block[i])
            return false;
    }
    return true;
}

/* --- what stands before an entry ---------------------------------------------------------------
 */

static bool take_record(struct tar_reader *r, const char *key, size_t key_len, const char *value,
                        size_t len)
{
    if (key_len == 4 && memcmp(key, "path", 4) == 0)
        return r->has_path = copy_text(r->entry.path, value, len);
    if (key_len == 8 && memcmp(key, "linkpath", 8) == 0)
        return r->has_target = copy_text(r->entry.target, value, len);
    if (key_len == 4 && memcmp(key, "size", 4) == 0)
        return r->has_size = read_decimal(value, len, &r->next_size);
    /* A sparse file's content is not what its header says. */
    return key_len < 10 || memcmp(key, "GNU.sparse", 10) != 0;
}

/* "LENGTH KEY=VALUE\n", one after the other. */
static bool take_records(struct tar_reader *r)
{
    for (size_t at = 0; at < r->text_len;) {
        const char *record = r->text + at;
        size_t room = r->text_len - at;
        const char *blank = memchr(record, ' ', MIN(room, (size_t)20));
        uint64_t len;
        if (!blank || !read_decimal(record, (size_t)(blank - record), &len) || len > room)
            return false;
        size_t head = (size_t)(blank - record) + 1;
        if (len < head + 2 || record[len - 1] != '\n')
            return false;
        const char *key = record + head;
        const char *equals = memchr(key, '=', len - head - 1);
        if (!equals || !take_record(r, key, (size_t)(equals - key), equals + 1,
                                    (size_t)(record + len - 1 - (equals + 1))))
            return false;
        at += (size_t)len;
    }
    return true;
}

static bool take_name(struct tar_reader *r)
{
    size_t len = strnlen(r->text, r->text_len);
    if (r->name_type == 'L')
        return r->has_path = copy_text(r->entry.path, r->text, len);
    return r->has_target = copy_text(r->entry.target, r->text, len);
}

/* --- an entry -------------------------------------------------------------------------------- */

/* A ustar header may have the beginning of a long path in a second field. */
static bool take_path(struct tar_reader *r)
{
    const char *b = r->block;
    size_t len = strnlen(b + NAME_AT, NAME_LEN), prefix_len = strnlen(b + PREFIX_AT, PREFIX_LEN);
    char *out = r->entry.path;
    if (r->has_path)
        return true;
    if (memcmp(b + MAGIC_AT, "ustar\0", 6) != 0)
        prefix_len = 0;
    memcpy(out, b + PREFIX_AT, prefix_len);
    if (prefix_len > 0)
        out[prefix_len++] = '/';
    memcpy(out + prefix_len, b + NAME_AT, len);
    out[prefix_len + len] = '\0';
    return true;
}

static enum tar_kind kind_of(char type)
{
    switch (type) {
    case '0':
    case '\0':
    case '7':
        return TAR_FILE;
    case '5':
        return TAR_DIRECTORY;
    case '2':
        return TAR_LINK;
    default:
        return TAR_OTHER;
    }
}

static bool take_entry(struct tar_reader *r)
{
    struct tar_entry *e = &r->entry;
    uint64_t mode, mtime;
    if (!read_octal(r->block + MODE_AT, 8, &mode) ||
        !read_number(r->block + MTIME_AT, 12, &mtime) || !take_path(r))
        return false;
    e->kind = kind_of(r->block[TYPE_AT]);
    e->mode = (unsigned)mode & 0777;
    e->mtime = (int64_t)MIN(mtime, (uint64_t)INT64_MAX);
    e->size = e->kind == TAR_FILE || e->kind == TAR_OTHER ? r->left : 0;
    if (!r->has_target) {
        size_t len = strnlen(r->block + TARGET_AT, NAME_LEN);
        memcpy(e->target, r->block + TARGET_AT, len);
        e->target[len] = '\0';
    }
    r->left = e->size;
    r->has_path = r->has_target = r->has_size = false;
    return true;
}

static bool begin_text(struct tar_reader *r, int state)
{
    if (r->left > sizeof(r->text))
        return false;
    r->state = state;
    r->text_len = 0;
    return true;
}

/* The block is whole. */
static enum tar_step take_header(struct tar_reader *r)
{
    char type = r->block[TYPE_AT];
    if (is_zero(r->block)) {
        r->state = TAR_OVER;
        return TAR_END;
    }
    if (!has_good_checksum(r->block) || !read_number(r->block + SIZE_AT, 12, &r->left))
        return TAR_BAD;
    bool is_text = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (r->has_size && !is_text)
        r->left = r->next_size;
    if (r->left > SIZE_MAX_OK)
        return TAR_BAD;
    r->padding = (uint64_t)-r->left % TAR_BLOCK;
    if (is_text) {
        r->name_type = type;
        bool is_records = type == 'x' || type == 'g';
        return begin_text(r, is_records ? TAR_IN_RECORDS : TAR_IN_NAME) ? TAR_MORE : TAR_BAD;
    }
    if (type == 'S' || !take_entry(r)) /* S: a sparse file of the old form */
        return TAR_BAD;
    r->padding = (uint64_t)-r->left % TAR_BLOCK;
    r->state = TAR_IN_CONTENT;
    return TAR_ENTRY;
}

static bool end_text(struct tar_reader *r)
{
    if (r->state == TAR_IN_RECORDS)
        return r->name_type == 'g' || take_records(r); /* what is said of all is of no use here */
    return take_name(r);
}

/* --- the stream ------------------------------------------------------------------------------ */

static enum tar_step take_block(struct tar_reader *r, const char *bytes, size_t count, size_t *used)
{
    size_t n = MIN(count, TAR_BLOCK - r->block_len);
    memcpy(r->block + r->block_len, bytes, n);
    r->block_len += n;
    *used = n;
    if (r->block_len < TAR_BLOCK)
        return TAR_MORE;
    r->block_len = 0;
    return take_header(r);
}

static bool is_text_state(const struct tar_reader *r)
{
    return r->state == TAR_IN_RECORDS || r->state == TAR_IN_NAME;
}

/* Whatever is behind a header, and the zeros behind that. */
static enum tar_step take_content(struct tar_reader *r, const char *bytes, size_t count,
                                  size_t *used, const char **data, size_t *len)
{
    if (r->left > 0) {
        size_t n = (size_t)MIN(r->left, count);
        *used = n;
        r->left -= n;
        if (!is_text_state(r)) {
            *data = bytes;
            *len = n;
            return TAR_CONTENT;
        }
        memcpy(r->text + r->text_len, bytes, n);
        r->text_len += n;
        return TAR_MORE;
    }
    size_t n = (size_t)MIN(r->padding, count);
    *used = n;
    r->padding -= n;
    return TAR_MORE;
}

static enum tar_step take_some(struct tar_reader *r, const char *bytes, size_t count, size_t *used,
                               const char **data, size_t *len)
{
    if (r->state == TAR_AT_HEADER)
        return take_block(r, bytes, count, used);
    enum tar_step step = take_content(r, bytes, count, used, data, len);
    if (r->left == 0 && r->padding == 0) {
        if (is_text_state(r) && !end_text(r))
            return TAR_BAD;
        r->state = TAR_AT_HEADER;
    }
    return step;
}

enum tar_step tar_read(struct tar_reader *r, const char *bytes, size_t count, size_t *used,
                       const char **data, size_t *len)
{
    enum tar_step step = TAR_MORE;
    size_t at = 0;
    if (r->state == TAR_OVER) {
        *used = count;
        return TAR_END;
    }
    while (step == TAR_MORE && at < count) {
        size_t n = 0;
        step = take_some(r, bytes + at, count - at, &n, data, len);
        at += n;
        if (r->state != TAR_AT_HEADER && r->left == 0 && r->padding == 0 && step == TAR_ENTRY)
            r->state = TAR_AT_HEADER; /* nothing is behind it */
    }
    *used = at;
    return step;
}

bool tar_is_complete(const struct tar_reader *r)
{
    return r->state == TAR_OVER ||
           (r->state == TAR_AT_HEADER && r->block_len == 0 && !r->has_path && !r->has_target);
}
