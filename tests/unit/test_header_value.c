/* test_header_value.c - words with parameters, and what is none */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/header_value.h"

#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "check.h"

struct good {
    const char *name, *text, *want; /* the word, then " name=[value]" for each parameter */
};

static const struct good goods[] = {
    {"a word", "form-data", "form-data"},
    {"a type in capitals", "Text/HTML", "text/html"},
    {"blanks around", "  a/b  ", "a/b"},
    {"a parameter", "a; b=c", "a b=[c]"},
    {"no blank before it", "a;b=c", "a b=[c]"},
    {"a blank before the semicolon", "a ; b=c ; d=e", "a b=[c] d=[e]"},
    {"a name in capitals", "a; Boundary=X", "a boundary=[X]"},
    {"a quoted value", "a; b=\"c d; e=f\"", "a b=[c d; e=f]"},
    {"an empty quoted value", "a; b=\"\"", "a b=[]"},
    {"an escaped quote", "a; b=\"c\\\"d\"; e=f", "a b=[c\"d] e=[f]"},
    {"an escaped backslash", "a; b=\"c\\\\\"", "a b=[c\\]"},
    {"a backslash before a letter is a backslash", "a; b=\"C:\\temp\"", "a b=[C:\\temp]"},
    {"UTF-8 in quotes", "a; b=\"\xc3\xa4\"", "a b=[\xc3\xa4]"},
    {"a semicolon at the end", "a; b=c;", "a b=[c]"},
    {"a star in a name", "a; b*=c", "a b*=[c]"},
};

static void test_good(void **state)
{
    const struct good *row = *state;
    struct header_value value;
    char text[128];
    snprintf(text, sizeof(text), "%s", row->text);
    assert_null(header_value_parse(&value, text));
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 1024);
    strbuf_add_str(&got, value.word);
    for (size_t i = 0; i < value.count; i++) {
        strbuf_add_fmt(&got, " %s=[%s]", value.params[i].name, value.params[i].value);
        assert_ptr_equal(header_value_find(&value, value.params[i].name), value.params[i].value);
    }
    assert_string_equal(strbuf_str(&got), row->want);
    assert_null(header_value_find(&value, "nobody"));
}

struct bad {
    const char *name, *text, *word; /* of the complaint */
};

static const struct bad bads[] = {
    {"refuses nothing", "", "word"},
    {"refuses no word", "; a=b", "word"},
    {"refuses two words", "a b", "blank"},
    {"refuses two slashes", "a/b/c", "word"},
    {"refuses a slash alone", "a/", "word"},
    {"refuses a name twice", "a; b=c; B=d", "twice"},
    {"refuses a name without a value", "a; b", "without"},
    {"refuses a value without a name", "a; =b", "without"},
    {"refuses an empty value without quotes", "a; b=", "quotes"},
    {"refuses a blank around the equals sign", "a; b = c", "without"},
    {"refuses a value that needs quotes", "a; b=c(d", "quotes"},
    {"refuses a quote that does not end", "a; b=\"c", "does not end"},
    {"refuses a last quote that is escaped", "a; b=\"c\\\"", "does not end"},
    {"refuses something behind quotes", "a; b=\"c\"d", "behind"},
    {"refuses a line end", "a; b=\"c\r\nd\"", "control"},
    {"refuses DEL", "a; b=\"\x7f\"", "control"},
    {"refuses what is not UTF-8", "a; b=\"\xff\"", "UTF-8"},
    {"refuses too many", "a;a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;i=1;j=1;k=1;l=1;m=1;n=1;o=1;p=1;q=1",
     "too many"},
};

static void test_bad(void **state)
{
    const struct bad *row = *state;
    struct header_value value;
    char text[128];
    snprintf(text, sizeof(text), "%s", row->text);
    const char *wrong = header_value_parse(&value, text);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, row->word));
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, goods, test_good);
    check_rows(&check, bads, test_bad);
    return check_run(&check, "header_value");
}
