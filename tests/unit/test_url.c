/* test_url.c - targets that are taken apart, and those that are refused */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/url.h"

#include <string.h>

#include "base/strbuf.h"
#include "check.h"

struct good {
    const char *name, *target, *want; /* path, then " key=value" for each pair */
};

static const struct good goods[] = {
    {"the root", "/", "/"},
    {"a path", "/a/b", "/a/b"},
    {"a slash at the end", "/a/", "/a/"},
    {"an escape", "/a%20b", "/a b"},
    {"escapes in both cases", "/%c3%A4", "/\xc3\xa4"},
    {"a plus in a path is a plus", "/a+b", "/a+b"},
    {"an escaped percent sign is decoded once", "/%2541", "/%41"},
    {"dots that are no segment", "/a..b/...", "/a..b/..."},
    {"a hidden file", "/.bashrc", "/.bashrc"},
    {"an empty query", "/a?", "/a"},
    {"a pair", "/a?b=c", "/a b=c"},
    {"a key without a value", "/a?b", "/a b="},
    {"a value with an equals sign", "/a?b=c=d", "/a b=c=d"},
    {"two pairs", "/a?b=1&c=2", "/a b=1 c=2"},
    {"the same key twice, in order", "/a?b=1&b=2", "/a b=1 b=2"},
    {"a plus in a query is a blank", "/a?b=c+d", "/a b=c d"},
    {"an escaped ampersand is data", "/a?b=c%26d", "/a b=c&d"},
    {"an escaped slash in a query is data", "/a?b=..%2Fd", "/a b=../d"},
    {"a second question mark is data", "/a?b=c?d", "/a b=c?d"},
    {"empty parts of a query are skipped", "/a?&&b=1&", "/a b=1"},
    {"an escaped question mark belongs to the path", "/a%3Fb=1", "/a?b=1"},
};

static void test_good(void **state)
{
    const struct good *row = *state;
    struct url url;
    char target[128], raw[128];
    snprintf(target, sizeof(target), "%s", row->target);
    assert_null(url_parse(&url, target, raw));
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 1024);
    strbuf_add_str(&got, url.path);
    for (size_t i = 0; i < url.pair_count; i++)
        strbuf_add_fmt(&got, " %s=%s", url.pairs[i].key, url.pairs[i].value);
    assert_string_equal(strbuf_str(&got), row->want);
    const char *query = strchr(row->target, '?');
    assert_string_equal(url.query, query ? query + 1 : "");
}

struct bad {
    const char *name, *target, *word; /* of the complaint */
};

static const struct bad bads[] = {
    {"refuses nothing", "", "slash"},
    {"refuses a path without a slash", "a", "slash"},
    {"refuses a whole URL", "http://a/b", "slash"},
    {"refuses a star", "*", "slash"},
    {"refuses an escaped slash", "/a%2Fb", "escaped slash"},
    {"refuses an escaped slash in lower case", "/a%2fb", "escaped slash"},
    {"refuses two slashes", "/a//b", "segment"},
    {"refuses two slashes at the start", "//a", "segment"},
    {"refuses two slashes at the end", "/a//", "segment"},
    {"refuses a dot", "/a/./b", "segment"},
    {"refuses a dot at the end", "/a/.", "segment"},
    {"refuses two dots", "/a/../b", "segment"},
    {"refuses two dots at the end", "/a/..", "segment"},
    {"refuses dots that are escaped", "/a/%2e%2e/b", "segment"},
    {"refuses one dot that is escaped", "/a/.%2e/b", "segment"},
    {"refuses an escape without digits", "/a%", "escape"},
    {"refuses an escape with one digit", "/a%4", "escape"},
    {"refuses an escape with another letter", "/a%4g", "escape"},
    {"refuses an escape with a sign", "/a%+1", "escape"},
    {"refuses NUL", "/a%00b", "control"},
    {"refuses a line end", "/a%0d%0ab", "control"},
    {"refuses DEL", "/a%7f", "control"},
    {"refuses what is not UTF-8", "/a%ff", "UTF-8"},
    {"refuses an overlong form", "/a%c0%af", "UTF-8"},
    {"refuses a surrogate", "/a%ed%a0%80", "UTF-8"},
    {"refuses a broken escape in a key", "/a?%4=b", "query"},
    {"refuses a broken escape in a value", "/a?b=%zz", "query"},
    {"refuses NUL in a query", "/a?b=%00", "query"},
    {"refuses a value without a key", "/a?=b", "name"},
};

static void test_bad(void **state)
{
    const struct bad *row = *state;
    struct url url;
    char target[128];
    snprintf(target, sizeof(target), "%s", row->target);
    const char *wrong = url_parse(&url, target, NULL);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, row->word));
}

static void test_find(void **state)
{
    (void)state;
    struct url url;
    char target[] = "/a?b=1&c=&b=2";
    assert_null(url_parse(&url, target, NULL));
    assert_string_equal(url_find(&url, "b"), "1");
    assert_string_equal(url_find(&url, "c"), "");
    assert_null(url_find(&url, "d"));
}

static void test_many(void **state)
{
    (void)state;
    struct url url;
    scoped_strbuf struct strbuf text;
    for (int extra = 0; extra <= 1; extra++) {
        strbuf_init(&text, 4096);
        strbuf_add_str(&text, "/?a");
        for (int i = 1; i < URL_QUERY_MAX + extra; i++)
            strbuf_add_str(&text, "&a");
        assert_int_equal(url_parse(&url, text.data, NULL) != NULL, extra);
        assert_int_equal(url.pair_count, URL_QUERY_MAX);
        if (extra == 0)
            strbuf_release(&text);
    }
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, goods, test_good);
    check_rows(&check, bads, test_bad);
    check_one(&check, "the first of equal keys is found", test_find);
    check_one(&check, "one pair too many is refused", test_many);
    return check_run(&check, "url");
}
