/* test_address.c - what can be listened at, and how it is told */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/address.h"

#include <string.h>

#include "base/strbuf.h"
#include "check.h"

struct address_case {
    const char *text, *url; /* url NULL: refused */
    bool is_loopback, is_any;
};

static const struct address_case cases[] = {
    {"127.0.0.1:8080", "http://127.0.0.1:8080", true, false},
    {"127.9.9.9:1", "http://127.9.9.9:1", true, false},
    {"8080", "http://127.0.0.1:8080", true, false},
    {"0", "http://127.0.0.1:0", true, false},
    {"localhost:80", "http://127.0.0.1:80", true, false},
    {"[::1]:8080", "http://[::1]:8080", true, false},
    {":8080", "http://127.0.0.1:8080", false, true},
    {"*:8080", "http://127.0.0.1:8080", false, true},
    {"0.0.0.0:8080", "http://127.0.0.1:8080", false, true},
    {"[::]:8080", "http://[::1]:8080", false, true},
    {"192.168.1.2:65535", "http://192.168.1.2:65535", false, false},
    {"[fe80::1]:8080", "http://[fe80::1]:8080", false, false},
    /* A version 4 address in a version 6 one is not taken for one of this machine. */
    {"[::ffff:127.0.0.1]:8080", "http://[::ffff:127.0.0.1]:8080", false, false},
    {"unix:/run/cove.sock", "unix:/run/cove.sock", true, false},

    {"", NULL, false, false},
    {":", NULL, false, false},
    {"65536", NULL, false, false},
    {"127.0.0.1", NULL, false, false},
    {"127.0.0.1:", NULL, false, false},
    {"127.0.0.1:-1", NULL, false, false},
    {"127.0.0.1:80a", NULL, false, false},
    {"127.1:80", NULL, false, false},
    {"0x7f.0.0.1:80", NULL, false, false},
    {"example.com:80", NULL, false, false},
    {"::1:8080", NULL, false, false},
    {"[::1:8080", NULL, false, false},
    {"[]:8080", NULL, false, false},
    {"[:8080", NULL, false, false},
    {"[::1]8080", NULL, false, false},
    {"[127.0.0.1]:8080", NULL, false, false},
    {"http://127.0.0.1:80", NULL, false, false},
    {"unix:", NULL, false, false},
    {"unix:relative", NULL, false, false},
    {"unix:/this/path/is/much/too/long/for/a/socket/since/the/kernel/has/room/for/one/hundred/and/"
     "eight/bytes/only/this/is/more",
     NULL, false, false},
};

static void test_address(void **state)
{
    const struct address_case *c = *state;
    struct address a = {.port = 7};
    struct error err = {.msg = ""};
    scoped_strbuf struct strbuf url;
    strbuf_init(&url, 1024);
    int status = address_parse(&a, c->text, &err);
    assert_int_equal(status, c->url ? 0 : -1);
    if (!c->url) {
        assert_int_equal(err.code, ERROR_INVALID);
        assert_int_equal(a.port, 7);
        return;
    }
    address_add_url(&a, false, &url);
    assert_string_equal(strbuf_str(&url), c->url);
    assert_int_equal(a.is_loopback, c->is_loopback);
    assert_int_equal(a.is_any, c->is_any);
}

struct origin_case {
    const char *text;
    bool is_origin;
};

static const struct origin_case origins[] = {
    {"http://localhost", true},   {"https://a.example:8443", true},
    {"http://[::1]:1", true},     {"", false},
    {"a.example", false},         {"https://", false},
    {"https://a/", false},        {"ftp://a", false},
    {"https://a?b", false},       {"null", false},
    {"https://u@a", false},       {"https://a b", false},
    {"HTTPS://a.example", false},
};

static void test_origin(void **state)
{
    const struct origin_case *c = *state;
    assert_int_equal(address_is_origin(c->text), c->is_origin);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_address);
    check_rows(&check, origins, test_origin);
    return check_run(&check, "address");
}
