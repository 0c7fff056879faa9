/* test_secrets.c - where placeholders are filled in, and where they stay */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/secrets.h"

#include <string.h>

#include "base/memory.h"
#include "check.h"

#define A EGRESS_PLACEHOLDER "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B EGRESS_PLACEHOLDER "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C EGRESS_PLACEHOLDER "cccccccccccccccccccccccccccccccccccccccc"

static struct egress_secret make(const char *placeholder, const char *value)
{
    struct egress_secret s = {.len = (uint32_t)strlen(value)};
    memcpy(s.placeholder, placeholder, sizeof(s.placeholder));
    memcpy(s.value, value, s.len);
    return s;
}

/* A belongs to api.example.com by TLS; B below example.org by TLS, and without to plain.example;
 * C's value looks like A. */
static void fill_all(struct secrets *all)
{
    static const struct {
        const char *placeholder, *value;
        struct egress_rule hosts[2];
    } list[] = {
        {A, "first value", {{"api.example.com", 443, 0}}},
        {B, "second", {{"example.org", 443, EGRESS_BELOW}, {"plain.example", 80, EGRESS_PLAIN}}},
        {C, "<" A ">", {{"api.example.com", 443, 0}}},
    };
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        const struct egress_secret secret = make(list[i].placeholder, list[i].value);
        assert_true(secrets_add(all, &secret));
        for (size_t k = 0; k < 2 && list[i].hosts[k].name[0]; k++)
            assert_true(secrets_add_host(all, &list[i].hosts[k]));
    }
}

struct row {
    const char *name, *to;
    bool is_plain;
    const char *header, *value, *want;
};

static const struct row rows[] = {
    {"a value that is all placeholder", "api.example.com:443", false, "x-key", A, "first value"},
    {"in the midst of others", "api.example.com:443", false, "cookie", "a=" A "; b=" A ";",
     "a=first value; b=first value;"},
    {"next to each other", "api.example.com:443", false, "x", A A, "first valuefirst value"},
    {"what is filled in is not looked at again", "api.example.com:443", false, "x", C, "<" A ">"},
    {"a placeholder that is cut stays", "api.example.com:443", false, "x",
     EGRESS_PLACEHOLDER "aaaa", EGRESS_PLACEHOLDER "aaaa"},
    {"one of nobody stays", "api.example.com:443", false, "x",
     EGRESS_PLACEHOLDER "dddddddddddddddddddddddddddddddddddddddd",
     EGRESS_PLACEHOLDER "dddddddddddddddddddddddddddddddddddddddd"},
    {"one in capitals stays", "api.example.com:443", false, "x",
     EGRESS_PLACEHOLDER "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
     EGRESS_PLACEHOLDER "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
    {"behind another beginning", "api.example.com:443", false, "x", EGRESS_PLACEHOLDER A,
     EGRESS_PLACEHOLDER "first value"},
    {"an empty value", "api.example.com:443", false, "x", "", ""},
    {"another host's stays", "api.example.com:443", false, "x", B, B},
    {"below a domain", "a.b.example.org:443", false, "x", B, "second"},
    {"not the domain itself", "example.org:443", false, "x", B, B},
    {"not a name that ends like it", "badexample.org:443", false, "x", B, B},
    {"another port", "api.example.com:8443", false, "x", A, A},
    {"without TLS, where it is for TLS", "api.example.com:443", true, "x", A, A},
    {"without TLS, where it is for that", "plain.example:80", true, "x", B, "second"},
    {"by TLS, where it is for none", "plain.example:80", false, "x", B, B},
    {"nobody's host", "evil.example:443", false, "x", A B C, A B C},
};

static void fill(const struct row *row, struct strbuf *out)
{
    struct secrets all = {0};
    struct secrets_view view;
    struct authority to;
    fill_all(&all);
    assert_true(authority_parse(&to, row->to, strlen(row->to)));
    secrets_choose(&view, &all, &to, !row->is_plain);
    bool has_any = secrets_fill(&view, row->header, row->value, out);
    assert_int_equal(has_any, strcmp(row->value, strbuf_str(out)) != 0);
    secrets_release(&all);
}

static void test_row(void **state)
{
    const struct row *row = *state;
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, 4096);
    fill(row, &out);
    assert_string_equal(strbuf_str(&out), row->want);
}

/* Texts of base64 are what `base64` prints for user:A, and for what comes of it. */
#define USER_A "dXNlcjpjb3ZlLXNlY3JldC1hYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"
static const struct row basics[] = {
    {"Basic: what curl -u sends", "api.example.com:443", false, "authorization", "Basic " USER_A,
     "Basic dXNlcjpmaXJzdCB2YWx1ZQ=="},
    {"Basic: in any case, with blanks", "api.example.com:443", false, "authorization",
     "bASIC   " USER_A, "bASIC dXNlcjpmaXJzdCB2YWx1ZQ=="},
    {"Basic: another host's stays", "a.example.org:443", false, "authorization", "Basic " USER_A,
     "Basic " USER_A},
    {"Basic: in another header it is a text", "api.example.com:443", false, "x-authorization",
     "Basic " USER_A, "Basic " USER_A},
    {"Basic: what is no base64 stays", "api.example.com:443", false, "authorization",
     "Basic " USER_A "!", "Basic " USER_A "!"},
    {"Basic: what is not encoded is filled in, too", "api.example.com:443", false, "authorization",
     "Basic " A, "Basic first value"},
    {"Basic: another scheme", "api.example.com:443", false, "authorization", "Bearer " A,
     "Bearer first value"},
    {"Basic: the word alone", "api.example.com:443", false, "authorization", "Basic", "Basic"},
};

static void test_bounds(void **state)
{
    struct secrets all = {0};
    struct egress_secret secret = make(A, "v");
    const struct egress_rule host = {"a.example", 443, 0}, any_port = {"a.example", 0, 0},
                             private = {"a.example", 443, EGRESS_PRIVATE},
                             bad_name = {"A.example", 443, 0};
    (void)state;
    assert_false(secrets_add_host(&all, &host)); /* whose? */
    for (size_t i = 0; i < EGRESS_SECRETS_MAX; i++)
        assert_true(secrets_add(&all, &secret));
    assert_false(secrets_add(&all, &secret));
    assert_false(secrets_add_host(&all, &any_port));
    assert_false(secrets_add_host(&all, &private));
    assert_false(secrets_add_host(&all, &bad_name));
    for (size_t i = 0; i < EGRESS_SECRET_HOSTS_MAX; i++)
        assert_true(secrets_add_host(&all, &host));
    assert_false(secrets_add_host(&all, &host));
    secrets_release(&all);
}

static void test_refused(void **state)
{
    static const char *const values[] = {"", "a\r\nb", "a\nb", "a\rb", "\x7f", "a\x01"};
    struct secrets all = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        const struct egress_secret secret = make(A, values[i]);
        assert_false(secrets_add(&all, &secret));
    }
    struct egress_secret with_nul = make(A, "a"), bad = make(A, "a"), endless = make(A, "a");
    with_nul.len = 3;
    bad.placeholder[EGRESS_PLACEHOLDER_LEN - 1] = 'g';
    endless.len = EGRESS_SECRET_BYTES + 1;
    assert_false(secrets_add(&all, &with_nul) || secrets_add(&all, &bad) ||
                 secrets_add(&all, &endless));
    bad.placeholder[0] = 'C';
    assert_false(secrets_add(&all, &bad));
    assert_int_equal(all.count, 0);
}

/* A head that cannot be held is not sent in part. */
static void test_overflow(void **state)
{
    struct secrets all = {0};
    struct secrets_view view;
    struct egress_secret secret = {.len = EGRESS_SECRET_BYTES};
    const struct egress_rule host = {"a.example", 443, 0};
    const struct authority to = {.name = "a.example", .port = 443};
    scoped_strbuf struct strbuf out;
    (void)state;
    strbuf_init(&out, EGRESS_SECRET_BYTES - 1);
    memcpy(secret.placeholder, A, EGRESS_PLACEHOLDER_LEN);
    memset(secret.value, 'v', sizeof(secret.value));
    assert_true(secrets_add(&all, &secret) && secrets_add_host(&all, &host));
    secrets_choose(&view, &all, &to, true);
    assert_true(secrets_fill(&view, "x", A, &out));
    assert_true(out.overflow);
    strbuf_clear(&out);
    assert_true(secrets_fill(&view, "authorization", "Basic " USER_A, &out));
    assert_true(out.overflow);
    secrets_release(&all);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_rows(&check, basics, test_row);
    check_one(&check, "takes so many secrets and hosts, and no more", test_bounds);
    check_one(&check, "refuses values that would break a head, and other placeholders",
              test_refused);
    check_one(&check, "says when it does not fit", test_overflow);
    return check_run(&check, "secrets");
}
