/* test_base64.c - the vectors of RFC 4648, and what is refused */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/base64.h"

#include <string.h>

#include "base/strbuf.h"
#include "check.h"

struct vector {
    const char *name, *data, *text;
};

static const struct vector vectors[] = {
    {"nothing", "", ""},
    {"one byte", "f", "Zg=="},
    {"two bytes", "fo", "Zm8="},
    {"three bytes", "foo", "Zm9v"},
    {"four bytes", "foob", "Zm9vYg=="},
    {"five bytes", "fooba", "Zm9vYmE="},
    {"six bytes", "foobar", "Zm9vYmFy"},
    {"both last digits", "\xfb\xff\xbf", "+/+/"},
};

static void test_vector(void **state)
{
    const struct vector *row = *state;
    size_t len = strlen(row->data), got = 99;
    uint8_t bytes[32];
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 100);
    base64_add(&text, row->data, len);
    assert_string_equal(strbuf_str(&text), row->text);
    assert_int_equal(text.len, BASE64_ENCODED_LEN(len));
    assert_true(base64_decode(row->text, strlen(row->text), bytes, &got));
    assert_int_equal(got, len);
    assert_memory_equal(bytes, row->data, len);
}

struct refused {
    const char *name, *text;
};

static const struct refused refusals[] = {
    {"refuses missing padding", "Zg"},
    {"refuses half of the padding", "Zg="},
    {"refuses padding alone", "===="},
    {"refuses three signs of padding", "Z==="},
    {"refuses padding in the middle", "Zg==Zm9v"},
    {"refuses a digit after padding", "Zg=v"},
    {"refuses a blank", "Zm 9"},
    {"refuses a line end", "Zm9v\n"},
    {"refuses the other alphabet", "-_-_"},
    {"refuses bits that say nothing after one byte", "Zh=="},
    {"refuses bits that say nothing after two bytes", "Zm9="},
    {"refuses a byte above ASCII", "Zm9\xff"},
};

static void test_refused(void **state)
{
    const struct refused *row = *state;
    uint8_t bytes[32];
    size_t got = 99;
    assert_false(base64_decode(row->text, strlen(row->text), bytes, &got));
    assert_int_equal(got, 99);
}

static void test_long(void **state)
{
    (void)state;
    uint8_t data[5000], back[BASE64_DECODED_MAX_LEN(BASE64_ENCODED_LEN(5000))];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t len = 4990; len <= sizeof(data); len++) {
        size_t got = 0;
        scoped_strbuf struct strbuf text;
        strbuf_init(&text, BASE64_ENCODED_LEN(sizeof(data)));
        base64_add(&text, data, len);
        assert_true(base64_decode(text.data, text.len, back, &got));
        assert_int_equal(got, len);
        assert_memory_equal(back, data, len);
    }
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, vectors, test_vector);
    check_rows(&check, refusals, test_refused);
    check_one(&check, "long data goes there and back", test_long);
    return check_run(&check, "base64");
}
