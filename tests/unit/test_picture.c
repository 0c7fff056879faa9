/* test_picture.c - pictures by their first bytes, whatever their type claims */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/picture.h"

#include <string.h>

#include "check.h"

#define PNG(w, h) "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0" w "\0\0" h
#define JPEG      "\xff\xd8\xff\xe0\0\x06JFIF\xff\xc0\0\x11\x08\x01\xe0\x02\x80\x03"
#define TEXT(t)   t, sizeof(t) - 1

struct picture_case {
    const char *name;
    const char *mime;
    const char *data;
    size_t len;
    const char *extension; /* NULL: none */
    unsigned width, height;
};

static const struct picture_case cases[] = {
    {"a PNG tells its size", "image/png", TEXT(PNG("\x02\x80", "\x01\xe0")), "png", 640, 480},
    {"a JPEG tells its size", "image/jpeg", TEXT(JPEG), "jpg", 640, 480},
    {"a JPEG that is cut has no size", "image/jpeg", TEXT("\xff\xd8\xff\xe0\0\x10JF"), "jpg", 0, 0},
    {"a JPEG with an endless segment has no size", "image/jpeg",
     TEXT("\xff\xd8\xff\xe0\xff\xffJFIFxxxxxxxx"), "jpg", 0, 0},
    {"a JPEG with an empty segment ends", "image/jpeg",
     TEXT("\xff\xd8\xff\xe0\0\0\xff\xe0\0\0\xff\xe0\0\0\xff\xe0\0\0"), "jpg", 0, 0},
    {"an SVG is known by its element", "image/svg+xml", TEXT("<?xml?><svg>"), "svg", 0, 0},
    {"what is no PNG is no picture", "image/png", TEXT("#!/bin/sh\necho this is not a PNG"), NULL,
     0, 0},
    {"a cut PNG is no picture", "image/png", TEXT("\x89PNG\r\n\x1a\n"), NULL, 0, 0},
    {"nothing is no picture", "image/jpeg", TEXT(""), NULL, 0, 0},
    {"text is no picture", "text/plain", TEXT("<svg>"), NULL, 0, 0},
};

static void test_picture(void **state)
{
    const struct picture_case *row = *state;
    char mime[32], data[256];
    memcpy(mime, row->mime, strlen(row->mime) + 1);
    memcpy(data, row->data, row->len);
    struct result_form form = {.mime = mime, .data = data, .len = row->len};
    struct result result = {.forms = &form, .count = 1};
    struct picture picture;
    assert_int_equal(picture_find(&picture, &result), row->extension != NULL);
    if (!row->extension)
        return;
    assert_string_equal(picture.extension, row->extension);
    assert_int_equal(picture.width, row->width);
    assert_int_equal(picture.height, row->height);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_picture);
    return check_run(&check, "picture");
}
