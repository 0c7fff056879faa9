/* house.c - a server with doors of all kinds, for the tests of who gets in */
/* SPDX-License-Identifier: Apache-2.0 */
#include "house.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

#define ANSWER (1 * MIB)

/* --- time, and how often secrets are house_compared
 * ------------------------------------------------- */

static int64_t house_now_ns;
int64_t house_wall_ns;
size_t house_compared;

int64_t __wrap_clock_now_ns(void);
int64_t __wrap_clock_wall_ns(void);
int __wrap_CRYPTO_memcmp(const void *a, const void *b, size_t len);
int __real_CRYPTO_memcmp(const void *a, const void *b, size_t len);

int64_t __wrap_clock_now_ns(void)
{
    return house_now_ns;
}

int64_t __wrap_clock_wall_ns(void)
{
    return house_wall_ns;
}

int __wrap_CRYPTO_memcmp(const void *a, const void *b, size_t len)
{
    assert_int_equal(len, SHA256_BYTES);
    house_compared++;
    return __real_CRYPTO_memcmp(a, b, len);
}

void house_pass_time(int64_t ns)
{
    house_now_ns += ns;
    house_wall_ns += ns;
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

static void on_loaded(void *ctx, const struct error *err)
{
    struct house *h = ctx;
    h->is_loaded = !err;
    if (err)
        h->err = *err;
    loop_stop(h->world.loop);
}

void house_load(struct house *h, const struct auth_order *order)
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

const struct auth_order house_usual = {.token = HOUSE_TOKEN, .internal_token = HOUSE_INTERNAL};

static void open_server(struct house *h)
{
    struct error err;
    size_t count;
    h->table = api_table_new(0);
    h->server = (struct api_server){&h->api, h->table};
    const struct route *routes = api_table_routes(h->table, &count);
    assert_null(route_check(routes, count));
    const struct http_server_config config = {
        .routes = routes, .route_count = count, .ctx = &h->server, .authorize = auth_authorize};
    assert_int_equal(http_server_open(&h->http, h->world.loop, &config, &err), 0);
    assert_int_equal(
        http_server_listen(h->http, &(struct http_listen){.address = "127.0.0.1"}, &err), 0);
}

void house_open(struct house *h)
{
    house_now_ns = 1000 * SECOND;
    house_wall_ns = HOUSE_WALL_NS;
    *h = (struct house){.fd = -1};
    world_open(&h->world);
    h->log = (struct log){.fd = memfd_create("log", MFD_CLOEXEC), .level = LOG_LEVEL_DEBUG};
    h->api = (struct api){
        .loop = h->world.loop, .log = &h->log, .store = h->world.store, .node = "here", .epoch = 2};
    strbuf_init(&h->text, ANSWER);
    strbuf_init(&h->shown, ANSWER);
    strbuf_add_str(&h->shown, HOUSE_TOKEN "\n" HOUSE_INTERNAL "\n" HOUSE_SHORT "\n");
    open_server(h);
}

void house_note_secret(struct house *h, const char *text)
{
    strbuf_add_str(&h->shown, text);
    strbuf_add_char(&h->shown, '\n');
}

char *house_read_log(struct house *h)
{
    off_t len = lseek(h->log.fd, 0, SEEK_END);
    char *text = xcalloc(1, (size_t)len + 1);
    assert_int_equal(pread(h->log.fd, text, (size_t)len, 0), len);
    return text;
}

static void check_log(struct house *h)
{
    scoped_free char *log = house_read_log(h);
    for (char *secret = h->shown.data, *end; (end = strchr(secret, '\n')); secret = end + 1) {
        *end = '\0';
        assert_null(strstr(log, secret));
    }
}

void house_close(struct house *h)
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

int house_request_from(struct house *h, const char *from, const char *line, const char *headers,
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

int house_request(struct house *h, const char *line, const char *secret, const char *body)
{
    scoped_free char *header = secret ? xasprintf(BEARER "%s\r\n", secret) : xstrdup("");
    return house_request_from(h, "127.0.0.1", line, header, body);
}

int house_get(struct house *h, const char *path, const char *secret)
{
    scoped_free char *line = xasprintf("GET /api/v1%s", path);
    return house_request(h, line, secret, NULL);
}

const char *house_word(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "(none)";
}

const char *house_failure(const struct house *h, const char *name)
{
    return house_word(json_object_get(h->body, "error"), name);
}

bool house_has_header(const struct house *h, const char *line)
{
    scoped_free char *whole = xasprintf("\r\n%s\r\n", line);
    return strstr(h->text.data, whole);
}

struct api_key house_put_key(struct house *h, struct store_key record)
{
    struct api_key key;
    struct error err;
    assert_int_equal(api_key_make(&key, NULL, &err), 0);
    record.id = key.id;
    record.hash = (struct store_blob){key.hash, sizeof(key.hash)};
    record.name = record.name ? record.name : "a name";
    record.created_ns = record.created_ns ? record.created_ns : HOUSE_WALL_NS;
    ask(&h->world, store_add_key, &record);
    assert_done(&h->world);
    house_note_secret(h, key.text + HOUSE_SECRET_AT);
    return key;
}

void house_assert_who(const struct house *h, const char *owner, bool sees_all, const char *scopes)
{
    assert_int_equal(h->status, 200);
    assert_string_equal(house_word(h->body, "owner"), owner);
    assert_int_equal(json_is_true(json_object_get(h->body, "sees_all")), sees_all);
    assert_string_equal(house_word(h->body, "scopes"), scopes);
}
