/* test_disposition.c - names that strangers chose, in a header that they do not */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/disposition.h"

#include <string.h>

#include "base/strbuf.h"
#include "check.h"

struct row {
    const char *name, *file, *want; /* after "attachment; " */
};

#define UTF8(plain, encoded) "filename=\"" plain "\"; filename*=UTF-8''" encoded

static const struct row rows[] = {
    {"a plain name", "a.txt", "filename=\"a.txt\""},
    {"blanks", "my file.txt", "filename=\"my file.txt\""},
    {"only the last part", "x/y/a.txt", "filename=\"a.txt\""},
    {"a semicolon is inside quotes", "a;b=c.txt", "filename=\"a;b=c.txt\""},
    {"an umlaut", "\xc3\xa4.txt", UTF8("_.txt", "%C3%A4.txt")},
    {"four bytes", "\xf0\x9f\x98\x80.png", UTF8("_.png", "%F0%9F%98%80.png")},
    {"a quote", "a\"b", UTF8("a_b", "a%22b")},
    {"a percent sign", "50%25.txt", UTF8("50_25.txt", "50%2525.txt")},
    {"a backslash is gone", "..\\..\\a", "filename=\".._.._a\""},
    {"a line end is gone", "a\r\nSet-Cookie: b=c", "filename=\"a__Set-Cookie: b=c\""},
    {"DEL and escape are gone", "a\x7f\x1b[1m", "filename=\"a__[1m\""},
    {"C1 controls are gone", "a\xc2\x85z", "filename=\"a_z\""},
    {"text that runs backwards is gone", "a\xe2\x80\xaegnp.exe", "filename=\"a_gnp.exe\""},
    {"an isolate is gone", "a\xe2\x81\xa6z", "filename=\"a_z\""},
    {"a line separator is gone", "a\xe2\x80\xa8z", "filename=\"a_z\""},
    {"what is not UTF-8", "a\xffz", UTF8("a_z", "a%EF%BF%BDz")},
    {"a tag", "<script>.html", "filename=\"<script>.html\""},
    {"an apostrophe", "it's.txt", "filename=\"it's.txt\""},
    {"a dash first", "-rf", "filename=\"-rf\""},
    {"nothing", "", "filename=\"download\""},
    {"a folder", "a/", "filename=\"download\""},
    {"twins by composition stay two", "e\xcc\x81", UTF8("e_", "e%CC%81")},
};

static void test_row(void **state)
{
    const struct row *row = *state;
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, DISPOSITION_MAX_BYTES);
    disposition_add(&got, DISPOSITION_ATTACHMENT, row->file, strlen(row->file));
    assert_memory_equal(strbuf_str(&got), "attachment; ", 12);
    assert_string_equal(strbuf_str(&got) + 12, row->want);
}

/* Whatever is in it, alone, after a letter, and 300 times. */
static void test_every_byte(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        char name[300];
        memset(name, c, sizeof(name));
        for (size_t len = 0; len <= sizeof(name); len += len < 3 ? 1 : 297) {
            scoped_strbuf struct strbuf got;
            strbuf_init(&got, DISPOSITION_MAX_BYTES);
            disposition_add(&got, DISPOSITION_INLINE, name, len);
            assert_false(got.overflow);
            assert_memory_equal(strbuf_str(&got), "inline; filename=\"", 18);
            for (size_t i = 0; i < got.len; i++)
                assert_true(got.data[i] >= 0x20 && got.data[i] < 0x7f && got.data[i] != '\\');
        }
    }
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_one(&check, "every byte makes a safe header", test_every_byte);
    return check_run(&check, "disposition");
}
