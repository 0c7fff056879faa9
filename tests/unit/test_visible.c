/* test_visible.c - what is a picture, and what only says so */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mcp/visible.h"

#include <string.h>

#include "base/macros.h"
#include "check.h"

#define PNG_HEAD  "\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
#define PNG_SIDES "\0\0\0\x10\0\0\0\x10"
#define PNG_END   "\0\0\0\0IEND\xae\x42\x60\x82"

struct row {
    const char *name;
    const char *bytes;
    size_t len;
    const char *want;
};

#define ROW(name, text, want)                                                                      \
    {                                                                                              \
        name, text, sizeof(text) - 1, want                                                         \
    }
/* clang-format off */
static const struct row rows[] = {
    ROW("a PNG", PNG_HEAD PNG_SIDES "\x08\0\0\0\0" PNG_END, "image/png"),
    ROW("a PNG with a little behind it", PNG_HEAD PNG_SIDES "\x08\0\0\0\0" PNG_END "\n", "image/png"),
    ROW("half a PNG", PNG_HEAD PNG_SIDES "\x08\0\0\0\0 and so on, but it was killed here", NULL),
    ROW("a PNG without sides", PNG_HEAD "\0\0\0\0\0\0\0\x10\x08\0\0\0\0" PNG_END, NULL),
    ROW("a PNG that is too wide", PNG_HEAD "\0\0\x1f\x41\0\0\0\x10\x08\0\0\0\0" PNG_END, NULL),
    ROW("a PNG as wide as it may be", PNG_HEAD "\0\0\x1f\x40\0\0\0\x10\x08\0\0\0\0" PNG_END, "image/png"),
    ROW("a PNG with another chunk first", "\x89PNG\r\n\x1a\n\0\0\0\rIDAT" PNG_SIDES "\x08\0\0\0\0" PNG_END, NULL),
    ROW("the first bytes of a PNG", "\x89PNG\r\n\x1a\n", NULL),
    ROW("a JPEG", "\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xd9", "image/jpeg"),
    ROW("half a JPEG", "\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0", NULL),
    ROW("a GIF", "GIF89a\x02\0\x02\0\x80\0\0;", "image/gif"),
    ROW("a GIF without sides", "GIF89a\0\0\x02\0\x80\0\0;", NULL),
    ROW("half a GIF", "GIF89a\x02\0\x02\0\x80\0\0", NULL),
    ROW("a WebP", "RIFF\x0c\0\0\0WEBPVP8L\0\0\0\0", "image/webp"),
    ROW("half a WebP", "RIFF\xff\0\0\0WEBPVP8L\0\0\0\0", NULL),
    ROW("a sound", "RIFF\x0c\0\0\0WAVEfmt \0\0\0\0", NULL),
    ROW("text", "hello", NULL),
    ROW("a page", "<svg xmlns='http://www.w3.org/2000/svg'/>", NULL),
    ROW("nothing", "", NULL),
};
/* clang-format on */

static void test_row(void **state)
{
    const struct row *row = *state;
    const char *got = visible_type(row->bytes, row->len);
    assert_true(row->want ? got && strcmp(got, row->want) == 0 : !got);
    assert_true(!got || visible_is_type(got));
}

static void test_every_length(void **state)
{
    static const char png[] = PNG_HEAD PNG_SIDES "\x08\0\0\0\0" PNG_END;
    (void)state;
    for (size_t len = 0; len < sizeof(png) - 1; len++)
        assert_null(visible_type(png, len));
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_one(&check, "no beginning of a picture is one", test_every_length);
    return check_run(&check, "visible");
}
