/* test_auth.c - who gets in, by what, and how often; and what becomes of keys
 *
 * A real store and a real server on the loopback address, with a few routes of the test's own and
 * those of /keys. Both clocks stand still unless a test turns them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth_inside.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/routes.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "core/api_key.h"
#include "http/http_server.h"
#include "store_world.h"

#define SECOND    1000000000ll
#define TOKEN     "operator-token-0123456789"
#define INTERNAL  "internal-token-0123456789"
#define SHORT     "guess-me"
#define BEARER    "Authorization: Bearer "
#define UPGRADE   "Connection: Upgrade\r\nUpgrade: websocket\r\n"
#define WALL_NS   (1800000000 * SECOND)
#define ANSWER    (1 * MIB)
#define SECRET_AT 32 /* of the text of a key: what is before it is public */

/* --- time, and how often secrets are compared ------------------------------------------------- */

static int64_t now_ns, wall_ns;
static size_t compared;

int64_t __wrap_clock_now_ns(void);
int64_t __wrap_clock_wall_ns(void);
int __wrap_CRYPTO_memcmp(const void *a, const void *b, size_t len);
int __real_CRYPTO_memcmp(const void *a, const void *b, size_t len);

int64_t __wrap_clock_now_ns(void)
{
    return now_ns;
}

int64_t __wrap_clock_wall_ns(void)
{
    return wall_ns;
}

int __wrap_CRYPTO_memcmp(const void *a, const void *b, size_t len)
{
    assert_int_equal(len, SHA256_BYTES);
    compared++;
    return __real_CRYPTO_memcmp(a, b, len);
}

static void pass_time(int64_t ns)
{
    now_ns += ns;
    wall_ns += ns;
}

/* --- routes ----------------------------------------------------------------------------------- */

/* Tells who was let in. */
static void on_who(struct api_call *call)
{
    char words[SCOPE_TEXT_BYTES];
    scope_format(api_scopes(call), words);
    api_answer(call, 200,
               json_pack("{s:s, s:b, s:s}", "owner", api_caller(call)->owner, "sees_all",
                         (int)api_caller(call)->sees_all, "scopes", words));
}

static const struct api_reply replies[] = {{200, NULL, NULL, ""}, {0}};
#define ROW(path, needs, how)                                                                      \
    {                                                                                              \
        .method = METHOD_GET, .pattern = (path), .scope = (needs), .flags = (how),                 \
        .handler = on_who, .id = (path), .replies = replies                                        \
    }
static const struct api_route rows[] = {
    ROW("/open", SCOPE_ADMIN, API_OPEN),
    ROW("/known", SCOPE_ADMIN, API_OPEN | API_KNOWS),
    ROW("/any", 0, 0),
    ROW("/execute", SCOPE_EXECUTE, API_AT_ROOT),
    ROW("/both", SCOPE_FILES | SCOPE_SESSIONS_WRITE, 0),
    ROW("/admin", SCOPE_ADMIN, 0),
    ROW("/internal", SCOPE_INTERNAL, 0),
};
static const struct api_group test_group = {rows, ARRAY_LEN(rows)};
const struct api_group *const api_groups[] = {&test_group, &rest_key_group, NULL};

/* --- a server --------------------------------------------------------------------------------- */

struct house {
    struct world world;
    struct log log;
    struct api api;
    struct api_server server;
    struct api_table *table;
    struct http_server *http;
    bool is_loaded;
    struct error err;    /* of the load */
    struct strbuf shown; /* secrets, one per line: none may be in the log */
    /* the last answer */
    struct strbuf text;
    struct loop_watch *watch;
    int fd;
    int status;
    json_t *body;
};

static void on_loaded(void *ctx, const struct error *err)
{
    struct house *h = ctx;
    h->is_loaded = !err;
    if (err)
        h->err = *err;
    loop_stop(h->world.loop);
}

static void load(struct house *h, const struct auth_order *order)
{
    struct error err;
    struct auth_order own = *order;
    own.store = h->world.store;
    own.log = &h->log;
    auth_free(take_ptr(&h->api.auth));
    h->is_loaded = false;
    if (auth_open(&h->api.auth, &own, &err) < 0)
        fail_msg("%s", err.msg);
    auth_load(h->api.auth, on_loaded, h);
    loop_run(h->world.loop);
    assert_true(h->is_loaded);
}

static const struct auth_order usual = {.token = TOKEN, .internal_token = INTERNAL};

static void open_server(struct house *h)
{
    struct error err;
    size_t count;
    h->table = api_table_new();
    h->server = (struct api_server){&h->api, h->table};
    const struct route *routes = api_table_routes(h->table, &count);
    assert_null(route_check(routes, count));
    const struct http_server_config config = {
        .routes = routes, .route_count = count, .ctx = &h->server, .authorize = auth_authorize};
    assert_int_equal(http_server_open(&h->http, h->world.loop, &config, &err), 0);
    assert_int_equal(
        http_server_listen(h->http, &(struct http_listen){.address = "127.0.0.1"}, &err), 0);
}

static void open_house(struct house *h)
{
    now_ns = 1000 * SECOND;
    wall_ns = WALL_NS;
    *h = (struct house){.fd = -1};
    world_open(&h->world);
    h->log = (struct log){.fd = memfd_create("log", MFD_CLOEXEC), .level = LOG_LEVEL_DEBUG};
    h->api = (struct api){
        .loop = h->world.loop, .log = &h->log, .store = h->world.store, .node = "here", .epoch = 2};
    strbuf_init(&h->text, ANSWER);
    strbuf_init(&h->shown, ANSWER);
    strbuf_add_str(&h->shown, TOKEN "\n" INTERNAL "\n" SHORT "\n");
    open_server(h);
}

/* What must not be in the log. */
static void note_secret(struct house *h, const char *text)
{
    strbuf_add_str(&h->shown, text);
    strbuf_add_char(&h->shown, '\n');
}

static char *read_log(struct house *h)
{
    off_t len = lseek(h->log.fd, 0, SEEK_END);
    char *text = xcalloc(1, (size_t)len + 1);
    assert_int_equal(pread(h->log.fd, text, (size_t)len, 0), len);
    return text;
}

static void check_log(struct house *h)
{
    scoped_free char *log = read_log(h);
    for (char *secret = h->shown.data, *end; (end = strchr(secret, '\n')); secret = end + 1) {
        *end = '\0';
        assert_null(strstr(log, secret));
    }
}

static void close_house(struct house *h)
{
    check_log(h);
    http_server_free(h->http);
    api_table_free(h->table);
    auth_free(h->api.auth);
    json_decref(h->body);
    strbuf_release(&h->text);
    strbuf_release(&h->shown);
    close(h->log.fd);
    world_close(&h->world);
}

/* --- a client --------------------------------------------------------------------------------- */

static void on_bytes(void *ctx, unsigned events)
{
    struct house *h = ctx;
    char bytes[4096];
    ssize_t len = read(h->fd, bytes, sizeof(bytes));
    (void)events;
    if (len > 0)
        strbuf_add(&h->text, bytes, (size_t)len);
    if (len == 0)
        loop_stop(h->world.loop);
}

static int reach(const struct house *h, const char *from)
{
    struct sockaddr_in own = {.sin_family = AF_INET}, there = own;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, from, &own.sin_addr);
    inet_pton(AF_INET, "127.0.0.1", &there.sin_addr);
    there.sin_port = htons(http_server_port(h->http));
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&there, sizeof(there)), 0);
    return fd;
}

static void read_answer(struct house *h)
{
    struct error err;
    const struct json_limits limits = {.max_bytes = ANSWER};
    char *body = strstr(strbuf_str(&h->text), "\r\n\r\n");
    assert_non_null(body);
    assert_int_equal(sscanf(h->text.data, "HTTP/1.1 %d ", &h->status), 1);
    assert_int_equal(json_parse(&h->body, body + 4, strlen(body + 4), &limits, &err), 0);
}

/* `headers`: lines with their ends; `body` NULL: none. Answers the status. */
static int request_from(struct house *h, const char *from, const char *line, const char *headers,
                        const char *body)
{
    struct error err;
    scoped_free char *text =
        xasprintf("%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s%s%zu\r\n\r\n%s", line,
                  headers, body ? "Content-Type: application/json\r\nContent-Length: " : "X: ",
                  body ? strlen(body) : 0, body ? body : "");
    strbuf_clear(&h->text);
    json_decref(take_ptr(&h->body));
    h->fd = reach(h, from);
    assert_int_equal(write(h->fd, text, strlen(text)), strlen(text));
    assert_int_equal(loop_watch_new(&h->watch, h->world.loop, h->fd, LOOP_READ, on_bytes, h, &err),
                     0);
    loop_run(h->world.loop);
    loop_watch_free(h->watch);
    close(h->fd);
    read_answer(h);
    return h->status;
}

static int request(struct house *h, const char *line, const char *secret, const char *body)
{
    scoped_free char *header = secret ? xasprintf(BEARER "%s\r\n", secret) : xstrdup("");
    return request_from(h, "127.0.0.1", line, header, body);
}

static int get(struct house *h, const char *path, const char *secret)
{
    scoped_free char *line = xasprintf("GET /api/v1%s", path);
    return request(h, line, secret, NULL);
}

static const char *word(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "(none)";
}

static const char *failure(const struct house *h, const char *name)
{
    return word(json_object_get(h->body, "error"), name);
}

static bool has_header(const struct house *h, const char *line)
{
    scoped_free char *whole = xasprintf("\r\n%s\r\n", line);
    return strstr(h->text.data, whole);
}

/* A key in the store, as an earlier process has left it. */
static struct api_key put_key(struct house *h, struct store_key record)
{
    struct api_key key;
    struct error err;
    assert_int_equal(api_key_make(&key, NULL, &err), 0);
    record.id = key.id;
    record.hash = (struct store_blob){key.hash, sizeof(key.hash)};
    record.name = record.name ? record.name : "a name";
    record.created_ns = record.created_ns ? record.created_ns : WALL_NS;
    ask(&h->world, store_add_key, &record);
    assert_done(&h->world);
    note_secret(h, key.text + SECRET_AT);
    return key;
}

/* --- what is shown ---------------------------------------------------------------------------- */

struct shown_case {
    const char *name, *headers;
    int status;
    const char *message, *challenge;
};

#define REALM "WWW-Authenticate: Bearer realm=\"cove\""

static const struct shown_case shown_cases[] = {
    {"nothing is refused", "", 401, "this needs a token", REALM},
    {"the token opens", BEARER TOKEN "\r\n", 200, NULL, NULL},
    {"the scheme has any case, and blanks", "Authorization: bEARER   " TOKEN "\r\n", 200, NULL,
     NULL},
    {"X-API-Key opens", "X-API-Key: " TOKEN "\r\n", 200, NULL, NULL},
    {"one letter less is refused", BEARER "operator-token-012345678\r\n", 401, "not valid here",
     REALM ", error=\"invalid_token\""},
    {"one letter more is refused", BEARER TOKEN "0\r\n", 401, "not valid here",
     REALM ", error=\"invalid_token\""},
    {"other case is refused", BEARER "Operator-token-0123456789\r\n", 401, "not valid here",
     REALM ", error=\"invalid_token\""},
    {"another scheme is refused", "Authorization: Basic " TOKEN "\r\n", 401, "of the kind 'Bearer'",
     REALM ", error=\"invalid_request\""},
    {"no scheme is refused", "Authorization: " TOKEN "\r\n", 401, "of the kind 'Bearer'",
     REALM ", error=\"invalid_request\""},
    {"a longer scheme is refused", "Authorization: Bearers " TOKEN "\r\n", 401,
     "of the kind 'Bearer'", REALM ", error=\"invalid_request\""},
    {"a scheme alone is refused", "Authorization: Bearer\r\n", 401, "cannot be a token",
     REALM ", error=\"invalid_request\""},
    {"an empty header is refused", "Authorization:\r\n", 401, "of the kind 'Bearer'",
     REALM ", error=\"invalid_request\""},
    {"an empty key is refused", "X-API-Key:\r\n", 401, "cannot be a token",
     REALM ", error=\"invalid_request\""},
    {"two words are refused", BEARER TOKEN " x\r\n", 401, "cannot be a token",
     REALM ", error=\"invalid_request\""},
    {"a tab is refused", BEARER "\t" TOKEN "\r\n", 401, "cannot be a token",
     REALM ", error=\"invalid_request\""},
    {"both headers are refused", BEARER TOKEN "\r\nX-API-Key: " TOKEN "\r\n", 401,
     "both Authorization and X-API-Key", REALM ", error=\"invalid_request\""},
    {"a protocol opens where a WebSocket is asked for",
     UPGRADE "Sec-WebSocket-Protocol: cove.terminal, bearer." TOKEN "\r\n", 200, NULL, NULL},
    {"in any place", UPGRADE "Sec-WebSocket-Protocol: bearer." TOKEN " ,cove.terminal\r\n", 200,
     NULL, NULL},
    {"elsewhere it says nothing", "Sec-WebSocket-Protocol: bearer." TOKEN "\r\n", 401,
     "this needs a token", REALM},
    {"a protocol that is no token says nothing",
     UPGRADE "Sec-WebSocket-Protocol: cove.terminal, xbearer." TOKEN "\r\n", 401,
     "this needs a token", REALM},
    {"a wrong one is refused", UPGRADE "Sec-WebSocket-Protocol: bearer." TOKEN "0\r\n", 401,
     "not valid here", REALM ", error=\"invalid_token\""},
    {"an empty one is refused", UPGRADE "Sec-WebSocket-Protocol: bearer.\r\n", 401,
     "cannot be a token", REALM ", error=\"invalid_request\""},
    {"two of them are refused",
     UPGRADE "Sec-WebSocket-Protocol: bearer." TOKEN ", bearer." TOKEN "\r\n", 401,
     "both Authorization", REALM ", error=\"invalid_request\""},
    {"one beside a header is refused",
     UPGRADE BEARER TOKEN "\r\nSec-WebSocket-Protocol: bearer." TOKEN "\r\n", 401,
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
    open_house(&h);
    load(&h, &usual);
    assert_int_equal(request_from(&h, "127.0.0.1", "GET /execute", c->headers, NULL), c->status);
    if (c->status == 401) {
        assert_string_equal(failure(&h, "code"), "unauthorized");
        assert_non_null(strstr(failure(&h, "message"), c->message));
        assert_string_not_equal(failure(&h, "hint"), "(none)");
        assert_string_not_equal(failure(&h, "request_id"), "(none)");
        assert_true(has_header(&h, c->challenge));
        assert_null(strstr(h.text.data, TOKEN));
    }
    close_house(&h);
}

static void test_long(void **state)
{
    (void)state;
    struct house h;
    char token[514];
    open_house(&h);
    memset(token, 'x', sizeof(token));
    token[513] = '\0';
    load(&h, &usual);
    assert_int_equal(get(&h, "/any", token), 401);
    assert_non_null(strstr(failure(&h, "message"), "cannot be a token"));
    token[512] = '\0';
    assert_int_equal(get(&h, "/any", token), 401);
    assert_non_null(strstr(failure(&h, "message"), "not valid here"));
    load(&h, &(struct auth_order){.token = token});
    assert_int_equal(get(&h, "/any", token), 200);
    close_house(&h);
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
    open_house(&h);
    const struct api_key key = put_key(&h, (struct store_key){.scopes = "execute"}),
                         files = put_key(&h, (struct store_key){.scopes = "files"}),
                         admin = put_key(&h, (struct store_key){.scopes = "admin"});
    const char *const secrets[PEOPLE] = {NULL, TOKEN, INTERNAL, key.text, files.text, admin.text};
    load(&h, &usual);
    for (size_t i = 0; i < PEOPLE; i++) {
        assert_int_equal(get(&h, c->path, secrets[i]), c->status[i]);
        if (c->status[i] != 403)
            continue;
        assert_string_equal(failure(&h, "code"), "missing_scope");
        assert_non_null(strstr(h.text.data, "error=\"insufficient_scope\""));
        if (i == KEY)
            assert_non_null(strstr(failure(&h, "message"), c->missing));
    }
    close_house(&h);
}

static void assert_who(const struct house *h, const char *owner, bool sees_all, const char *scopes)
{
    assert_int_equal(h->status, 200);
    assert_string_equal(word(h->body, "owner"), owner);
    assert_int_equal(json_is_true(json_object_get(h->body, "sees_all")), sees_all);
    assert_string_equal(word(h->body, "scopes"), scopes);
}

static void test_who(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    const struct api_key key = put_key(&h, (struct store_key){.scopes = "execute,files"}),
                         admin = put_key(&h, (struct store_key){.scopes = "admin"}),
                         revoked =
                             put_key(&h, (struct store_key){.scopes = "admin", .revoked_ns = 1});
    load(&h, &usual);
    get(&h, "/any", TOKEN);
    assert_who(&h, "", true, "admin");
    get(&h, "/internal", INTERNAL);
    assert_who(&h, "", true, "internal");
    get(&h, "/any", key.text);
    assert_who(&h, key.id, false, "execute,files");
    get(&h, "/any", admin.text);
    assert_who(&h, admin.id, true, "admin");
    get(&h, "/known", TOKEN); /* open, but who has a secret is known */
    assert_who(&h, "", true, "admin");
    get(&h, "/known", key.text);
    assert_who(&h, key.id, false, "execute,files");
    get(&h, "/known", "wrong");
    assert_who(&h, "", false, "");
    get(&h, "/known", revoked.text);
    assert_who(&h, "", false, "");
    get(&h, "/known", NULL);
    assert_who(&h, "", false, "");
    get(&h, "/open", TOKEN);
    assert_who(&h, "", false, "");
    close_house(&h);
}

static void test_no_tokens(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    const struct api_key key = put_key(&h, (struct store_key){.scopes = "execute"});
    load(&h, &(struct auth_order){0});
    assert_int_equal(get(&h, "/any", TOKEN), 401);
    assert_int_equal(get(&h, "/internal", INTERNAL), 401);
    assert_int_equal(get(&h, "/any", key.text), 200);
    close_house(&h);
}

/* A later program's words give nothing; nor does one that no key can have. */
static void test_strange_scopes(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    const struct api_key later = put_key(&h, (struct store_key){.scopes = "execute,fly"}),
                         internal = put_key(&h, (struct store_key){.scopes = "execute,internal"});
    load(&h, &usual);
    assert_int_equal(get(&h, "/execute", later.text), 403);
    assert_int_equal(get(&h, "/internal", internal.text), 403);
    assert_int_equal(get(&h, "/execute", internal.text), 200);
    scoped_free char *log = read_log(&h);
    assert_non_null(strstr(log, later.id));
    close_house(&h);
}

/* Only who has the right secret is told more than that it is wrong. */
static void test_over(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    struct api_key expires =
        put_key(&h, (struct store_key){.scopes = "execute", .expires_ns = WALL_NS + SECOND});
    struct api_key revoked =
        put_key(&h, (struct store_key){.scopes = "execute", .revoked_ns = WALL_NS});
    load(&h, &usual);
    assert_int_equal(get(&h, "/any", revoked.text), 401);
    assert_string_equal(failure(&h, "code"), "unauthorized");
    assert_string_equal(failure(&h, "message"), "this key has been revoked");
    wall_ns = WALL_NS + SECOND - 1;
    assert_int_equal(get(&h, "/any", expires.text), 200);
    wall_ns++;
    assert_int_equal(get(&h, "/any", expires.text), 401);
    assert_string_equal(failure(&h, "code"), "unauthorized");
    assert_string_equal(failure(&h, "message"), "this key has expired");
    assert_true(has_header(&h, REALM ", error=\"invalid_token\""));
    revoked.text[SECRET_AT] = revoked.text[SECRET_AT] == '0' ? '1' : '0';
    expires.text[API_KEY_TEXT_BYTES - 2] ^= 1;
    assert_int_equal(get(&h, "/any", revoked.text), 401);
    assert_string_equal(failure(&h, "message"), "this token or key is not valid here");
    assert_int_equal(get(&h, "/any", expires.text), 401);
    assert_string_equal(failure(&h, "message"), "this token or key is not valid here");
    close_house(&h);
}

static void test_pages(void **state)
{
    (void)state;
    enum { MANY = STORE_PAGE_MAX + 50 };
    struct house h;
    static struct api_key keys[MANY];
    struct error err;
    open_house(&h);
    world_begin(&h.world, NULL);
    h.world.waiting = MANY;
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(api_key_make(&keys[i], NULL, &err), 0);
        const struct store_key record = {.id = keys[i].id,
                                         .name = "one of many",
                                         .hash = {keys[i].hash, SHA256_BYTES},
                                         .scopes = "execute",
                                         .created_ns = WALL_NS + (int64_t)(i / 7)};
        store_add_key(h.world.store, &record, world_on_answer, &h.world);
    }
    world_wait(&h.world);
    load(&h, &usual);
    assert_int_equal(get(&h, "/any", keys[0].text), 200);
    assert_int_equal(get(&h, "/any", keys[MANY / 2].text), 200);
    assert_int_equal(get(&h, "/any", keys[MANY - 1].text), 200);
    close_house(&h);
}

/* However near a secret comes, it is compared as often, and by the function that takes the same
 * time wherever two differ. */
static void test_constant_time(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    const struct api_key key = put_key(&h, (struct store_key){.scopes = "execute"}),
                         revoked =
                             put_key(&h, (struct store_key){.scopes = "admin", .revoked_ns = 1});
    struct api_key near = key, other;
    struct error err;
    near.text[API_KEY_TEXT_BYTES - 2] ^= 1;
    assert_int_equal(api_key_make(&other, NULL, &err), 0);
    load(&h, &usual);
    const char *const secrets[] = {TOKEN,        INTERNAL,   "x",   key.text,
                                   revoked.text, other.text, SHORT, near.text};
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
        compared = 0;
        get(&h, "/any", secrets[i]);
        assert_int_equal(compared, 3);
    }
    close_house(&h);
}

struct token_case {
    const char *name, *token, *internal;
    const char *message;
};

static const struct token_case token_cases[] = {
    {"an empty token is refused", "", INTERNAL, "token: must have"},
    {"a token with a blank is refused", "two words", NULL, "token: must have"},
    {"one with a line end is refused", "token\n", NULL, "token: must have"},
    {"one that is no ASCII is refused", "t\xc3\xbcr", NULL, "token: must have"},
    {"an empty internal one is refused", TOKEN, "", "internal token: must have"},
    {"the same one twice is refused", TOKEN, TOKEN, "internal token: must not be"},
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
    {"a token still counts", true, BEARER TOKEN "\r\n", 200},
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
    struct auth_order order = usual;
    open_house(&h);
    order.trusts_loopback = c->trusts;
    load(&h, &order);
    assert_int_equal(request_from(&h, "127.0.0.1", "GET /api/v1/admin", c->headers, NULL),
                     c->status);
    assert_int_equal(request_from(&h, "127.0.0.9", "GET /api/v1/internal", c->headers, NULL),
                     c->status == 200 ? 403 : c->status);
    close_house(&h);
}

/* --- how often -------------------------------------------------------------------------------- */

static void test_rate(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    const struct api_key slow = put_key(
                             &h, (struct store_key){.scopes = "execute", .rate_per_minute = 6}),
                         quick = put_key(&h, (struct store_key){.scopes = "execute"});
    load(&h, &usual);
    assert_int_equal(get(&h, "/any", slow.text), 200);
    assert_true(has_header(&h, "RateLimit-Limit: 2") && has_header(&h, "RateLimit-Remaining: 1") &&
                has_header(&h, "RateLimit-Reset: 10"));
    assert_int_equal(get(&h, "/admin", slow.text), 403); /* what it may not do counts as well */
    assert_true(has_header(&h, "RateLimit-Remaining: 0"));
    assert_int_equal(get(&h, "/any", slow.text), 429);
    assert_string_equal(failure(&h, "code"), "rate_limited");
    assert_true(has_header(&h, "Retry-After: 10") && has_header(&h, "RateLimit-Remaining: 0"));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(get(&h, "/any", quick.text), 200);
        assert_null(strstr(h.text.data, "RateLimit"));
    }
    assert_int_equal(get(&h, "/open", slow.text), 200);
    pass_time(10 * SECOND - 1);
    assert_int_equal(get(&h, "/any", slow.text), 429);
    assert_true(has_header(&h, "Retry-After: 1"));
    pass_time(1);
    assert_int_equal(get(&h, "/any", slow.text), 200);
    close_house(&h);
}

static void test_usual_rate(void **state)
{
    (void)state;
    struct house h;
    struct auth_order order = usual;
    open_house(&h);
    order.keys = (struct rate_rule){.per_minute = 60, .burst = 1};
    const struct api_key own = put_key(
                             &h, (struct store_key){.scopes = "execute", .rate_per_minute = 600}),
                         other = put_key(&h, (struct store_key){.scopes = "execute"});
    load(&h, &order);
    assert_int_equal(get(&h, "/any", other.text), 200);
    assert_int_equal(get(&h, "/any", other.text), 429);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(get(&h, "/any", own.text), 200);
        assert_int_equal(get(&h, "/any", TOKEN), 200);
    }
    close_house(&h);
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
    while (get(h, "/any", "wrong") == 401)
        ;
    assert_int_equal(h->status, 429);
}

static void test_guesses(void **state)
{
    (void)state;
    struct house h;
    struct auth_order order = usual;
    open_house(&h);
    order.failures = (struct rate_rule){.per_minute = 6, .burst = 3};
    const struct api_key key = put_key(&h, (struct store_key){.scopes = "execute"}),
                         over = put_key(&h, (struct store_key){.scopes = "admin", .revoked_ns = 1});
    load(&h, &order);
    for (int i = 0; i < 10; i++)
        assert_int_equal(get(&h, "/any", NULL), 401); /* no guess */
    assert_int_equal(get(&h, "/any", "wrong"), 401);
    assert_int_equal(get(&h, "/any", over.text), 401);
    assert_int_equal(request_from(&h, "127.0.0.1", "GET /execute", "X-API-Key:\r\n", NULL), 401);
    assert_int_equal(get(&h, "/any", "wrong"), 429);
    assert_string_equal(failure(&h, "code"), "rate_limited");
    assert_true(has_header(&h, "Retry-After: 10"));
    assert_int_equal(get(&h, "/any", over.text), 429);
    assert_int_equal(get(&h, "/any", NULL), 401);
    /* who has the right one is not locked out */
    assert_int_equal(get(&h, "/any", TOKEN), 200);
    assert_int_equal(get(&h, "/internal", INTERNAL), 200);
    assert_int_equal(get(&h, "/any", key.text), 200);
    /* nor does another address notice */
    assert_int_equal(request_from(&h, "127.0.0.2", "GET /execute", BEARER "wrong\r\n", NULL), 401);
    pass_time(10 * SECOND);
    assert_int_equal(get(&h, "/any", "wrong"), 401);
    assert_int_equal(get(&h, "/any", "wrong"), 429);
    close_house(&h);
}

/* The answer to the right guess is the same as to a wrong one. */
static void test_short_token(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    load(&h, &(struct auth_order){.token = SHORT});
    for (int i = 0; i < 50; i++)
        assert_int_equal(get(&h, "/any", SHORT), 200);
    spend_tries(&h);
    scoped_free char *wrong = xstrdup(failure(&h, "message"));
    assert_int_equal(get(&h, "/any", SHORT), 429);
    assert_string_equal(failure(&h, "message"), wrong);
    assert_int_equal(request_from(&h, "127.0.0.2", "GET /execute", BEARER SHORT "\r\n", NULL), 200);
    pass_time(2 * SECOND);
    assert_int_equal(get(&h, "/any", SHORT), 200);
    scoped_free char *log = read_log(&h);
    assert_non_null(strstr(log, "short enough to be guessed"));
    close_house(&h);
}

/* Nor does an open door tell, which knows who has the right one. */
static void test_open_guesses(void **state)
{
    (void)state;
    struct house h;
    struct auth_order order = {.token = SHORT, .failures = {.per_minute = 6, .burst = 3}};
    open_house(&h);
    load(&h, &order);
    for (int i = 0; i < 3; i++) {
        get(&h, "/known", SHORT);
        assert_who(&h, "", true, "admin");
        get(&h, "/known", "wrong");
        assert_who(&h, "", false, "");
    }
    get(&h, "/known", SHORT);
    assert_who(&h, "", false, "");
    close_house(&h);
}

/* Each refusal is told to the operator, until they come too often. */
static void test_log(void **state)
{
    (void)state;
    struct house h;
    struct auth_order order = usual;
    open_house(&h);
    order.failures = (struct rate_rule){.per_minute = 1, .burst = 4};
    load(&h, &order);
    note_secret(&h, "wrong");
    for (int i = 0; i < 20; i++)
        get(&h, "/any", "wrong");
    scoped_free char *log = read_log(&h);
    size_t lines = 0;
    for (const char *at = log; (at = strstr(at, "a token was refused")); at++)
        lines++;
    assert_int_equal(lines, 4);
    assert_non_null(strstr(log, "\"peer\":\"127.0.0.1\""));
    close_house(&h);
}

/* --- last used -------------------------------------------------------------------------------- */

static int64_t last_used(struct house *h, const char *id)
{
    const struct store_name name = {.id = id};
    put_key(h, (struct store_key){.scopes = "files"}); /* what was written before it is there */
    ask_for(&h->world, key, store_get_key, &name);
    assert_done(&h->world);
    return row(&h->world, key, 0)->last_used_ns;
}

static void test_last_used(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    struct store_info before, after;
    const struct api_key key = put_key(&h, (struct store_key){.scopes = "execute"});
    load(&h, &usual);
    assert_int_equal(last_used(&h, key.id), 0);
    get(&h, "/any", key.text);
    assert_int_equal(last_used(&h, key.id), WALL_NS);
    store_get_info(h.world.store, &before);
    for (int i = 0; i < 59; i++) {
        pass_time(SECOND);
        get(&h, "/any", key.text);
    }
    store_get_info(h.world.store, &after);
    assert_int_equal(before.written, after.written);
    pass_time(SECOND);
    get(&h, "/any", key.text);
    assert_int_equal(last_used(&h, key.id), WALL_NS + 60 * SECOND);
    close_house(&h);
}

/* --- /keys ------------------------------------------------------------------------------------ */

#define KEYS "/api/v1/keys"

static int post_key(struct house *h, const char *secret, const char *headers, const char *body)
{
    scoped_free char *lines = xasprintf(BEARER "%s\r\n%s", secret, headers);
    int status = request_from(h, "127.0.0.1", "POST " KEYS, lines, body);
    const char *text = word(h->body, "key");
    if (strlen(text) == API_KEY_TEXT_BYTES - 1)
        note_secret(h, text + SECRET_AT);
    return status;
}

static void test_make(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    load(&h, &usual);
    wall_ns = WALL_NS + SECOND / 2;
    assert_int_equal(post_key(&h, TOKEN, "",
                              "{\"name\":\"nightly\",\"scopes\":[\"files\",\"execute\",\"files\"],"
                              "\"quota\":{\"sessions\":3,\"cpus\":1.5,\"memory_bytes\":\"1G\"},"
                              "\"rate_per_minute\":60,\"expires_in\":3600}"),
                     201);
    const char *members[] = {
        "id",         "name",         "scopes",     "quota",      "rate_per_minute",
        "created_at", "last_used_at", "expires_at", "revoked_at", "key"};
    assert_int_equal(json_object_size(h.body), ARRAY_LEN(members));
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        assert_non_null(json_object_get(h.body, members[i]));
    scoped_free char *text = xstrdup(word(h.body, "key")), *id = xstrdup(word(h.body, "id"));
    scoped_json json_t *scopes = json_pack("[s,s]", "execute", "files");
    scoped_json json_t *quota = json_pack("{s:i,s:f,s:i,s:n}", "sessions", 3, "cpus", 1.5,
                                          "memory_bytes", 1 << 30, "disk_bytes");
    assert_true(json_equal(json_object_get(h.body, "scopes"), scopes));
    assert_true(json_equal(json_object_get(h.body, "quota"), quota));
    assert_string_equal(word(h.body, "name"), "nightly");
    assert_string_equal(word(h.body, "created_at"), "2027-01-15T08:00:00.500Z");
    assert_string_equal(word(h.body, "expires_at"), "2027-01-15T09:00:00.500Z");
    assert_int_equal(json_integer_value(json_object_get(h.body, "rate_per_minute")), 60);
    assert_true(json_is_null(json_object_get(h.body, "revoked_at")));
    /* it opens at once, with its rate, and after a restart, too */
    get(&h, "/execute", text);
    assert_who(&h, id, false, "execute,files");
    assert_true(has_header(&h, "RateLimit-Limit: 11"));
    load(&h, &usual);
    get(&h, "/execute", text);
    assert_who(&h, id, false, "execute,files");
    pass_time(3600 * SECOND);
    assert_int_equal(get(&h, "/execute", text), 401);
    close_house(&h);
}

/* What the store has of it is what its limits are made of. */
static void test_record(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    load(&h, &usual);
    post_key(&h, TOKEN, "",
             "{\"name\":\"n\",\"scopes\":[\"admin\"],\"quota\":{\"cpus\":0.001,\"disk_bytes\":7}}");
    const struct store_name name = {.id = word(h.body, "id")};
    ask_for(&h.world, key, store_get_key, &name);
    const struct store_key *k = row(&h.world, key, 0);
    assert_string_equal(k->scopes, "admin");
    assert_int_equal(k->quota.cpu_milli, 1);
    assert_int_equal(k->quota.disk_bytes, 7);
    assert_true(k->quota.sessions == 0 && k->quota.memory_bytes == 0 && k->rate_per_minute == 0);
    assert_true(k->expires_ns == 0 && k->revoked_ns == 0 && k->last_used_ns == 0);
    assert_true(api_key_matches(word(h.body, "key"), API_KEY_TEXT_BYTES - 1, k->hash.data));
    close_house(&h);
}

struct body_case {
    const char *name, *body;
    int status;
    const char *code, *message;
};

static const struct body_case body_cases[] = {
    {"a name is needed", "{\"scopes\":[\"execute\"]}", 400, "invalid", "name"},
    {"a name is not empty", "{\"name\":\"\",\"scopes\":[\"execute\"]}", 400, "invalid", "name"},
    {"a name is not blank", "{\"name\":\"  \",\"scopes\":[\"execute\"]}", 400, "invalid", "name"},
    {"a name is one line", "{\"name\":\"a\\nb\",\"scopes\":[\"execute\"]}", 400, "invalid", "name"},
    {"scopes are needed", "{\"name\":\"n\"}", 400, "invalid", "scopes"},
    {"one scope is needed", "{\"name\":\"n\",\"scopes\":[]}", 400, "invalid", "scopes"},
    {"a scope is a known word", "{\"name\":\"n\",\"scopes\":[\"fly\"]}", 400, "invalid",
     "scopes[0]"},
    {"a scope is a whole word", "{\"name\":\"n\",\"scopes\":[\"execute,admin\"]}", 400, "invalid",
     "scopes[0]"},
    {"nobody gives the internal one", "{\"name\":\"n\",\"scopes\":[\"internal\"]}", 403,
     "scope_not_held", "'internal'"},
    {"a quota is not 0", "{\"name\":\"n\",\"scopes\":[\"admin\"],\"quota\":{\"sessions\":0}}", 400,
     "invalid", "quota.sessions"},
    {"a quota is not negative",
     "{\"name\":\"n\",\"scopes\":[\"admin\"],\"quota\":{\"memory_bytes\":-1}}", 400, "invalid",
     "quota.memory_bytes"},
    {"a processor is not cut so fine that it is no limit",
     "{\"name\":\"n\",\"scopes\":[\"admin\"],\"quota\":{\"cpus\":0.0004}}", 400, "invalid",
     "quota.cpus"},
    {"a rate is not 0", "{\"name\":\"n\",\"scopes\":[\"admin\"],\"rate_per_minute\":0}", 400,
     "invalid", "rate_per_minute"},
    {"it lives for a second at least", "{\"name\":\"n\",\"scopes\":[\"admin\"],\"expires_in\":0}",
     400, "invalid", "expires_in"},
    {"unknown fields are named", "{\"name\":\"n\",\"scopes\":[\"admin\"],\"id\":\"key_x\"}", 400,
     "invalid", "id"},
    {"nothing at all is refused", "", 400, "invalid", "name"},
};

static size_t count_keys(struct house *h)
{
    assert_int_equal(get(h, "/keys", TOKEN), 200);
    return json_array_size(json_object_get(h->body, "keys"));
}

static void test_body(void **state)
{
    const struct body_case *c = *state;
    struct house h;
    open_house(&h);
    load(&h, &usual);
    assert_int_equal(post_key(&h, TOKEN, "", c->body), c->status);
    assert_string_equal(failure(&h, "code"), c->code);
    assert_non_null(strstr(failure(&h, "message"), c->message));
    assert_int_equal(count_keys(&h), 0);
    close_house(&h);
}

struct grant_case {
    const char *name, *held, *wanted;
    bool may_make, may_revoke;
};

static const struct grant_case grant_cases[] = {
    {"a manager gives what he has", "execute,keys:admin", "execute", true, true},
    {"also to manage", "execute,keys:admin", "execute,keys:admin", true, true},
    {"not what he has not", "execute,keys:admin", "execute,files", false, false},
    {"nor all", "execute,files,templates:write,keys:admin", "admin", false, false},
    {"an admin gives each", "admin", "files,keys:admin", true, true},
    {"an admin makes another", "admin", "admin", true, true},
};

static void test_grant(void **state)
{
    const struct grant_case *c = *state;
    struct house h;
    open_house(&h);
    const struct api_key holder = put_key(&h, (struct store_key){.scopes = c->held}),
                         other = put_key(&h, (struct store_key){.scopes = c->wanted});
    load(&h, &usual);
    scoped_free char *words = xstrdup(c->wanted);
    scoped_strbuf struct strbuf body;
    strbuf_init(&body, 1024);
    strbuf_add_str(&body, "{\"name\":\"n\",\"scopes\":[");
    for (char *at = words, *one; (one = strsep(&at, ","));)
        strbuf_add_fmt(&body, "%s\"%s\"", one == words ? "" : ",", one);
    strbuf_add_str(&body, "]}");
    assert_int_equal(post_key(&h, holder.text, "", body.data), c->may_make ? 201 : 403);
    if (!c->may_make)
        assert_string_equal(failure(&h, "code"), "scope_not_held");
    scoped_free char *line = xasprintf("DELETE " KEYS "/%s", other.id);
    assert_int_equal(request(&h, line, holder.text, NULL), c->may_revoke ? 200 : 403);
    assert_int_equal(get(&h, "/any", other.text), c->may_revoke ? 401 : 200);
    close_house(&h);
}

static void test_list(void **state)
{
    (void)state;
    struct house h;
    struct api_key keys[5];
    open_house(&h);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        keys[i] = put_key(&h, (struct store_key){.scopes = "execute",
                                                 .created_ns = WALL_NS + (int64_t)i,
                                                 .revoked_ns = i == 1});
    load(&h, &usual);
    scoped_free char *path = xstrdup("/keys?limit=2");
    size_t seen = 0;
    for (bool has_more = true; has_more;) {
        assert_int_equal(get(&h, path, TOKEN), 200);
        const json_t *list = json_object_get(h.body, "keys");
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *k = json_array_get(list, i);
            assert_string_equal(word(k, "id"), keys[4 - seen++].id);
            assert_null(json_object_get(k, "key"));
            assert_null(json_object_get(k, "hash"));
            assert_int_equal(json_object_size(k), 9);
        }
        has_more = json_is_string(json_object_get(h.body, "next_cursor"));
        free(path);
        path = xasprintf("/keys?limit=2&cursor=%s", word(h.body, "next_cursor"));
    }
    assert_int_equal(seen, ARRAY_LEN(keys));
    assert_int_equal(get(&h, "/keys?limit=0", TOKEN), 400);
    assert_int_equal(get(&h, "/keys?limit=1001", TOKEN), 400);
    assert_int_equal(get(&h, "/keys?cursor=nonsense", TOKEN), 400);
    assert_int_equal(get(&h, "/keys?owner=x", TOKEN), 400);
    close_house(&h);
}

static void test_get(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    const struct api_key key = put_key(&h, (struct store_key){.scopes = "execute", .name = "mine"});
    load(&h, &usual);
    scoped_free char *path = xasprintf("/keys/%s", key.id);
    assert_int_equal(get(&h, path, TOKEN), 200);
    assert_string_equal(word(h.body, "name"), "mine");
    assert_null(json_object_get(h.body, "key"));
    assert_int_equal(get(&h, path, key.text), 403);
    assert_int_equal(get(&h, "/keys/key_00000000000000000000000000", TOKEN), 404);
    assert_string_equal(failure(&h, "code"), "key_not_found");
    assert_int_equal(get(&h, "/keys/%2e%2e", TOKEN), 400); /* the URL's own rules */
    assert_int_equal(get(&h, "/keys/'--", TOKEN), 404);
    close_house(&h);
}

static void test_revoke(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    const struct api_key key = put_key(&h, (struct store_key){.scopes = "execute"}),
                         other = put_key(&h, (struct store_key){.scopes = "execute"});
    load(&h, &usual);
    scoped_free char *line = xasprintf("DELETE " KEYS "/%s", key.id);
    assert_int_equal(get(&h, "/any", key.text), 200);
    assert_int_equal(request(&h, line, TOKEN, NULL), 200);
    scoped_free char *when = xstrdup(word(h.body, "revoked_at"));
    assert_string_equal(when, "2027-01-15T08:00:00.000Z");
    assert_int_equal(get(&h, "/any", key.text), 401);
    assert_string_equal(failure(&h, "message"), "this key has been revoked");
    pass_time(90 * SECOND);
    assert_int_equal(request(&h, line, TOKEN, NULL), 200); /* again: the same */
    assert_string_equal(word(h.body, "revoked_at"), when);
    assert_int_equal(request(&h, "DELETE " KEYS "/key_00000000000000000000000000", TOKEN, NULL),
                     404);
    assert_string_equal(failure(&h, "code"), "key_not_found");
    load(&h, &usual); /* and after a restart */
    assert_int_equal(get(&h, "/any", key.text), 401);
    assert_int_equal(get(&h, "/any", other.text), 200);
    scoped_free char *log = read_log(&h);
    assert_non_null(strstr(log, "key revoked"));
    close_house(&h);
}

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
    open_house(&h);
    const struct api_key key = put_key(&h, (struct store_key){.scopes = "execute"}),
                         other = put_key(&h, (struct store_key){.scopes = "execute"});
    load(&h, &usual);
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
    assert_int_equal(request(&h, line, TOKEN, NULL), 200);
    assert_int_equal(request(&h, line, TOKEN, NULL), 200);
    const int told[] = {1, 0, 0, 1, 0, 1};
    for (size_t i = 0; i < ARRAY_LEN(told); i++)
        assert_int_equal(of[i].told, told[i]);
    auth_watch_free(of[4].watch);
    auth_watch_free(of[5].watch);
    auth_watch_free(NULL);
    close_house(&h);
}

/* Looks into every file of the store. */
static bool store_has(const struct house *h, const char *text)
{
    DIR *dir = opendir(h->world.dir);
    bool is_there = false;
    for (struct dirent *e; (e = readdir(dir));) {
        scoped_free char *path = xasprintf("%s/%s", h->world.dir, e->d_name);
        FILE *file = e->d_type == DT_REG ? fopen(path, "re") : NULL;
        static char bytes[4 * MIB];
        size_t len = file ? fread(bytes, 1, sizeof(bytes), file) : 0;
        assert_true(len < sizeof(bytes));
        is_there |= len > 0 && memmem(bytes, len, text, strlen(text));
        if (file)
            fclose(file);
    }
    closedir(dir);
    return is_there;
}

#define ONE_KEY "{\"name\":\"remarkable\",\"scopes\":[\"execute\"]}"

static void test_idempotency(void **state)
{
    (void)state;
    struct house h;
    open_house(&h);
    load(&h, &usual);
    assert_int_equal(post_key(&h, TOKEN, "Idempotency-Key: once\r\n", ONE_KEY), 201);
    scoped_free char *text = xstrdup(word(h.body, "key")), *id = xstrdup(word(h.body, "id"));
    assert_int_equal(get(&h, "/execute", text), 200);
    assert_int_equal(post_key(&h, TOKEN, "Idempotency-Key: once\r\n", ONE_KEY), 201);
    assert_true(has_header(&h, "Idempotent-Replayed: true"));
    assert_string_equal(word(h.body, "id"), id);
    assert_true(json_is_null(json_object_get(h.body, "key")));
    assert_int_equal(post_key(&h, TOKEN, "Idempotency-Key: once\r\n",
                              "{\"name\":\"other\",\"scopes\":[\"execute\"]}"),
                     409);
    assert_int_equal(count_keys(&h), 1);
    assert_true(store_has(&h, "remarkable"));
    assert_false(store_has(&h, text + SECRET_AT));
    close_house(&h);
}

/* An earlier process has begun the same request, and died before or after the key was made. */
static void try_again(bool was_made)
{
    struct house h;
    struct sha256 *hash = sha256_new();
    uint8_t digest[SHA256_BYTES];
    struct api_key key;
    struct error err;
    open_house(&h);
    sha256_add(hash, KEYS, sizeof(KEYS));
    sha256_add(hash, ONE_KEY, sizeof(ONE_KEY) - 1);
    sha256_end(hash, digest);
    sha256_free(hash);
    if (was_made)
        key = put_key(&h, (struct store_key){.scopes = "execute", .name = "remarkable"});
    else
        assert_int_equal(api_key_make(&key, NULL, &err), 0);
    const struct store_attempt attempt = {.owner = "",
                                          .route = "createKey",
                                          .key = "once",
                                          .hash = {digest, sizeof(digest)},
                                          .resource = key.id,
                                          .node = "here",
                                          .epoch = 1,
                                          .created_ns = WALL_NS,
                                          .expires_ns = WALL_NS + 100 * SECOND};
    ask(&h.world, store_begin_attempt, &attempt);
    assert_done(&h.world);
    load(&h, &usual);
    assert_int_equal(post_key(&h, TOKEN, "Idempotency-Key: once\r\n", ONE_KEY), 201);
    assert_string_equal(word(h.body, "id"), key.id);
    assert_int_equal(json_is_null(json_object_get(h.body, "key")), was_made);
    if (!was_made)
        assert_int_equal(get(&h, "/execute", word(h.body, "key")), 200);
    assert_int_equal(count_keys(&h), 1);
    close_house(&h);
}

static void test_again(void **state)
{
    (void)state;
    try_again(true);
    try_again(false);
}

static void test_room(void **state)
{
    (void)state;
    struct house h;
    struct api_key key;
    struct error err;
    open_house(&h);
    load(&h, &usual);
    for (size_t i = 0; i < AUTH_KEYS_MAX; i++) {
        assert_int_equal(auth_check_room(h.api.auth, &err), 0);
        assert_int_equal(id_make(ID_KEY, key.id, &err), 0);
        auth_add(h.api.auth, &(struct store_key){.id = key.id,
                                                 .hash = {key.hash, sizeof(key.hash)},
                                                 .scopes = "execute"});
    }
    assert_int_equal(post_key(&h, TOKEN, "", ONE_KEY), 429);
    assert_int_equal(count_keys(&h), 0);
    close_house(&h);
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
    check_one(&check, "a key has its rate, and is told", test_rate);
    check_one(&check, "keys without a rate have the usual one", test_usual_rate);
    check_rows(&check, address_cases, test_address);
    check_one(&check, "guesses are counted for each address", test_guesses);
    check_one(&check, "a short token cannot be guessed quickly", test_short_token);
    check_one(&check, "nor at an open door", test_open_guesses);
    check_one(&check, "refusals are logged, not endlessly", test_log);
    check_one(&check, "the store learns once a minute that a key is used", test_last_used);
    check_one(&check, "a key that is made opens at once", test_make);
    check_one(&check, "the store has what was asked for", test_record);
    check_rows(&check, body_cases, test_body);
    check_rows(&check, grant_cases, test_grant);
    check_one(&check, "keys are listed in pages, newest first", test_list);
    check_one(&check, "one key is read by its id", test_get);
    check_one(&check, "a key is revoked for good", test_revoke);
    check_one(&check, "streams are told when their key is revoked", test_watch);
    check_one(&check, "an Idempotency-Key gives one key, whose text is nowhere", test_idempotency);
    check_one(&check, "what a dead process began is gone on with", test_again);
    check_one(&check, "there are not too many keys", test_room);
    return check_run(&check, "auth");
}
