/* test_rest_key.c - what becomes of keys: made, listed, revoked, by whom */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "house.h"

#define KEYS "/api/v1/keys"

static int post_key(struct house *h, const char *secret, const char *headers, const char *body)
{
    scoped_free char *lines = xasprintf(BEARER "%s\r\n%s", secret, headers);
    int status = house_request_from(h, "127.0.0.1", "POST " KEYS, lines, body);
    const char *text = house_word(h->body, "key");
    if (strlen(text) == API_KEY_TEXT_BYTES - 1)
        house_note_secret(h, text + HOUSE_SECRET_AT);
    return status;
}

static void test_make(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    house_load(&h, &house_usual);
    house_wall_ns = HOUSE_WALL_NS + SECOND / 2;
    assert_int_equal(post_key(&h, HOUSE_TOKEN, "",
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
    scoped_free char *text = xstrdup(house_word(h.body, "key")),
                     *id = xstrdup(house_word(h.body, "id"));
    scoped_json json_t *scopes = json_pack("[s,s]", "execute", "files");
    scoped_json json_t *quota = json_pack("{s:i,s:f,s:i,s:n}", "sessions", 3, "cpus", 1.5,
                                          "memory_bytes", 1 << 30, "disk_bytes");
    assert_true(json_equal(json_object_get(h.body, "scopes"), scopes));
    assert_true(json_equal(json_object_get(h.body, "quota"), quota));
    assert_string_equal(house_word(h.body, "name"), "nightly");
    assert_string_equal(house_word(h.body, "created_at"), "2027-01-15T08:00:00.500Z");
    assert_string_equal(house_word(h.body, "expires_at"), "2027-01-15T09:00:00.500Z");
    assert_int_equal(json_integer_value(json_object_get(h.body, "rate_per_minute")), 60);
    assert_true(json_is_null(json_object_get(h.body, "revoked_at")));
    /* it opens at once, with its rate, and after a restart, too */
    house_get(&h, "/execute", text);
    house_assert_who(&h, id, false, "execute,files");
    assert_true(house_has_header(&h, "RateLimit-Limit: 11"));
    house_load(&h, &house_usual);
    house_get(&h, "/execute", text);
    house_assert_who(&h, id, false, "execute,files");
    house_pass_time(3600 * SECOND);
    assert_int_equal(house_get(&h, "/execute", text), 401);
    house_close(&h);
}

/* What the store has of it is what its limits are made of. */
static void test_record(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    house_load(&h, &house_usual);
    post_key(&h, HOUSE_TOKEN, "",
             "{\"name\":\"n\",\"scopes\":[\"admin\"],\"quota\":{\"cpus\":0.001,\"disk_bytes\":7}}");
    const struct store_name name = {.id = house_word(h.body, "id")};
    ask_for(&h.world, key, store_get_key, &name);
    const struct store_key *k = row(&h.world, key, 0);
    assert_string_equal(k->scopes, "admin");
    assert_int_equal(k->quota.cpu_milli, 1);
    assert_int_equal(k->quota.disk_bytes, 7);
    assert_true(k->quota.sessions == 0 && k->quota.memory_bytes == 0 && k->rate_per_minute == 0);
    assert_true(k->expires_ns == 0 && k->revoked_ns == 0 && k->last_used_ns == 0);
    assert_true(api_key_matches(house_word(h.body, "key"), API_KEY_TEXT_BYTES - 1, k->hash.data));
    house_close(&h);
}

struct body_case {
    const char *name, *body;
    int status;
    const char *code, *message;
};

static const struct body_case body_cases[] = {
    {"a name is needed", "{\"scopes\":[\"execute\"]}", 422, "invalid", "name"},
    {"a name is not empty", "{\"name\":\"\",\"scopes\":[\"execute\"]}", 422, "invalid", "name"},
    {"a name is not blank", "{\"name\":\"  \",\"scopes\":[\"execute\"]}", 422, "invalid", "name"},
    {"a name is one line", "{\"name\":\"a\\nb\",\"scopes\":[\"execute\"]}", 422, "invalid", "name"},
    {"scopes are needed", "{\"name\":\"n\"}", 422, "invalid", "scopes"},
    {"one scope is needed", "{\"name\":\"n\",\"scopes\":[]}", 422, "invalid", "scopes"},
    {"a scope is a known word", "{\"name\":\"n\",\"scopes\":[\"fly\"]}", 422, "invalid",
     "scopes[0]"},
    {"a scope is a whole word", "{\"name\":\"n\",\"scopes\":[\"execute,admin\"]}", 422, "invalid",
     "scopes[0]"},
    {"nobody gives the internal one", "{\"name\":\"n\",\"scopes\":[\"internal\"]}", 403,
     "scope_not_held", "'internal'"},
    {"a quota is not 0", "{\"name\":\"n\",\"scopes\":[\"admin\"],\"quota\":{\"sessions\":0}}", 422,
     "invalid", "quota.sessions"},
    {"a quota is not negative",
     "{\"name\":\"n\",\"scopes\":[\"admin\"],\"quota\":{\"memory_bytes\":-1}}", 422, "invalid",
     "quota.memory_bytes"},
    {"a processor is not cut so fine that it is no limit",
     "{\"name\":\"n\",\"scopes\":[\"admin\"],\"quota\":{\"cpus\":0.0004}}", 422, "invalid",
     "quota.cpus"},
    {"a rate is not 0", "{\"name\":\"n\",\"scopes\":[\"admin\"],\"rate_per_minute\":0}", 422,
     "invalid", "rate_per_minute"},
    {"it lives for a second at least", "{\"name\":\"n\",\"scopes\":[\"admin\"],\"expires_in\":0}",
     422, "invalid", "expires_in"},
    {"unknown fields are named", "{\"name\":\"n\",\"scopes\":[\"admin\"],\"id\":\"key_x\"}", 422,
     "invalid", "id"},
    {"nothing at all is refused", "", 422, "invalid", "name"},
};

static size_t count_keys(struct house *h)
{
    assert_int_equal(house_get(h, "/keys", HOUSE_TOKEN), 200);
    return json_array_size(json_object_get(h->body, "keys"));
}

static void test_body(void **state)
{
    const struct body_case *c = *state;
    struct house h;
    house_open(&h);
    house_load(&h, &house_usual);
    assert_int_equal(post_key(&h, HOUSE_TOKEN, "", c->body), c->status);
    assert_string_equal(house_failure(&h, "code"), c->code);
    assert_non_null(strstr(house_failure(&h, "message"), c->message));
    assert_int_equal(count_keys(&h), 0);
    house_close(&h);
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
    house_open(&h);
    const struct api_key holder = house_put_key(&h, (struct store_key){.scopes = c->held}),
                         other = house_put_key(&h, (struct store_key){.scopes = c->wanted});
    house_load(&h, &house_usual);
    scoped_free char *words = xstrdup(c->wanted);
    scoped_strbuf struct strbuf body;
    strbuf_init(&body, 1024);
    strbuf_add_str(&body, "{\"name\":\"n\",\"scopes\":[");
    for (char *at = words, *one; (one = strsep(&at, ","));)
        strbuf_add_fmt(&body, "%s\"%s\"", one == words ? "" : ",", one);
    strbuf_add_str(&body, "]}");
    assert_int_equal(post_key(&h, holder.text, "", body.data), c->may_make ? 201 : 403);
    if (!c->may_make)
        assert_string_equal(house_failure(&h, "code"), "scope_not_held");
    scoped_free char *line = xasprintf("DELETE " KEYS "/%s", other.id);
    assert_int_equal(house_request(&h, line, holder.text, NULL), c->may_revoke ? 200 : 403);
    assert_int_equal(house_get(&h, "/any", other.text), c->may_revoke ? 401 : 200);
    house_close(&h);
}

static void test_list(void **state)
{
    (void)state;
    struct house h;
    struct api_key keys[5];
    house_open(&h);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        keys[i] = house_put_key(&h, (struct store_key){.scopes = "execute",
                                                       .created_ns = HOUSE_WALL_NS + (int64_t)i,
                                                       .revoked_ns = i == 1});
    house_load(&h, &house_usual);
    scoped_free char *path = xstrdup("/keys?limit=2");
    size_t seen = 0;
    for (bool has_more = true; has_more;) {
        assert_int_equal(house_get(&h, path, HOUSE_TOKEN), 200);
        const json_t *list = json_object_get(h.body, "keys");
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *k = json_array_get(list, i);
            assert_string_equal(house_word(k, "id"), keys[4 - seen++].id);
            assert_null(json_object_get(k, "key"));
            assert_null(json_object_get(k, "hash"));
            assert_int_equal(json_object_size(k), 9);
        }
        has_more = json_is_string(json_object_get(h.body, "next_cursor"));
        free(path);
        path = xasprintf("/keys?limit=2&cursor=%s", house_word(h.body, "next_cursor"));
    }
    assert_int_equal(seen, ARRAY_LEN(keys));
    assert_int_equal(house_get(&h, "/keys?limit=0", HOUSE_TOKEN), 400);
    assert_int_equal(house_get(&h, "/keys?limit=1001", HOUSE_TOKEN), 400);
    assert_int_equal(house_get(&h, "/keys?cursor=nonsense", HOUSE_TOKEN), 400);
    assert_int_equal(house_get(&h, "/keys?owner=x", HOUSE_TOKEN), 400);
    house_close(&h);
}

static void test_get(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    const struct api_key key =
        house_put_key(&h, (struct store_key){.scopes = "execute", .name = "mine"});
    house_load(&h, &house_usual);
    scoped_free char *path = xasprintf("/keys/%s", key.id);
    assert_int_equal(house_get(&h, path, HOUSE_TOKEN), 200);
    assert_string_equal(house_word(h.body, "name"), "mine");
    assert_null(json_object_get(h.body, "key"));
    assert_int_equal(house_get(&h, path, key.text), 403);
    assert_int_equal(house_get(&h, "/keys/key_00000000000000000000000000", HOUSE_TOKEN), 404);
    assert_string_equal(house_failure(&h, "code"), "key_not_found");
    assert_int_equal(house_get(&h, "/keys/%2e%2e", HOUSE_TOKEN), 400); /* the URL's own rules */
    assert_int_equal(house_get(&h, "/keys/'--", HOUSE_TOKEN), 404);
    house_close(&h);
}

static void test_revoke(void **state)
{
    (void)state;
    struct house h;
    house_open(&h);
    const struct api_key key = house_put_key(&h, (struct store_key){.scopes = "execute"}),
                         other = house_put_key(&h, (struct store_key){.scopes = "execute"});
    house_load(&h, &house_usual);
    scoped_free char *line = xasprintf("DELETE " KEYS "/%s", key.id);
    assert_int_equal(house_get(&h, "/any", key.text), 200);
    assert_int_equal(house_request(&h, line, HOUSE_TOKEN, NULL), 200);
    scoped_free char *when = xstrdup(house_word(h.body, "revoked_at"));
    assert_string_equal(when, "2027-01-15T08:00:00.000Z");
    assert_int_equal(house_get(&h, "/any", key.text), 401);
    assert_string_equal(house_failure(&h, "message"), "this key has been revoked");
    house_pass_time(90 * SECOND);
    assert_int_equal(house_request(&h, line, HOUSE_TOKEN, NULL), 200); /* again: the same */
    assert_string_equal(house_word(h.body, "revoked_at"), when);
    assert_int_equal(
        house_request(&h, "DELETE " KEYS "/key_00000000000000000000000000", HOUSE_TOKEN, NULL),
        404);
    assert_string_equal(house_failure(&h, "code"), "key_not_found");
    house_load(&h, &house_usual); /* and after a restart */
    assert_int_equal(house_get(&h, "/any", key.text), 401);
    assert_int_equal(house_get(&h, "/any", other.text), 200);
    scoped_free char *log = house_read_log(&h);
    assert_non_null(strstr(log, "key revoked"));
    house_close(&h);
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
    house_open(&h);
    house_load(&h, &house_usual);
    assert_int_equal(post_key(&h, HOUSE_TOKEN, "Idempotency-Key: once\r\n", ONE_KEY), 201);
    scoped_free char *text = xstrdup(house_word(h.body, "key")),
                     *id = xstrdup(house_word(h.body, "id"));
    assert_int_equal(house_get(&h, "/execute", text), 200);
    assert_int_equal(post_key(&h, HOUSE_TOKEN, "Idempotency-Key: once\r\n", ONE_KEY), 201);
    assert_true(house_has_header(&h, "Idempotent-Replayed: true"));
    assert_string_equal(house_word(h.body, "id"), id);
    assert_true(json_is_null(json_object_get(h.body, "key")));
    assert_int_equal(post_key(&h, HOUSE_TOKEN, "Idempotency-Key: once\r\n",
                              "{\"name\":\"other\",\"scopes\":[\"execute\"]}"),
                     409);
    assert_int_equal(count_keys(&h), 1);
    assert_true(store_has(&h, "remarkable"));
    assert_false(store_has(&h, text + HOUSE_SECRET_AT));
    house_close(&h);
}

/* An earlier process has begun the same request, and died before or after the key was made. */
static void try_again(bool was_made)
{
    struct house h;
    struct sha256 *hash = sha256_new();
    uint8_t digest[SHA256_BYTES];
    struct api_key key;
    struct error err;
    house_open(&h);
    sha256_add(hash, KEYS, sizeof(KEYS));
    sha256_add(hash, ONE_KEY, sizeof(ONE_KEY) - 1);
    sha256_end(hash, digest);
    sha256_free(hash);
    if (was_made)
        key = house_put_key(&h, (struct store_key){.scopes = "execute", .name = "remarkable"});
    else
        assert_int_equal(api_key_make(&key, NULL, &err), 0);
    const struct store_attempt attempt = {.owner = "",
                                          .route = "createKey",
                                          .key = "once",
                                          .hash = {digest, sizeof(digest)},
                                          .resource = key.id,
                                          .node = "here",
                                          .epoch = 1,
                                          .created_ns = HOUSE_WALL_NS,
                                          .expires_ns = HOUSE_WALL_NS + 100 * SECOND};
    ask(&h.world, store_begin_attempt, &attempt);
    assert_done(&h.world);
    house_load(&h, &house_usual);
    assert_int_equal(post_key(&h, HOUSE_TOKEN, "Idempotency-Key: once\r\n", ONE_KEY), 201);
    assert_string_equal(house_word(h.body, "id"), key.id);
    assert_int_equal(json_is_null(json_object_get(h.body, "key")), was_made);
    if (!was_made)
        assert_int_equal(house_get(&h, "/execute", house_word(h.body, "key")), 200);
    assert_int_equal(count_keys(&h), 1);
    house_close(&h);
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
    house_open(&h);
    house_load(&h, &house_usual);
    for (size_t i = 0; i < AUTH_KEYS_MAX; i++) {
        assert_int_equal(auth_check_room(h.api.auth, &err), 0);
        assert_int_equal(id_make(ID_KEY, key.id, &err), 0);
        auth_add(h.api.auth, &(struct store_key){.id = key.id,
                                                 .hash = {key.hash, sizeof(key.hash)},
                                                 .scopes = "execute"});
    }
    assert_int_equal(post_key(&h, HOUSE_TOKEN, "", ONE_KEY), 429);
    assert_int_equal(count_keys(&h), 0);
    house_close(&h);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "a key that is made opens at once", test_make);
    check_one(&check, "the store has what was asked for", test_record);
    check_rows(&check, body_cases, test_body);
    check_rows(&check, grant_cases, test_grant);
    check_one(&check, "keys are listed in pages, newest first", test_list);
    check_one(&check, "one key is read by its id", test_get);
    check_one(&check, "a key is revoked for good", test_revoke);
    check_one(&check, "an Idempotency-Key gives one key, whose text is nowhere", test_idempotency);
    check_one(&check, "what a dead process began is gone on with", test_again);
    check_one(&check, "there are not too many keys", test_room);
    return check_run(&check, "rest_key");
}
