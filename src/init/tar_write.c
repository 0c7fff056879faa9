/* tar_write.c - ustar headers; what does not fit into one goes into a pax header before it */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "init/tar.h"

#define OCTAL_11_MAX 077777777777ull /* what eleven digits hold */

struct ustar {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, target[100];
    char magic[8], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct ustar) == TAR_BLOCK, "a header is one block");

/* All of `digits` but the last, which stays NUL. */
static void put_octal(char *out, size_t size, uint64_t value)
{
    for (size_t i = size - 1; i-- > 0; value >>= 3)
        out[i] = (char)('0' + (value & 7));
}

static void put_text(char *out, size_t size, const char *text)
{
    size_t len = strlen(text);
    memcpy(out, text, MIN(len, size));
}

static void put_checksum(struct ustar *h)
{
    unsigned sum = 0;
    memset(h->checksum, ' ', sizeof(h->checksum));
    for (size_t i = 0; i < sizeof(*h); i++)
        sum += ((const unsigned char *)h)[i];
    put_octal(h->checksum, sizeof(h->checksum) - 1, sum);
    h->checksum[6] = '\0';
}

static void put_header(struct ustar *h, char type, const struct tar_entry *e, uint64_t size)
{
    memset(h, 0, sizeof(*h));
    put_text(h->name, sizeof(h->name), e->path);
    put_text(h->target, sizeof(h->target), e->target);
    put_octal(h->mode, sizeof(h->mode), e->mode & 0777);
    put_octal(h->uid, sizeof(h->uid), 0);
    put_octal(h->gid, sizeof(h->gid), 0);
    put_octal(h->size, sizeof(h->size), MIN(size, OCTAL_11_MAX));
    put_octal(h->mtime, sizeof(h->mtime), e->mtime < 0 ? 0 : MIN((uint64_t)e->mtime, OCTAL_11_MAX));
    memcpy(h->magic, "ustar\00000", 8);
    h->type = type;
    put_checksum(h);
}

static size_t count_digits(size_t value)
{
    size_t digits = 1;
    while (value >= 10) {
        value /= 10;
        digits++;
    }
    return digits;
}

/* "LENGTH KEY=VALUE\n", where the length counts itself. */
static size_t put_record(char *out, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3, len = rest + count_digits(rest);
    if (count_digits(len) > count_digits(rest))
        len++;
    size_t at = (size_t)snprintf(out, TAR_PATH_MAX, "%zu %s=", len, key);
    memcpy(out + at, value, len - 1 - at);
    out[len - 1] = '\n';
    return len;
}

static size_t put_number(char *out, const char *key, long long value)
{
    char text[32];
    snprintf(text, sizeof(text), "%lld", value);
    return put_record(out, key, text);
}

static size_t put_records(char *out, const struct tar_entry *e)
{
    size_t len = 0;
    if (strlen(e->path) > sizeof(((struct ustar *)0)->name))
        len += put_record(out + len, "path", e->path);
    if (strlen(e->target) > sizeof(((struct ustar *)0)->target))
        len += put_record(out + len, "linkpath", e->target);
    if (e->size > OCTAL_11_MAX)
        len += put_number(out + len, "size", (long long)e->size);
    if (e->mtime < 0 || (uint64_t)e->mtime > OCTAL_11_MAX)
        len += put_number(out + len, "mtime", e->mtime);
    return len;
}

size_t tar_padding(uint64_t size)
{
    return (size_t)(-size % TAR_BLOCK);
}

size_t tar_write_header(const struct tar_entry *e, char *out)
{
    static const char types[] = {[TAR_FILE] = '0', [TAR_DIRECTORY] = '5', [TAR_LINK] = '2'};
    static const struct tar_entry pax = {.path = "pax", .mode = 0644};
    struct ustar header;
    size_t at = 0, len = put_records(out + TAR_BLOCK, e);
    if (len > 0) {
        size_t padding = tar_padding(len);
        put_header(&header, 'x', &pax, len);
        memcpy(out, &header, sizeof(header));
        memset(out + TAR_BLOCK + len, 0, padding);
        at = TAR_BLOCK + len + padding;
    }
    put_header(&header, types[e->kind], e, e->size);
    memcpy(out + at, &header, sizeof(header));
    return at + TAR_BLOCK;
}
