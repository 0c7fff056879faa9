/* visible.c - how each format begins and ends, and where it says its size */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mcp/visible.h"

#include <stdint.h>
#include <string.h>

#include "base/macros.h"

#define END_BYTES 64 /* an end may have this much behind it */

static uint32_t be32(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static uint32_t le16(const uint8_t *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8;
}

static uint32_t le32(const uint8_t *b)
{
    return le16(b) | le16(b + 2) << 16;
}

static bool fits(uint32_t width, uint32_t height)
{
    return width > 0 && height > 0 && width <= VISIBLE_SIDE_MAX && height <= VISIBLE_SIDE_MAX;
}

/* The first chunk is IHDR; the sides come first in it. */
static bool is_png(const uint8_t *b, size_t len)
{
    return len > 24 && memcmp(b + 12, "IHDR", 4) == 0 && fits(be32(b + 16), be32(b + 20));
}

static bool is_gif(const uint8_t *b, size_t len)
{
    return len > 10 && fits(le16(b + 6), le16(b + 8));
}

/* The size stands in it; an odd one has a byte of padding, which some leave out. */
static bool is_webp(const uint8_t *b, size_t len)
{
    return len > 16 && memcmp(b + 8, "WEBPVP8", 7) == 0 && le32(b + 4) <= len - 8;
}

/* Where its sides are would take a walk through it. */
static bool is_jpeg(const uint8_t *b, size_t len)
{
    (void)b;
    return len > 16;
}

static const struct {
    const char *mime;
    const char *begin;
    const char *end; /* within the last bytes; "": anywhere */
    bool (*check)(const uint8_t *bytes, size_t len);
} rows[] = {
    {"image/png", "\x89PNG\r\n\x1a\n", "IEND\xae\x42\x60\x82", is_png},
    {"image/jpeg", "\xff\xd8\xff", "\xff\xd9", is_jpeg},
    {"image/gif", "GIF8", ";", is_gif},
    {"image/webp", "RIFF", "", is_webp},
};

bool visible_is_type(const char *mime)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].mime, mime) == 0)
            return true;
    }
    return false;
}

const char *visible_type(const void *bytes, size_t len)
{
    const uint8_t *b = bytes;
    size_t tail = MIN(len, (size_t)END_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t begin = strlen(rows[i].begin);
        if (len > begin && memcmp(b, rows[i].begin, begin) == 0)
            return rows[i].check(b, len) &&
                           memmem(b + len - tail, tail, rows[i].end, strlen(rows[i].end))
                       ? rows[i].mime
                       : NULL;
    }
    return NULL;
}
