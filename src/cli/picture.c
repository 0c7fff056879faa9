/* picture.c - PNG, JPEG and SVG by their first bytes */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/picture.h"

#include <string.h>

#include "base/macros.h"

static unsigned big_endian(const unsigned char *bytes, size_t count)
{
    unsigned value = 0;
    for (size_t i = 0; i < count; i++)
        value = value << 8 | bytes[i];
    return value;
}

static bool look_at_png(struct picture *out, const unsigned char *data, size_t len)
{
    static const unsigned char magic[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    if (len < 24 || memcmp(data, magic, sizeof(magic)) != 0)
        return false;
    out->width = big_endian(data + 16, 4);
    out->height = big_endian(data + 20, 4);
    return true;
}

/* Its size stands in the first "start of frame"; segments before it are skipped. */
static bool look_at_jpeg(struct picture *out, const unsigned char *data, size_t len)
{
    if (len < 4 || data[0] != 0xff || data[1] != 0xd8 || data[2] != 0xff)
        return false;
    for (size_t at = 2; at + 9 <= len && data[at] == 0xff;) {
        unsigned char kind = data[at + 1];
        bool is_frame =
            kind >= 0xc0 && kind <= 0xcf && kind != 0xc4 && kind != 0xc8 && kind != 0xcc;
        if (is_frame) {
            out->height = big_endian(data + at + 5, 2);
            out->width = big_endian(data + at + 7, 2);
            break;
        }
        at += 2 + big_endian(data + at + 2, 2);
    }
    return true;
}

static bool look_at_svg(struct picture *out, const unsigned char *data, size_t len)
{
    (void)out;
    return memmem(data, MIN(len, 4096), "<svg", 4) != NULL;
}

static const struct kind {
    const char *mime, *extension;
    bool (*look)(struct picture *out, const unsigned char *data, size_t len);
} kinds[] = {
    {"image/png", "png", look_at_png},
    {"image/jpeg", "jpg", look_at_jpeg},
    {"image/svg+xml", "svg", look_at_svg},
};

bool picture_find(struct picture *out, const struct result *result)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct result_form *form = result_get(result, kinds[i].mime);
        struct picture found = {.form = form, .extension = kinds[i].extension};
        if (form && kinds[i].look(&found, (const unsigned char *)form->data, form->len)) {
            *out = found;
            return true;
        }
    }
    return false;
}
