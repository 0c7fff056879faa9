/* test_links.c - addresses: made, taken apart by our own reader of targets, checked */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/links.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"
#include "codec/url.h"

#define NOW_NS 1700000000500000000ll
#define SES    "ses_0123456789abcdefghjkmnpqrs"
#define EXE    "exe_0123456789abcdefghjkmnpqrs"

static const struct links links = {.keys = {"a secret", NULL},
                                   .base = "https://cove.example:8443",
                                   .ttl_ms = 3600 * 1000,
                                   .ttl_max_ms = 7200 * 1000};

struct row {
    const char *name, *path, *want; /* NULL: there is no address */
};

static const struct row rows[] = {
    {"a name", "a.txt", "a.txt"},
    {"a path", "a/b/c", "a/b/c"},
    {"a blank", "a b", "a%20b"},
    {"what has a meaning in an address", "#?&=+%;:@", "%23%3F%26%3D%2B%25%3B%3A%40"},
    {"UTF-8", "\xc3\xa4", "%C3%A4"},
    {"quotes and tags", "\"<'>\\", "%22%3C%27%3E%5C"},
    {"dots that are no way up", "..a/b..", "..a/b.."},
    {"a line end", "a\nb", NULL},
    {"DEL", "a\x7f", NULL},
    {"what is not UTF-8", "a\xff", NULL},
    {"a way up", "../a", NULL},
    {"a way up inside", "a/../b", NULL},
    {"an absolute path", "/a", NULL},
    {"two slashes", "a//b", NULL},
    {"a slash at the end", "a/", NULL},
    {"nothing", "", NULL},
};

/* What a server makes of the address, as it comes in. */
static int check_target(const char *target, int64_t now_ns, struct error *err)
{
    scoped_free char *text = xstrdup(target);
    struct url url;
    assert_null(url_parse(&url, text, NULL));
    assert_memory_equal(url.path, "/files/" SES "/", strlen("/files/" SES "/"));
    const char *exe = url_find(&url, "exe");
    const struct links_target got = {
        .session = SES, .execution = exe ? exe : "", .path = url.path + strlen("/files/" SES "/")};
    return links_check(&links, &got, url_find(&url, "exp"), url_find(&url, "sig"), now_ns, err);
}

static void test_row(void **state)
{
    const struct row *row = *state;
    static const char *const executions[] = {"", EXE};
    for (size_t i = 0; i < ARRAY_LEN(executions); i++) {
        const struct links_target target = {SES, executions[i], row->path};
        int64_t expires_ns = 0;
        struct error err;
        scoped_strbuf struct strbuf url;
        strbuf_init(&url, LINK_MAX_BYTES);
        bool is_made = links_add(&links, &url, &target, 0, NOW_NS, &expires_ns);
        assert_int_equal(is_made, row->want != NULL);
        if (!is_made)
            continue;
        scoped_free char *begin =
            xasprintf("https://cove.example:8443/files/" SES "/%s?%sexp=", row->want,
                      i ? "exe=" EXE "&" : "");
        assert_memory_equal(strbuf_str(&url), begin, strlen(begin));
        assert_int_equal(expires_ns, 1700003601000000000ll);
        const char *path = strbuf_str(&url) + strlen(links.base);
        assert_int_equal(check_target(path, NOW_NS, &err), 0);
        assert_int_equal(check_target(path, expires_ns - 1, &err), 0);
        assert_int_equal(check_target(path, expires_ns, &err), -1);
        assert_string_equal(err.word, "link_expired");
    }
}

static void test_other(void **state)
{
    (void)state;
    const struct links_target target = {SES, EXE, "a.txt"}, other = {SES, EXE, "b.txt"};
    const struct links another = {.keys = {"another secret", NULL}, .base = links.base};
    int64_t expires_ns;
    struct error err;
    scoped_strbuf struct strbuf url;
    strbuf_init(&url, LINK_MAX_BYTES);
    assert_true(links_add(&links, &url, &target, 0, NOW_NS, &expires_ns));
    const char *expires = "1700003601", *signature = strstr(strbuf_str(&url), "sig=") + 4;
    assert_int_equal(links_check(&links, &target, expires, signature, NOW_NS, &err), 0);
    assert_int_equal(links_check(&links, &other, expires, signature, NOW_NS, &err), -1);
    assert_string_equal(err.word, "link_invalid");
    assert_int_equal(err.code, ERROR_DENIED);
    assert_int_equal(links_check(&another, &target, expires, signature, NOW_NS, &err), -1);
    assert_null(strstr(err.msg, "secret"));
}

static void test_lifetime(void **state)
{
    (void)state;
    const struct links_target target = {SES, "", "a"};
    int64_t expires_ns;
    struct error err;
    scoped_strbuf struct strbuf url;
    strbuf_init(&url, LINK_MAX_BYTES);
    assert_true(links_add(&links, &url, &target, 1500, NOW_NS, &expires_ns));
    assert_int_equal(expires_ns, 1700000002000000000ll);
    assert_int_equal(links_check_ttl(&links, 7200 * 1000, &err), 0);
    assert_int_equal(links_check_ttl(&links, 7200 * 1000 + 1, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
}

/* A document that is read twice is the same document. */
static void test_steady(void **state)
{
    (void)state;
    static const int64_t times[] = {0, -1, NOW_NS, INT64_MAX, INT64_MIN};
    const struct links_target target = {SES, "exe_1", "a"};
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        scoped_json json_t *got = links_json(&links, &target, times[i]);
        int64_t left = strtoll(strstr(json_string_value(got), "exp=") + 4, NULL, 10) - time(NULL);
        assert_true(left >= 1800 && left <= 3601);
    }
    int64_t made_ns = clock_wall_ns() - 60 * 1000000000ll;
    scoped_json json_t *one = links_json(&links, &target, made_ns);
    scoped_json json_t *other = links_json(&links, &target, made_ns);
    assert_string_equal(json_string_value(one), json_string_value(other));
    int64_t end_s = strtoll(strstr(json_string_value(one), "exp=") + 4, NULL, 10);
    assert_int_equal(end_s, (made_ns + 3600 * 1000000000ll + 999999999) / 1000000000);
}

static void test_no_base(void **state)
{
    (void)state;
    struct links early = links;
    early.base = NULL;
    scoped_json json_t *got = links_json(&early, &(struct links_target){SES, "", "a"}, 0);
    assert_true(json_is_null(got));
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_one(&check, "an address is good for nothing else", test_other);
    check_one(&check, "an address lives as long as was asked", test_lifetime);
    check_one(&check, "an artifact's address is the same for a while", test_steady);
    check_one(&check, "there are none before the server has an address", test_no_base);
    return check_run(&check, "links");
}
