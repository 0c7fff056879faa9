/* test_authority.c - hosts in their one spelling, and what is almost a host */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/authority.h"

#include <string.h>

#include "check.h"

struct good {
    const char *name, *text, *want;
    unsigned port;
    bool is_address;
};

static const struct good goods[] = {
    {"a name", "example.com", "example.com", 0, false},
    {"capitals", "ExAmPle.COM", "example.com", 0, false},
    {"a dot at the end", "example.com.", "example.com", 0, false},
    {"a port", "example.com:8443", "example.com", 8443, false},
    {"a dot and a port", "Example.com.:1", "example.com", 1, false},
    {"one label", "localhost", "localhost", 0, false},
    {"an underscore", "_dmarc.example.com", "_dmarc.example.com", 0, false},
    {"another alphabet, as names have it", "xn--bcher-kva.example", "xn--bcher-kva.example", 0,
     false},
    {"an address", "192.0.2.1", "192.0.2.1", 0, true},
    {"an address with a port", "192.0.2.1:65535", "192.0.2.1", 65535, true},
    {"an address of version 6", "[2001:DB8:0:0::1]:80", "2001:db8::1", 80, true},
    {"one of version 4 in disguise", "[::ffff:7f00:1]", "::ffff:127.0.0.1", 0, true},
};

static void test_good(void **state)
{
    const struct good *row = *state;
    struct authority got;
    assert_true(authority_parse(&got, row->text, strlen(row->text)));
    assert_string_equal(got.name, row->want);
    assert_int_equal(got.port, row->port);
    assert_int_equal(got.is_address, row->is_address);
}

struct bad {
    const char *name, *text;
};

static const struct bad bads[] = {
    {"refuses nothing", ""},
    {"refuses a dot", "."},
    {"refuses two dots at the end", "example.com.."},
    {"refuses an empty label", "a..b"},
    {"refuses a dot at the start", ".example.com"},
    {"refuses a user", "user@example.com"},
    {"refuses a blank", "example.com "},
    {"refuses an escape", "example%2ecom"},
    {"refuses bytes that are not ASCII", "b\xc3\xbc"
                                         "cher.example"},
    {"refuses a full-width dot", "example\xe3\x80\x82"
                                 "com"},
    {"refuses a backslash", "example.com\\evil.com"},
    {"refuses a dash at the start", "-a.example"},
    {"refuses a dash at the end", "a-.example"},
    {"refuses an address without brackets", "::1"},
    {"refuses a zone", "[fe80::1%eth0]"},
    {"refuses a bracket that stays open", "[::1"},
    {"refuses something behind the bracket", "[::1]x"},
    {"refuses a name in brackets", "[example.com]"},
    {"refuses a short address", "127.1"},
    {"refuses a number", "2130706433"},
    {"refuses a number in hexadecimal", "0x7f000001"},
    {"refuses a part in hexadecimal", "127.0.0.0x1"},
    {"refuses a part in octal", "0177.0.0.1"},
    {"refuses five parts", "1.2.3.4.5"},
    {"refuses a number with a dot behind it", "2130706433."},
    {"refuses port 0", "example.com:0"},
    {"refuses a port without digits", "example.com:"},
    {"refuses a port with a sign", "example.com:+80"},
    {"refuses a port with a zero in front", "example.com:080"},
    {"refuses a port that is too large", "example.com:65536"},
    {"refuses a port with six digits", "example.com:100000"},
    {"refuses two ports", "example.com:80:80"},
    {"refuses a star", "*.example.com"},
    {"refuses a label of 64 letters",
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example"},
};

static void test_bad(void **state)
{
    const struct bad *row = *state;
    struct authority got;
    assert_false(authority_parse(&got, row->text, strlen(row->text)));
}

static void test_nul(void **state)
{
    struct authority got;
    (void)state;
    assert_false(authority_parse(&got, "a\0.com", 6));
    assert_false(authority_parse(&got, "[::1\0]", 6));
}

static void test_long(void **state)
{
    char text[300];
    struct authority got;
    (void)state;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = i % 10 == 9 ? '.' : 'a';
    assert_true(authority_parse(&got, text, 253));
    assert_false(authority_parse(&got, text, 255));
}

static void test_url(void **state)
{
    struct authority got;
    const char *rest;
    (void)state;
    assert_true(authority_parse_url(&got, "HTTP://Example.com:81/a?b", "http", &rest));
    assert_string_equal(got.name, "example.com");
    assert_string_equal(rest, "/a?b");
    assert_true(authority_parse_url(&got, "http://example.com?b", "http", &rest));
    assert_string_equal(rest, "?b");
    assert_false(authority_parse_url(&got, "http://user:pass@example.com/", "http", &rest));
    assert_false(authority_parse_url(&got, "http:/example.com/", "http", &rest));
    assert_false(authority_parse_url(&got, "https://example.com/", "http", &rest));
    assert_false(authority_parse_url(&got, "http://good.com\\@evil.com/", "http", &rest));
}

static void test_below(void **state)
{
    (void)state;
    assert_true(authority_is_below("a.example.com", "example.com"));
    assert_true(authority_is_below("a.b.example.com", "example.com"));
    assert_false(authority_is_below("example.com", "example.com"));
    assert_false(authority_is_below("badexample.com", "example.com"));
    assert_false(authority_is_below(".example.com", "example.com"));
    assert_false(authority_is_below("example.com.evil.com", "example.com"));
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, goods, test_good);
    check_rows(&check, bads, test_bad);
    check_one(&check, "refuses NUL", test_nul);
    check_one(&check, "takes names as long as DNS has them", test_long);
    check_one(&check, "finds the host of an address", test_url);
    check_one(&check, "compares by whole labels", test_below);
    return check_run(&check, "authority");
}
