/* test_auth_rate.c - how often who may ask, and how often who may guess */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "house.h"

/* --- how often -------------------------------------------------------------------------------- */

static void test_rate(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    const struct api_key slow = house_put_key(
                             &h, (struct store_key){.scopes = "execute", .rate_per_minute = 6}),
                         quick = house_put_key(&h, (struct store_key){.scopes = "execute"});
    house_load(&h, &house_usual);
    assert_int_equal(house_get(&h, "/any", slow.text), 200);
    assert_true(house_has_header(&h, "RateLimit-Limit: 2") &&
                house_has_header(&h, "RateLimit-Remaining: 1") &&
                house_has_header(&h, "RateLimit-Reset: 10"));
    assert_int_equal(house_get(&h, "/admin", slow.text),
                     403); /* what it may not do counts as well */
    assert_true(house_has_header(&h, "RateLimit-Remaining: 0"));
    assert_int_equal(house_get(&h, "/any", slow.text), 429);
    assert_string_equal(house_failure(&h, "code"), "rate_limited");
    assert_true(house_has_header(&h, "Retry-After: 10") &&
                house_has_header(&h, "RateLimit-Remaining: 0"));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(house_get(&h, "/any", quick.text), 200);
        assert_null(strstr(h.text.data, "RateLimit"));
    }
    assert_int_equal(house_get(&h, "/open", slow.text), 200);
    house_pass_time(10 * SECOND - 1);
    assert_int_equal(house_get(&h, "/any", slow.text), 429);
    assert_true(house_has_header(&h, "Retry-After: 1"));
    house_pass_time(1);
    assert_int_equal(house_get(&h, "/any", slow.text), 200);
    house_close(&h);
}

static void test_usual_rate(void **state)
{
    (void)state;
    struct house h;
    struct auth_order order = house_usual;
    house_open(&h);
    order.keys = (struct rate_rule){.per_minute = 60, .burst = 1};
    const struct api_key own = house_put_key(
                             &h, (struct store_key){.scopes = "execute", .rate_per_minute = 600}),
                         other = house_put_key(&h, (struct store_key){.scopes = "execute"});
    house_load(&h, &order);
    assert_int_equal(house_get(&h, "/any", other.text), 200);
    assert_int_equal(house_get(&h, "/any", other.text), 429);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(house_get(&h, "/any", own.text), 200);
        assert_int_equal(house_get(&h, "/any", HOUSE_TOKEN), 200);
    }
    house_close(&h);
}

/* --- guesses ---------------------------------------------------------------------------------- */

struct address_case {
    const char *name, *peer, *group;
};

static const struct address_case address_cases[] = {
    {"an IPv4 address is one", "192.0.2.7", "192.0.2.7"},
    {"the /64 of an IPv6 address is one", "2001:db8:1:2:3:4:5:6", "20010db800010002"},
    {"whoever moves about in it is the same", "2001:db8:1:2:ffff::1", "20010db800010002"},
    {"the next /64 is another", "2001:db8:1:3::1", "20010db800010003"},
    {"IPv4 within IPv6 is IPv4", "::ffff:192.0.2.7", "::ffff:192.0.2.7"},
    {"a unix socket is one", "unix", "unix"},
};

static void test_address(void **state)
{
    const struct address_case *c = *state;
    char out[AUTH_ADDRESS_BYTES];
    assert_string_equal(auth_address(c->peer, out), c->group);
}

static void spend_tries(struct house *h)
{
    while (house_get(h, "/any", "wrong") == 401)
        ;
    assert_int_equal(h->status, 429);
}

static void test_guesses(void **state)
{
    (void)state;
    struct house h;
    struct auth_order order = house_usual;
    house_open(&h);
    order.failures = (struct rate_rule){.per_minute = 6, .burst = 3};
    const struct api_key key = house_put_key(&h, (struct store_key){.scopes = "execute"}),
                         over = house_put_key(
                             &h, (struct store_key){.scopes = "admin", .revoked_ns = 1});
    house_load(&h, &order);
    for (int i = 0; i < 10; i++)
        assert_int_equal(house_get(&h, "/any", NULL), 401); /* no guess */
    assert_int_equal(house_get(&h, "/any", "wrong"), 401);
    assert_int_equal(house_get(&h, "/any", over.text), 401);
    assert_int_equal(house_request_from(&h, "127.0.0.1", "GET /execute", "X-API-Key:\r\n", NULL),
                     401);
    assert_int_equal(house_get(&h, "/any", "wrong"), 429);
    assert_string_equal(house_failure(&h, "code"), "rate_limited");
    assert_true(house_has_header(&h, "Retry-After: 10"));
    assert_int_equal(house_get(&h, "/any", over.text), 429);
    assert_int_equal(house_get(&h, "/any", NULL), 401);
    /* who has the right one is not locked out */
    assert_int_equal(house_get(&h, "/any", HOUSE_TOKEN), 200);
    assert_int_equal(house_get(&h, "/internal", HOUSE_INTERNAL), 200);
    assert_int_equal(house_get(&h, "/any", key.text), 200);
    /* nor does another address notice */
    assert_int_equal(house_request_from(&h, "127.0.0.2", "GET /execute", BEARER "wrong\r\n", NULL),
                     401);
    house_pass_time(10 * SECOND);
    assert_int_equal(house_get(&h, "/any", "wrong"), 401);
    assert_int_equal(house_get(&h, "/any", "wrong"), 429);
    house_close(&h);
}

/* The answer to the right guess is the same as to a wrong one. */
static void test_short_token(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    house_load(&h, &(struct auth_order){.token = HOUSE_SHORT});
    for (int i = 0; i < 50; i++)
        assert_int_equal(house_get(&h, "/any", HOUSE_SHORT), 200);
    spend_tries(&h);
    scoped_free char *wrong = xstrdup(house_failure(&h, "message"));
    assert_int_equal(house_get(&h, "/any", HOUSE_SHORT), 429);
    assert_string_equal(house_failure(&h, "message"), wrong);
    assert_int_equal(
        house_request_from(&h, "127.0.0.2", "GET /execute", BEARER HOUSE_SHORT "\r\n", NULL), 200);
    house_pass_time(2 * SECOND);
    assert_int_equal(house_get(&h, "/any", HOUSE_SHORT), 200);
    scoped_free char *log = house_read_log(&h);
    assert_non_null(strstr(log, "short enough to be guessed"));
    house_close(&h);
}

/* Nor does an open door tell, which knows who has the right one. */
static void test_open_guesses(void **state)
{
    (void)state;
    struct house h;
    struct auth_order order = {.token = HOUSE_SHORT, .failures = {.per_minute = 6, .burst = 3}};
    house_open(&h);
    house_load(&h, &order);
    for (int i = 0; i < 3; i++) {
        house_get(&h, "/known", HOUSE_SHORT);
        house_assert_who(&h, "", true, "admin");
        house_get(&h, "/known", "wrong");
        house_assert_who(&h, "", false, "");
    }
    house_get(&h, "/known", HOUSE_SHORT);
    house_assert_who(&h, "", false, "");
    house_close(&h);
}

/* Each refusal is told to the operator, until they come too often. */
static void test_log(void **state)
{
    (void)state;
    struct house h;
    struct auth_order order = house_usual;
    house_open(&h);
    order.failures = (struct rate_rule){.per_minute = 1, .burst = 4};
    house_load(&h, &order);
    house_note_secret(&h, "wrong");
    for (int i = 0; i < 20; i++)
        house_get(&h, "/any", "wrong");
    scoped_free char *log = house_read_log(&h);
    size_t lines = 0;
    for (const char *at = log; (at = strstr(at, "a token was refused")); at++)
        lines++;
    assert_int_equal(lines, 4);
    assert_non_null(strstr(log, "\"peer\":\"127.0.0.1\""));
    house_close(&h);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "a key has its rate, and is told", test_rate);
    check_one(&check, "keys without a rate have the usual one", test_usual_rate);
    check_rows(&check, address_cases, test_address);
    check_one(&check, "guesses are counted for each address", test_guesses);
    check_one(&check, "a short token cannot be guessed quickly", test_short_token);
    check_one(&check, "nor at an open door", test_open_guesses);
    check_one(&check, "refusals are logged, not endlessly", test_log);
    return check_run(&check, "auth_rate");
}
