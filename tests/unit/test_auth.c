/* test_auth.c - who gets in, and by what */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "house.h"

#define UPGRADE "Connection: Upgrade\r\nUpgrade: websocket\r\n"

/* --- what is shown ---------------------------------------------------------------------------- */

struct shown_case {
    const char *name, *headers;
    int status;
    const char *message, *challenge;
};

#define REALM "WWW-Authenticate: Bearer realm=\"cove\""

static const struct shown_case shown_cases[] = {
    {"nothing is refused", "", 401, "this needs a token", REALM},
    {"the token opens", BEARER HOUSE_TOKEN "\r\n", 200, NULL, NULL},
    {"the scheme has any case, and blanks", "Authorization: bEARER   " HOUSE_TOKEN "\r\n", 200,
     NULL, NULL},
    {"X-API-Key opens", "X-API-Key: " HOUSE_TOKEN "\r\n", 200, NULL, NULL},
    {"one letter less is refused", BEARER "operator-token-012345678\r\n", 401, "not valid here",
     REALM ", error=\"invalid_token\""},
    {"one letter more is refused", BEARER HOUSE_TOKEN "0\r\n", 401, "not valid here",
     REALM ", error=\"invalid_token\""},
    {"other case is refused", BEARER "Operator-token-0123456789\r\n", 401, "not valid here",
     REALM ", error=\"invalid_token\""},
    {"another scheme is refused", "Authorization: Basic " HOUSE_TOKEN "\r\n", 401,
     "of the kind 'Bearer'", REALM ", error=\"invalid_request\""},
    {"no scheme is refused", "Authorization: " HOUSE_TOKEN "\r\n", 401, "of the kind 'Bearer'",
     REALM ", error=\"invalid_request\""},
    {"a longer scheme is refused", "Authorization: Bearers " HOUSE_TOKEN "\r\n", 401,
     "of the kind 'Bearer'", REALM ", error=\"invalid_request\""},
    {"a scheme alone is refused", "Authorization: Bearer\r\n", 401, "cannot be a token",
     REALM ", error=\"invalid_request\""},
    {"an empty header is refused", "Authorization:\r\n", 401, "of the kind 'Bearer'",
     REALM ", error=\"invalid_request\""},
    {"an empty key is refused", "X-API-Key:\r\n", 401, "cannot be a token",
     REALM ", error=\"invalid_request\""},
    {"two words are refused", BEARER HOUSE_TOKEN " x\r\n", 401, "cannot be a token",
     REALM ", error=\"invalid_request\""},
    {"a tab is refused", BEARER "\t" HOUSE_TOKEN "\r\n", 401, "cannot be a token",
     REALM ", error=\"invalid_request\""},
    {"both headers are refused", BEARER HOUSE_TOKEN "\r\nX-API-Key: " HOUSE_TOKEN "\r\n", 401,
     "both Authorization and X-API-Key", REALM ", error=\"invalid_request\""},
    {"a protocol opens where a WebSocket is asked for",
     UPGRADE "Sec-WebSocket-Protocol: cove.terminal, bearer." HOUSE_TOKEN "\r\n", 200, NULL, NULL},
    {"in any place", UPGRADE "Sec-WebSocket-Protocol: bearer." HOUSE_TOKEN " ,cove.terminal\r\n",
     200, NULL, NULL},
    {"elsewhere it says nothing", "Sec-WebSocket-Protocol: bearer." HOUSE_TOKEN "\r\n", 401,
     "this needs a token", REALM},
    {"a protocol that is no token says nothing",
     UPGRADE "Sec-WebSocket-Protocol: cove.terminal, xbearer." HOUSE_TOKEN "\r\n", 401,
     "this needs a token", REALM},
    {"a wrong one is refused", UPGRADE "Sec-WebSocket-Protocol: bearer." HOUSE_TOKEN "0\r\n", 401,
     "not valid here", REALM ", error=\"invalid_token\""},
    {"an empty one is refused", UPGRADE "Sec-WebSocket-Protocol: bearer.\r\n", 401,
     "cannot be a token", REALM ", error=\"invalid_request\""},
    {"two of them are refused",
     UPGRADE "Sec-WebSocket-Protocol: bearer." HOUSE_TOKEN ", bearer." HOUSE_TOKEN "\r\n", 401,
     "both Authorization", REALM ", error=\"invalid_request\""},
    {"one beside a header is refused",
     UPGRADE BEARER HOUSE_TOKEN "\r\nSec-WebSocket-Protocol: bearer." HOUSE_TOKEN "\r\n", 401,
     "both Authorization", REALM ", error=\"invalid_request\""},
    {"what has the form of a key is refused",
     BEARER "cove_0123456789abcdefghjkmnpqrs_"
            "tvwxyz0123456789abcdefghjkmnpqrstvwxyz0123456789abcd\r\n",
     401, "not valid here", REALM ", error=\"invalid_token\""},
};

static void test_shown(void **state)
{
    const struct shown_case *c = *state;
    struct house h;
    house_open(&h);
    house_load(&h, &house_usual);
    assert_int_equal(house_request_from(&h, "127.0.0.1", "GET /execute", c->headers, NULL),
                     c->status);
    if (c->status == 401) {
        assert_string_equal(house_failure(&h, "code"), "unauthorized");
        assert_non_null(strstr(house_failure(&h, "message"), c->message));
        assert_string_not_equal(house_failure(&h, "hint"), "(none)");
        assert_string_not_equal(house_failure(&h, "request_id"), "(none)");
        assert_true(house_has_header(&h, c->challenge));
        assert_null(strstr(h.text.data, HOUSE_TOKEN));
    }
    house_close(&h);
}

static void test_long(void **state)
{
    (void)state;
    struct house h;
    char token[514];
    house_open(&h);
    memset(token, 'x', sizeof(token));
    token[513] = '\0';
    house_load(&h, &house_usual);
    assert_int_equal(house_get(&h, "/any", token), 401);
    assert_non_null(strstr(house_failure(&h, "message"), "cannot be a token"));
    token[512] = '\0';
    assert_int_equal(house_get(&h, "/any", token), 401);
    assert_non_null(strstr(house_failure(&h, "message"), "not valid here"));
    house_load(&h, &(struct auth_order){.token = token});
    assert_int_equal(house_get(&h, "/any", token), 200);
    house_close(&h);
}

/* --- who may do what -------------------------------------------------------------------------- */

enum { NOBODY, OPERATOR, EXECUTORS, KEY, FILES_KEY, ADMIN_KEY, PEOPLE };

struct door_case {
    const char *name, *path;
    int status[PEOPLE];
    const char *missing; /* for KEY, when that is refused */
};

/* clang-format off */
static const struct door_case door_cases[] = {
    /*                                                nobody oper. intern. key  files admin */
    {"so is one that looks who comes", "/known",        {200, 200, 200, 200, 200, 200}, NULL},
    {"an open door asks nobody", "/open",              {200, 200, 200, 200, 200, 200}, NULL},
    {"one without a scope asks for any key", "/any",   {401, 200, 403, 200, 200, 200}, NULL},
    {"one with a scope asks for it", "/execute",       {401, 200, 403, 200, 403, 200}, NULL},
    {"two scopes are both needed", "/both",            {401, 200, 403, 403, 403, 200}, "sessions:write,files"},
    {"the admin's is the admin's", "/admin",           {401, 200, 403, 403, 403, 200}, "admin"},
    {"keys are their admin's", "/keys",                {401, 200, 403, 403, 403, 200}, "keys:admin"},
    {"the internal one has its own token", "/internal", {401, 403, 200, 403, 403, 403}, "internal"},
};
/* clang-format on */

static void test_door(void **state)
{
    const struct door_case *c = *state;
    struct house h;
    house_open(&h);
    const struct api_key key = house_put_key(&h, (struct store_key){.scopes = "execute"}),
                         files = house_put_key(&h, (struct store_key){.scopes = "files"}),
                         admin = house_put_key(&h, (struct store_key){.scopes = "admin"});
    const char *const secrets[PEOPLE] = {NULL,     HOUSE_TOKEN, HOUSE_INTERNAL,
                                         key.text, files.text,  admin.text};
    house_load(&h, &house_usual);
    for (size_t i = 0; i < PEOPLE; i++) {
        assert_int_equal(house_get(&h, c->path, secrets[i]), c->status[i]);
        if (c->status[i] != 403)
            continue;
        assert_string_equal(house_failure(&h, "code"), "missing_scope");
        assert_non_null(strstr(h.text.data, "error=\"insufficient_scope\""));
        if (i == KEY)
            assert_non_null(strstr(house_failure(&h, "message"), c->missing));
    }
    house_close(&h);
}

static void test_who(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    const struct api_key key = house_put_key(&h, (struct store_key){.scopes = "execute,files"}),
                         admin = house_put_key(&h, (struct store_key){.scopes = "admin"}),
                         revoked = house_put_key(
                             &h, (struct store_key){.scopes = "admin", .revoked_ns = 1});
    house_load(&h, &house_usual);
    house_get(&h, "/any", HOUSE_TOKEN);
    house_assert_who(&h, "", true, "admin");
    house_get(&h, "/internal", HOUSE_INTERNAL);
    house_assert_who(&h, "", true, "internal");
    house_get(&h, "/any", key.text);
    house_assert_who(&h, key.id, false, "execute,files");
    house_get(&h, "/any", admin.text);
    house_assert_who(&h, admin.id, true, "admin");
    house_get(&h, "/known", HOUSE_TOKEN); /* open, but who has a secret is known */
    house_assert_who(&h, "", true, "admin");
    house_get(&h, "/known", key.text);
    house_assert_who(&h, key.id, false, "execute,files");
    house_get(&h, "/known", "wrong");
    house_assert_who(&h, "", false, "");
    house_get(&h, "/known", revoked.text);
    house_assert_who(&h, "", false, "");
    house_get(&h, "/known", NULL);
    house_assert_who(&h, "", false, "");
    house_get(&h, "/open", HOUSE_TOKEN);
    house_assert_who(&h, "", false, "");
    house_close(&h);
}

static void test_no_tokens(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    const struct api_key key = house_put_key(&h, (struct store_key){.scopes = "execute"});
    house_load(&h, &(struct auth_order){0});
    assert_int_equal(house_get(&h, "/any", HOUSE_TOKEN), 401);
    assert_int_equal(house_get(&h, "/internal", HOUSE_INTERNAL), 401);
    assert_int_equal(house_get(&h, "/any", key.text), 200);
    house_close(&h);
}

/* A later program's words give nothing; nor does one that no key can have. */
static void test_strange_scopes(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    const struct api_key later = house_put_key(&h, (struct store_key){.scopes = "execute,fly"}),
                         internal =
                             house_put_key(&h, (struct store_key){.scopes = "execute,internal"});
    house_load(&h, &house_usual);
    assert_int_equal(house_get(&h, "/execute", later.text), 403);
    assert_int_equal(house_get(&h, "/internal", internal.text), 403);
    assert_int_equal(house_get(&h, "/execute", internal.text), 200);
    scoped_free char *log = house_read_log(&h);
    assert_non_null(strstr(log, later.id));
    house_close(&h);
}

/* Only who has the right secret is told more than that it is wrong. */
static void test_over(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    struct api_key expires = house_put_key(
        &h, (struct store_key){.scopes = "execute", .expires_ns = HOUSE_WALL_NS + SECOND});
    struct api_key revoked =
        house_put_key(&h, (struct store_key){.scopes = "execute", .revoked_ns = HOUSE_WALL_NS});
    house_load(&h, &house_usual);
    assert_int_equal(house_get(&h, "/any", revoked.text), 401);
    assert_string_equal(house_failure(&h, "code"), "unauthorized");
    assert_string_equal(house_failure(&h, "message"), "this key has been revoked");
    house_wall_ns = HOUSE_WALL_NS + SECOND - 1;
    assert_int_equal(house_get(&h, "/any", expires.text), 200);
    house_wall_ns++;
    assert_int_equal(house_get(&h, "/any", expires.text), 401);
    assert_string_equal(house_failure(&h, "code"), "unauthorized");
    assert_string_equal(house_failure(&h, "message"), "this key has expired");
    assert_true(house_has_header(&h, REALM ", error=\"invalid_token\""));
    revoked.text[HOUSE_SECRET_AT] = revoked.text[HOUSE_SECRET_AT] == '0' ? '1' : '0';
    expires.text[API_KEY_TEXT_BYTES - 2] ^= 1;
    assert_int_equal(house_get(&h, "/any", revoked.text), 401);
    assert_string_equal(house_failure(&h, "message"), "this token or key is not valid here");
    assert_int_equal(house_get(&h, "/any", expires.text), 401);
    assert_string_equal(house_failure(&h, "message"), "this token or key is not valid here");
    house_close(&h);
}

static void test_pages(void **state)
{
    (void)state;
    enum { MANY = STORE_PAGE_MAX + 50 };
    struct house h;
    static struct api_key keys[MANY];
    struct error err;
    house_open(&h);
    world_begin(&h.world, NULL);
    h.world.waiting = MANY;
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(api_key_make(&keys[i], NULL, &err), 0);
        const struct store_key record = {.id = keys[i].id,
                                         .name = "one of many",
                                         .hash = {keys[i].hash, SHA256_BYTES},
                                         .scopes = "execute",
                                         .created_ns = HOUSE_WALL_NS + (int64_t)(i / 7)};
        store_add_key(h.world.store, &record, world_on_answer, &h.world);
    }
    world_wait(&h.world);
    house_load(&h, &house_usual);
    assert_int_equal(house_get(&h, "/any", keys[0].text), 200);
    assert_int_equal(house_get(&h, "/any", keys[MANY / 2].text), 200);
    assert_int_equal(house_get(&h, "/any", keys[MANY - 1].text), 200);
    house_close(&h);
}

/* However near a secret comes, it is house_compared as often, and by the function that takes the
 * same time wherever two differ. */
static void test_constant_time(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    const struct api_key key = house_put_key(&h, (struct store_key){.scopes = "execute"}),
                         revoked = house_put_key(
                             &h, (struct store_key){.scopes = "admin", .revoked_ns = 1});
    struct api_key near = key, other;
    struct error err;
    near.text[API_KEY_TEXT_BYTES - 2] ^= 1;
    assert_int_equal(api_key_make(&other, NULL, &err), 0);
    house_load(&h, &house_usual);
    const char *const secrets[] = {HOUSE_TOKEN,  HOUSE_INTERNAL, "x",         key.text,
                                   revoked.text, other.text,     HOUSE_SHORT, near.text};
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
        house_compared = 0;
        house_get(&h, "/any", secrets[i]);
        assert_int_equal(house_compared, 3);
    }
    house_close(&h);
}

struct token_case {
    const char *name, *token, *internal;
    const char *message;
};

static const struct token_case token_cases[] = {
    {"an empty token is refused", "", HOUSE_INTERNAL, "token: must have"},
    {"a token with a blank is refused", "two words", NULL, "token: must have"},
    {"one with a line end is refused", "token\n", NULL, "token: must have"},
    {"one that is no ASCII is refused", "t\xc3\xbcr", NULL, "token: must have"},
    {"an empty internal one is refused", HOUSE_TOKEN, "", "internal token: must have"},
    {"the same one twice is refused", HOUSE_TOKEN, HOUSE_TOKEN, "internal token: must not be"},
};

static void test_token(void **state)
{
    const struct token_case *c = *state;
    struct auth *auth = NULL;
    struct error err;
    const struct auth_order order = {.token = c->token, .internal_token = c->internal};
    assert_int_equal(auth_open(&auth, &order, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
    assert_memory_equal(err.msg, c->message, strlen(c->message));
    assert_true(c->token[0] == '\0' || !strstr(err.msg, c->token));
    assert_null(auth);
}

/* --- this machine ----------------------------------------------------------------------------- */

struct local_case {
    const char *name;
    bool trusts;
    const char *headers;
    int status;
};

static const struct local_case local_cases[] = {
    {"without the option this machine has no privilege", false, "", 401},
    {"with it nothing needs to be shown", true, "", 200},
    {"a token still counts", true, BEARER HOUSE_TOKEN "\r\n", 200},
    {"a wrong one is still wrong", true, BEARER "wrong\r\n", 401},
    {"what a proxy passes on is not from here", true, "X-Forwarded-For: 192.0.2.1\r\n", 401},
    {"nor with the header of RFC 7239", true, "Forwarded: for=192.0.2.1\r\n", 401},
    {"nor with nginx's", true, "X-Real-IP: 192.0.2.1\r\n", 401},
    {"nor with what proxies call themselves", true, "Via: 1.1 proxy\r\n", 401},
};

static void test_local(void **state)
{
    const struct local_case *c = *state;
    struct house h;
    struct auth_order order = house_usual;
    house_open(&h);
    order.trusts_loopback = c->trusts;
    house_load(&h, &order);
    assert_int_equal(house_request_from(&h, "127.0.0.1", "GET /api/v1/admin", c->headers, NULL),
                     c->status);
    assert_int_equal(house_request_from(&h, "127.0.0.9", "GET /api/v1/internal", c->headers, NULL),
                     c->status == 200 ? 403 : c->status);
    house_close(&h);
}

/* --- last used -------------------------------------------------------------------------------- */

static int64_t last_used(struct house *h, const char *id)
{
    const struct store_name name = {.id = id};
    house_put_key(h,
                  (struct store_key){.scopes = "files"}); /* what was written before it is there */
    ask_for(&h->world, key, store_get_key, &name);
    assert_done(&h->world);
    return row(&h->world, key, 0)->last_used_ns;
}

static void test_last_used(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    struct store_info before, after;
    const struct api_key key = house_put_key(&h, (struct store_key){.scopes = "execute"});
    house_load(&h, &house_usual);
    assert_int_equal(last_used(&h, key.id), 0);
    house_get(&h, "/any", key.text);
    assert_int_equal(last_used(&h, key.id), HOUSE_WALL_NS);
    store_get_info(h.world.store, &before);
    for (int i = 0; i < 59; i++) {
        house_pass_time(SECOND);
        house_get(&h, "/any", key.text);
    }
    store_get_info(h.world.store, &after);
    assert_int_equal(before.written, after.written);
    house_pass_time(SECOND);
    house_get(&h, "/any", key.text);
    assert_int_equal(last_used(&h, key.id), HOUSE_WALL_NS + 60 * SECOND);
    house_close(&h);
}

/* --- what is open for a key ------------------------------------------------------------------- */

#define KEYS "/api/v1/keys"

struct watcher {
    struct auth_watch *watch, *other;
    int told;
};

static void on_told(void *ctx)
{
    struct watcher *w = ctx;
    w->told++;
    auth_watch_free(take_ptr(&w->watch));
    auth_watch_free(take_ptr(&w->other));
}

static void on_told_and_kept(void *ctx)
{
    struct watcher *w = ctx;
    w->told++;
}

/* What is open for a key is told when that key is revoked, once; each may end itself and others. */
static void test_watch(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    const struct api_key key = house_put_key(&h, (struct store_key){.scopes = "execute"}),
                         other = house_put_key(&h, (struct store_key){.scopes = "execute"});
    house_load(&h, &house_usual);
    struct auth *a = h.api.auth;
    struct watcher of[6] = {0};
    assert_non_null(of[5].watch = auth_watch_new(a, key.id, on_told_and_kept, &of[5]));
    for (size_t i = 0; i < 4; i++)
        assert_non_null(of[i].watch = auth_watch_new(a, key.id, on_told, &of[i]));
    assert_non_null(of[4].watch = auth_watch_new(a, other.id, on_told, &of[4]));
    assert_null(auth_watch_new(a, "", on_told, NULL));
    auth_watch_free(take_ptr(&of[1].watch));
    of[3].other = take_ptr(&of[2].watch); /* the one that is told first ends another */
    scoped_free char *line = xasprintf("DELETE " KEYS "/%s", key.id);
    assert_int_equal(house_request(&h, line, HOUSE_TOKEN, NULL), 200);
    assert_int_equal(house_request(&h, line, HOUSE_TOKEN, NULL), 200);
    const int told[] = {1, 0, 0, 1, 0, 1};
    for (size_t i = 0; i < ARRAY_LEN(told); i++)
        assert_int_equal(of[i].told, told[i]);
    auth_watch_free(of[4].watch);
    auth_watch_free(of[5].watch);
    auth_watch_free(NULL);
    house_close(&h);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, shown_cases, test_shown);
    check_one(&check, "a token has 512 characters at most", test_long);
    check_rows(&check, door_cases, test_door);
    check_one(&check, "handlers learn who it is", test_who);
    check_one(&check, "without tokens there are only keys", test_no_tokens);
    check_one(&check, "scopes that nobody knows give nothing", test_strange_scopes);
    check_one(&check, "keys expire and are revoked", test_over);
    check_one(&check, "all pages of keys are read", test_pages);
    check_one(&check, "each secret is compared three times", test_constant_time);
    check_rows(&check, token_cases, test_token);
    check_rows(&check, local_cases, test_local);
    check_one(&check, "the store learns once a minute that a key is used", test_last_used);
    check_one(&check, "streams are told when their key is revoked", test_watch);
    return check_run(&check, "auth");
}
