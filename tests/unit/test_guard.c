/* test_guard.c - which Host and Origin may come in */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/guard.h"

#include "check.h"

static const char *const hosts[] = {"cove.example.org", "other.example.org:8443", "[2001:db8::1]",
                                    "192.0.2.7", NULL};
static const char *const origins[] = {"https://console.example.org", "http://dev.example.org:3000",
                                      NULL};
static const struct guard guard = {.hosts = hosts, .origins = origins};

struct row {
    const char *name;
    struct guard_question question;
    enum guard_answer want;
};

static const struct row rows[] = {
    {"localhost", {"localhost"}, GUARD_PASS},
    {"localhost with a port", {"localhost:8080"}, GUARD_PASS},
    {"localhost in capitals", {"LocalHost"}, GUARD_PASS},
    {"a name below localhost", {"a.localhost:1"}, GUARD_PASS},
    {"127.0.0.1", {"127.0.0.1:8080"}, GUARD_PASS},
    {"all of 127", {"127.9.9.9"}, GUARD_PASS},
    {"IPv6 loopback", {"[::1]:8080"}, GUARD_PASS},
    {"a listed name, any port", {"cove.example.org:99"}, GUARD_PASS},
    {"a listed name in capitals", {"COVE.example.org"}, GUARD_PASS},
    {"a listed name with its port", {"other.example.org:8443"}, GUARD_PASS},
    {"a listed address", {"192.0.2.7"}, GUARD_PASS},
    {"a listed IPv6 address", {"[2001:db8::1]:80"}, GUARD_PASS},
    {"a listed name with another port", {"other.example.org:8444"}, GUARD_FOREIGN_HOST},
    {"a listed name without its port", {"other.example.org"}, GUARD_FOREIGN_HOST},
    {"a name that is not listed", {"evil.test"}, GUARD_FOREIGN_HOST},
    {"a name that begins like a listed one", {"cove.example.org.evil.test"}, GUARD_FOREIGN_HOST},
    {"a name that ends like a listed one", {"evilcove.example.org"}, GUARD_FOREIGN_HOST},
    {"localhost below another name", {"localhost.evil.test"}, GUARD_FOREIGN_HOST},
    {"a name that ends like localhost", {"evillocalhost"}, GUARD_FOREIGN_HOST},
    {"127 as a name", {"127.0.0.1.evil.test"}, GUARD_FOREIGN_HOST},
    {"127 written short", {"127.1"}, GUARD_FOREIGN_HOST},
    {"127 as one number", {"2130706433"}, GUARD_FOREIGN_HOST},
    {"127 in hex", {"0x7f.0.0.1"}, GUARD_FOREIGN_HOST},
    {"any address", {"0.0.0.0"}, GUARD_FOREIGN_HOST},
    {"IPv4 inside of IPv6", {"[::ffff:127.0.0.1]"}, GUARD_FOREIGN_HOST},
    {"no host", {""}, GUARD_BAD_HOST},
    {"only a port", {":80"}, GUARD_BAD_HOST},
    {"a port without digits", {"localhost:"}, GUARD_BAD_HOST},
    {"a port that is none", {"localhost:http"}, GUARD_BAD_HOST},
    {"a port of zero", {"localhost:0"}, GUARD_BAD_HOST},
    {"a port with a leading zero", {"localhost:080"}, GUARD_BAD_HOST},
    {"a port too large", {"localhost:65536"}, GUARD_BAD_HOST},
    {"two ports", {"localhost:1:2"}, GUARD_BAD_HOST},
    {"a user before the host", {"a@localhost"}, GUARD_BAD_HOST},
    {"a path after the host", {"localhost/a"}, GUARD_BAD_HOST},
    {"a blank inside", {"local host"}, GUARD_BAD_HOST},
    {"two hosts", {"localhost, evil.test"}, GUARD_BAD_HOST},
    {"a dot at the end", {"localhost."}, GUARD_BAD_HOST},
    {"two dots", {"a..localhost"}, GUARD_BAD_HOST},
    {"a dot at the start", {".localhost"}, GUARD_BAD_HOST},
    {"open brackets", {"[::1"}, GUARD_BAD_HOST},
    {"empty brackets", {"[]"}, GUARD_BAD_HOST},
    {"text after brackets", {"[::1]a"}, GUARD_BAD_HOST},
    {"a name in brackets", {"[localhost]"}, GUARD_BAD_HOST},
    {"an IPv6 address without brackets", {"::1"}, GUARD_BAD_HOST},
    {"an escape", {"localhost%00"}, GUARD_BAD_HOST},

    {"our own origin", {"localhost:80", "http://localhost"}, GUARD_PASS},
    {"our own origin, port on both", {"localhost:8080", "http://localhost:8080"}, GUARD_PASS},
    {"our own origin, port at the origin", {"localhost", "http://localhost:80"}, GUARD_PASS},
    {"our own origin, other case", {"LOCALHOST:1", "http://localhost:1"}, GUARD_PASS},
    {"our own origin with TLS",
     {"cove.example.org", "https://cove.example.org", .is_tls = true},
     GUARD_PASS},
    {"our own IPv6 origin", {"[::1]:1", "http://[::1]:1"}, GUARD_PASS},
    {"a listed origin", {"localhost", "https://console.example.org"}, GUARD_PASS_FOREIGN},
    {"a listed origin with a port",
     {"localhost", "http://dev.example.org:3000"},
     GUARD_PASS_FOREIGN},
    {"a listed origin at another port",
     {"localhost", "http://dev.example.org:3001"},
     GUARD_FOREIGN_ORIGIN},
    {"a listed origin without TLS",
     {"localhost", "http://console.example.org"},
     GUARD_FOREIGN_ORIGIN},
    {"our name with the other scheme",
     {"localhost:1", "https://localhost:1"},
     GUARD_FOREIGN_ORIGIN},
    {"our name without TLS at a TLS port",
     {"localhost:1", "http://localhost:1", .is_tls = true},
     GUARD_FOREIGN_ORIGIN},
    {"our name at another port", {"localhost:1", "http://localhost:2"}, GUARD_FOREIGN_ORIGIN},
    {"another loopback name", {"localhost:1", "http://127.0.0.1:1"}, GUARD_FOREIGN_ORIGIN},
    {"another site", {"localhost", "https://evil.test"}, GUARD_FOREIGN_ORIGIN},
    {"the origin null", {"localhost", "null"}, GUARD_FOREIGN_ORIGIN},
    {"an empty origin", {"localhost", ""}, GUARD_FOREIGN_ORIGIN},
    {"an origin with a path", {"localhost", "http://localhost/"}, GUARD_FOREIGN_ORIGIN},
    {"an origin with a user", {"localhost", "http://localhost@evil.test"}, GUARD_FOREIGN_ORIGIN},
    {"two origins", {"localhost", "http://localhost http://evil.test"}, GUARD_FOREIGN_ORIGIN},
    {"an origin of a file", {"localhost", "file://"}, GUARD_FOREIGN_ORIGIN},
    {"an origin of an extension",
     {"localhost", "chrome-extension://localhost"},
     GUARD_FOREIGN_ORIGIN},
    {"a foreign host with its own origin", {"evil.test", "http://evil.test"}, GUARD_FOREIGN_HOST},

    {"another site that hides its origin",
     {"localhost", .fetch_site = "cross-site"},
     GUARD_FOREIGN_ORIGIN},
    {"a link from another site",
     {"localhost", .fetch_site = "cross-site", .is_safe = true},
     GUARD_PASS},
    {"a reading page of another site",
     {"localhost", "https://evil.test", "cross-site", .is_safe = true},
     GUARD_FOREIGN_ORIGIN},
    {"our own page", {"localhost", .fetch_site = "same-origin"}, GUARD_PASS},
};

static void test_row(void **state)
{
    const struct row *row = *state;
    assert_int_equal(guard_check(&guard, &row->question), row->want);
}

static void test_any(void **state)
{
    (void)state;
    static const char *const any[] = {"*", NULL};
    const struct guard open = {.hosts = any};
    assert_int_equal(guard_check(&open, &(struct guard_question){"evil.test"}), GUARD_PASS);
    assert_int_equal(guard_check(&open, &(struct guard_question){"evil.test", "http://other.test"}),
                     GUARD_FOREIGN_ORIGIN);
    assert_int_equal(guard_check(&open, &(struct guard_question){"a b"}), GUARD_BAD_HOST);
}

static void test_empty(void **state)
{
    (void)state;
    const struct guard none = {NULL, NULL};
    assert_int_equal(guard_check(&none, &(struct guard_question){"localhost"}), GUARD_PASS);
    assert_int_equal(guard_check(&none, &(struct guard_question){"cove.example.org"}),
                     GUARD_FOREIGN_HOST);
}

/* A name as long as may be, and one byte more. */
static void test_long(void **state)
{
    (void)state;
    char host[GUARD_HOST_MAX_BYTES + 2];
    memset(host, 'a', sizeof(host));
    host[GUARD_HOST_MAX_BYTES + 1] = '\0';
    assert_int_equal(guard_check(&guard, &(struct guard_question){host}), GUARD_BAD_HOST);
    host[GUARD_HOST_MAX_BYTES] = '\0';
    assert_int_equal(guard_check(&guard, &(struct guard_question){host}), GUARD_FOREIGN_HOST);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_one(&check, "a star lets every host in, and no origin", test_any);
    check_one(&check, "without lists there is only loopback", test_empty);
    check_one(&check, "a name that is too long is none", test_long);
    return check_run(&check, "guard");
}
