/* test_multipart.c - forms, however they are cut, and what is none */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/multipart.h"

#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "check.h"

#define TYPE     "multipart/form-data; boundary=X"
#define PART(cd) "--X\r\nContent-Disposition: form-data; " cd "\r\n"
#define LAST     "\r\n--X--\r\n"
#define GOOD_MAX (4 * 1024 * 1024)

/* Writes what it is told as text: name(filename,type)[bytes] */
static int on_begin(void *ctx, const struct multipart_part *part, struct error *err)
{
    if (strcmp(part->name, "refused") == 0)
        return error_set(err, ERROR_DENIED, "the caller wants none of it");
    strbuf_add_fmt(ctx, "%s(%s,%s)[", part->name, part->filename ? part->filename : "-",
                   part->type ? part->type : "-");
    return 0;
}

static int on_data(void *ctx, const void *data, size_t len, struct error *err)
{
    assert_true(len > 0);
    if (len == 4 && memcmp(data, "stop", 4) == 0)
        return error_set(err, ERROR_DENIED, "the caller has enough");
    strbuf_add(ctx, data, len);
    return 0;
}

static int on_end(void *ctx, struct error *err)
{
    (void)err;
    strbuf_add_char(ctx, ']');
    return 0;
}

static const struct multipart_events events = {on_begin, on_data, on_end};

static int read_form(struct strbuf *got, const char *type, const char *body, size_t len,
                     size_t piece, struct error *err)
{
    scoped(multipart) struct multipart *form = NULL;
    if (multipart_open(&form, type, &events, got, err) < 0)
        return -1;
    for (size_t i = 0; i < len; i += piece) {
        if (multipart_add(form, body + i, MIN(piece, len - i), err) < 0)
            return -1;
    }
    return multipart_end(form, err);
}

struct good {
    const char *name, *type, *body, *want;
};

static const struct good goods[] = {
    {"a field", TYPE, PART("name=a") "\r\nhello" LAST, "a(-,-)[hello]"},
    {"a file", TYPE,
     PART("name=\"f\"; filename=\"a.csv\"") "Content-Type: text/csv\r\n\r\n1,2" LAST,
     "f(a.csv,text/csv)[1,2]"},
    {"two", TYPE, PART("name=a") "\r\n1\r\n" PART("name=b") "\r\n2" LAST, "a(-,-)[1]b(-,-)[2]"},
    {"an empty body", TYPE, PART("name=a") "\r\n" LAST, "a(-,-)[]"},
    {"no parts at all", TYPE, "--X--\r\n", ""},
    {"no line end at the end", TYPE, PART("name=a") "\r\n1\r\n--X--", "a(-,-)[1]"},
    {"a line end at the start", TYPE, "\r\n" PART("name=a") "\r\n1" LAST, "a(-,-)[1]"},
    {"line ends in the body", TYPE, PART("name=a") "\r\n\r\n1\n\r\r\n\r\n" LAST,
     "a(-,-)[\r\n1\n\r\r\n\r\n]"},
    {"what looks like a boundary and is none", TYPE,
     PART("name=a") "\r\n--X\r\n-X\r\n--Y--\r\n--\r\r\n--x" LAST,
     "a(-,-)[--X\r\n-X\r\n--Y--\r\n--\r\r\n--x]"},
    {"a boundary in quotes", "multipart/form-data; boundary=\"a b:c\"",
     "--a b:c\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--a b:c--", "a(-,-)[1]"},
    {"the longest boundary",
     "multipart/form-data; "
     "boundary=1234567890123456789012345678901234567890123456789012345678901234567890",
     "--1234567890123456789012345678901234567890123456789012345678901234567890--", ""},
    {"a type in capitals", "Multipart/Form-Data; Boundary=X", PART("name=a") "\r\n1" LAST,
     "a(-,-)[1]"},
    {"several files of one field", TYPE,
     PART("name=f; filename=a") "\r\n1\r\n" PART("name=f; filename=b") "\r\n2" LAST,
     "f(a,-)[1]f(b,-)[2]"},
    {"a field and a file of one name", TYPE,
     PART("name=f") "\r\n1\r\n" PART("name=f; filename=f") "\r\n2" LAST, "f(-,-)[1]f(f,-)[2]"},
    {"a path", TYPE, PART("name=f; filename=\"a/b/c.csv\"") "\r\n1" LAST, "f(a/b/c.csv,-)[1]"},
    {"a name in UTF-8", TYPE, PART("name=f; filename=\"\xc3\xa4 b.csv\"") "\r\n1" LAST,
     "f(\xc3\xa4 b.csv,-)[1]"},
    {"a quote in a name", TYPE, PART("name=f; filename=\"a\\\"b\"") "\r\n1" LAST, "f(a\"b,-)[1]"},
    {"names that only look odd", TYPE, PART("name=f; filename=\"..a/...\"") "\r\n1" LAST,
     "f(..a/...,-)[1]"},
    {"headers that nobody knows", TYPE,
     "--X\r\nX-Other: a b c\r\ncontent-disposition: form-data; name=a\r\n\r\n1" LAST, "a(-,-)[1]"},
    {"an encoding that is none", TYPE,
     PART("name=a") "Content-Transfer-Encoding: binary\r\n\r\n1" LAST, "a(-,-)[1]"},
};

static void test_good(void **state)
{
    const struct good *row = *state;
    static const size_t pieces[] = {1, 2, 3, 5, 7, 4096};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        struct error err = {0};
        scoped_strbuf struct strbuf got;
        strbuf_init(&got, GOOD_MAX);
        int status = read_form(&got, row->type, row->body, strlen(row->body), pieces[i], &err);
        assert_string_equal(err.msg, "");
        assert_int_equal(status, 0);
        assert_string_equal(strbuf_str(&got), row->want);
    }
}

struct bad {
    const char *name, *type, *body, *word; /* of the complaint */
};

#define LONG_NAME                                                                                  \
    "1234567890123456789012345678901234567890123456789012345678901234"                             \
    "1234567890123456789012345678901234567890123456789012345678901234"                             \
    "1234567890123456789012345678901234567890123456789012345678901234"                             \
    "1234567890123456789012345678901234567890123456789012345678901234"

static const struct bad bads[] = {
    {"refuses no type", NULL, "", "no Content-Type"},
    {"refuses another type", "application/json", "", "not multipart/form-data"},
    {"refuses another kind of form", "multipart/mixed; boundary=X", "", "not multipart/form-data"},
    {"refuses no boundary", "multipart/form-data", "", "no boundary"},
    {"refuses two boundaries", TYPE "; boundary=Y", "", "twice"},
    {"refuses an empty boundary", "multipart/form-data; boundary=\"\"", "", "1 to 70"},
    {"refuses a boundary of 71",
     "multipart/form-data; "
     "boundary=12345678901234567890123456789012345678901234567890123456789012345678901",
     "", "1 to 70"},
    {"refuses a boundary that ends in a blank", "multipart/form-data; boundary=\"a \"", "",
     "1 to 70"},
    {"refuses a boundary with other letters", "multipart/form-data; boundary=\"a\xc3\xa4\"", "",
     "1 to 70"},
    {"refuses nothing", TYPE, "", "ends before"},
    {"refuses something before the first boundary", TYPE, "hello\r\n" PART("name=a") "\r\n1" LAST,
     "begin with its boundary"},
    {"refuses two line ends at the start", TYPE, "\r\n\r\n" PART("name=a") "\r\n1" LAST,
     "begin with its boundary"},
    {"refuses another boundary", TYPE, "--Y\r\n", "begin with its boundary"},
    {"refuses something behind the last one", TYPE, PART("name=a") "\r\n1" LAST "x",
     "follows its last"},
    {"refuses a longer boundary", TYPE, PART("name=a") "\r\n1\r\n--XY\r\n" LAST, "on its line"},
    {"refuses a blank behind a boundary", TYPE, "--X \r\n", "on its line"},
    {"refuses a boundary with a line feed alone", TYPE, "--X\nContent-Disposition: form-data",
     "on its line"},
    {"refuses a body that does not end", TYPE, PART("name=a") "\r\n1", "ends before"},
    {"refuses headers that do not end", TYPE, PART("name=a"), "ends before"},
    {"refuses a half boundary at the end", TYPE, PART("name=a") "\r\n1\r\n--", "ends before"},
    {"refuses a part without headers", TYPE, "--X\r\n\r\n1" LAST, "no Content-Disposition"},
    {"refuses a part without a disposition", TYPE, "--X\r\nContent-Type: a/b\r\n\r\n1" LAST,
     "no Content-Disposition"},
    {"refuses a part without a name", TYPE, PART("filename=a") "\r\n1" LAST, "no name"},
    {"refuses an empty name", TYPE, PART("name=\"\"") "\r\n1" LAST, "1 to 255"},
    {"refuses a name of 256", TYPE, PART("name=" LONG_NAME) "\r\n1" LAST, "1 to 255"},
    {"refuses another disposition", TYPE,
     "--X\r\nContent-Disposition: attachment; name=a\r\n\r\n1" LAST, "form-data"},
    {"refuses a disposition twice", TYPE,
     PART("name=a") "Content-Disposition: form-data; name=b\r\n\r\n1" LAST, "twice"},
    {"refuses a name twice in a part", TYPE, PART("name=a; name=b") "\r\n1" LAST, "twice"},
    {"refuses a file name twice in a part", TYPE,
     PART("name=a; filename=b; filename=c") "\r\n1" LAST, "twice"},
    {"refuses filename*", TYPE, PART("name=a; filename*=UTF-8''b") "\r\n1" LAST, "filename*"},
    {"refuses a field twice", TYPE, PART("name=a") "\r\n1\r\n" PART("name=a") "\r\n2" LAST,
     "field 'a' comes twice"},
    {"refuses a file twice", TYPE,
     PART("name=a; filename=c") "\r\n1\r\n" PART("name=b; filename=c") "\r\n2" LAST,
     "file 'c' comes twice"},
    {"refuses a form in the form", TYPE,
     PART("name=a") "Content-Type: Multipart/Mixed; boundary=Y\r\n\r\n1" LAST, "form itself"},
    {"refuses base64", TYPE, PART("name=a") "Content-Transfer-Encoding: base64\r\n\r\nMQ==" LAST,
     "encoded as 'base64'"},
    {"refuses a folded header", TYPE,
     "--X\r\nContent-Disposition: form-data;\r\n name=a\r\n\r\n1" LAST, "no name"},
    {"refuses a line that is no header", TYPE, PART("name=a") "hello\r\n\r\n1" LAST,
     "header that is none"},
    {"refuses a blank before the colon", TYPE, PART("name=a") "X-Y : b\r\n\r\n1" LAST,
     "header that is none"},
    {"refuses a line feed alone in headers", TYPE,
     "--X\r\nContent-Disposition: form-data; name=a\n\n1" LAST, "CR LF"},
    {"refuses a CR in a header", TYPE, PART("name=\"a\rb\"") "\r\n1" LAST, "control"},
    {"refuses a way up", TYPE, PART("name=f; filename=\"../a\"") "\r\n1" LAST, "'..'"},
    {"refuses a way up in between", TYPE, PART("name=f; filename=\"a/../../b\"") "\r\n1" LAST,
     "'..'"},
    {"refuses a way up at the end", TYPE, PART("name=f; filename=\"a/..\"") "\r\n1" LAST, "'..'"},
    {"refuses a dot", TYPE, PART("name=f; filename=\".\"") "\r\n1" LAST, "'.'"},
    {"refuses an absolute path", TYPE, PART("name=f; filename=\"/etc/x\"") "\r\n1" LAST, "slash"},
    {"refuses two slashes", TYPE, PART("name=f; filename=\"a//b\"") "\r\n1" LAST, "slash"},
    {"refuses a folder", TYPE, PART("name=f; filename=\"a/\"") "\r\n1" LAST, "slash"},
    {"refuses a backslash", TYPE, PART("name=f; filename=\"..\\a\"") "\r\n1" LAST, "backslash"},
    {"refuses an empty file name", TYPE, PART("name=f; filename=\"\"") "\r\n1" LAST, "empty"},
    {"refuses a file name of 256", TYPE, PART("name=f; filename=" LONG_NAME) "\r\n1" LAST, "255"},
    {"refuses a file name that is not UTF-8", TYPE, PART("name=f; filename=\"\xff\"") "\r\n1" LAST,
     "UTF-8"},
    {"passes on that the caller refuses a part", TYPE, PART("name=refused") "\r\n1" LAST,
     "wants none"},
};

static void test_bad(void **state)
{
    const struct bad *row = *state;
    static const size_t pieces[] = {1, 3, 4096};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        struct error err = {0};
        scoped_strbuf struct strbuf got;
        strbuf_init(&got, GOOD_MAX);
        assert_int_equal(read_form(&got, row->type, row->body, strlen(row->body), pieces[i], &err),
                         -1);
        assert_non_null(strstr(err.msg, row->word));
        if (err.code == ERROR_INVALID)
            assert_string_equal(err.word, "multipart_invalid");
    }
}

static void test_nul(void **state)
{
    (void)state;
    static const char body[] = "--X\r\nContent-Disposition: form-data; name=a\0b\r\n\r\n1\r\n--X--";
    struct error err = {0};
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, GOOD_MAX);
    assert_int_equal(read_form(&got, TYPE, body, sizeof(body) - 1, 9, &err), -1);
    assert_non_null(strstr(err.msg, "NUL"));
}

static void test_caller_has_enough(void **state)
{
    (void)state;
    static const char body[] = PART("name=a") "\r\nstop" LAST;
    struct error err = {0};
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, GOOD_MAX);
    assert_int_equal(read_form(&got, TYPE, body, strlen(body), 4096, &err), -1);
    assert_int_equal(err.code, ERROR_DENIED);
}

/* `count` fields; answers the code of the failure, or -1. */
static int code_of_parts(size_t count)
{
    struct error err = {0};
    scoped_strbuf struct strbuf body, got;
    strbuf_init(&body, GOOD_MAX);
    strbuf_init(&got, GOOD_MAX);
    for (size_t i = 0; i < count; i++)
        strbuf_add_fmt(&body, PART("name=a%zu") "\r\n1\r\n", i);
    strbuf_add_str(&body, "--X--");
    return read_form(&got, TYPE, body.data, body.len, 4096, &err) == 0 ? -1 : (int)err.code;
}

static void test_many_parts(void **state)
{
    (void)state;
    assert_int_equal(code_of_parts(MULTIPART_PARTS_MAX), -1);
    assert_int_equal(code_of_parts(MULTIPART_PARTS_MAX + 1), ERROR_TOO_LARGE);
    assert_int_equal(code_of_parts(10000), ERROR_TOO_LARGE);
}

/* One header of `len` bytes, or lines of 100 that have as many together. */
static int code_of_headers(size_t len, bool is_one)
{
    struct error err = {0};
    scoped_strbuf struct strbuf body, got;
    strbuf_init(&body, GOOD_MAX);
    strbuf_init(&got, GOOD_MAX);
    strbuf_add_str(&body, PART("name=a"));
    for (size_t done = 0; done < len; done += 100) {
        if (done == 0 || !is_one)
            strbuf_add_str(&body, done == 0 ? "X-A: " : "\r\nX-A: ");
        for (int i = 0; i < 100; i++)
            strbuf_add_char(&body, 'a');
    }
    strbuf_add_str(&body, "\r\n\r\n1" LAST);
    return read_form(&got, TYPE, body.data, body.len, 4096, &err) == 0 ? -1 : (int)err.code;
}

static void test_large_headers(void **state)
{
    (void)state;
    for (int is_one = 0; is_one <= 1; is_one++) {
        assert_int_equal(code_of_headers(5000, is_one), -1);
        assert_int_equal(code_of_headers(8200, is_one), ERROR_TOO_LARGE);
        assert_int_equal(code_of_headers(1000 * 1000, is_one), ERROR_TOO_LARGE);
    }
}

/* Data goes on in pieces as large as they came, though they are full of line ends. */
static int count_data(void *ctx, const void *data, size_t len, struct error *err)
{
    (void)data, (void)len, (void)err;
    ++*(size_t *)ctx;
    return 0;
}

static int ignore_begin(void *ctx, const struct multipart_part *part, struct error *err)
{
    (void)ctx, (void)part, (void)err;
    return 0;
}

static int ignore_end(void *ctx, struct error *err)
{
    (void)ctx, (void)err;
    return 0;
}

static void test_large_pieces(void **state)
{
    (void)state;
    static const struct multipart_events counting = {ignore_begin, count_data, ignore_end};
    scoped(multipart) struct multipart *form = NULL;
    struct error err;
    size_t calls = 0;
    scoped_strbuf struct strbuf lines;
    strbuf_init(&lines, GOOD_MAX);
    for (int i = 0; i < 10000; i++)
        strbuf_add_str(&lines, "a,b\r\n\r\n-");
    assert_int_equal(multipart_open(&form, TYPE, &counting, &calls, &err), 0);
    static const char head[] = PART("name=a; filename=b") "\r\n";
    assert_int_equal(multipart_add(form, head, strlen(head), &err), 0);
    assert_int_equal(multipart_add(form, lines.data, lines.len, &err), 0);
    assert_int_equal(calls, 1);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, goods, test_good);
    check_rows(&check, bads, test_bad);
    check_one(&check, "refuses a NUL in a header", test_nul);
    check_one(&check, "passes on that the caller has enough", test_caller_has_enough);
    check_one(&check, "refuses too many parts", test_many_parts);
    check_one(&check, "refuses too large headers", test_large_headers);
    check_one(&check, "data goes on in large pieces", test_large_pieces);
    return check_run(&check, "multipart");
}
