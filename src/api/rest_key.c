/* rest_key.c - /keys: to make, list, read and revoke them
 *
 * The text of a key is in one answer, that of the POST that made it, and nowhere else: not in the
 * store, not in the answer that is kept for its Idempotency-Key. Who repeats such a POST gets the
 * same key's document without the text; if the first answer was lost, that key is to be revoked.
 *
 * keys:admin is a manager's scope: it sees all keys. It gives and takes only what it holds itself,
 * but as often as it likes, so quotas and rates do not bind who has it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/auth.h"
#include "api/page.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"
#include "core/api_key.h"

#define BODY_MAX     (16 * KIB)
#define NAME_MAX_LEN 128
#define AMOUNT_MAX   1e15
#define MILLI        1000
#define NS_PER_MS    1000000ll
#define YEARS_10_S   (3653.0 * 24 * 3600)
#define SECRET       "key"

/* --- what it takes ---------------------------------------------------------------------------- */

struct quota_wish {
    int64_t sessions;
    double cpus;
    uint64_t memory_bytes, disk_bytes;
};

struct key_wish {
    char *name;
    struct param_strings scopes;
    struct quota_wish quota;
    int64_t rate_per_minute;
    uint64_t expires_ms;
};

/* People read it in lists and logs: one line of text. */
static bool is_name(const char *text)
{
    bool has_letter = false;
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return false;
        has_letter |= *c != ' ';
    }
    return has_letter;
}

static bool is_scope(const char *text)
{
    return scope_find(text, strlen(text)) != 0;
}

/* clang-format off */
#define AT(field) offsetof(struct quota_wish, field)
static const struct param quota_rows[] = {
    {.name = "sessions", .type = PARAM_INTEGER, .offset = AT(sessions), .min = 1, .max = 1e6, .example = "10",
     .help = "Live sessions at a time; absent, as all of these: no limit."},
    {.name = "cpus", .type = PARAM_NUMBER, .offset = AT(cpus), .min = 0.001, .max = 1e6, .example = "4",
     .help = "Processors of all its live sessions together."},
    {.name = "memory_bytes", .type = PARAM_SIZE, .offset = AT(memory_bytes), .min = 1, .max = AMOUNT_MAX, .example = "2147483648",
     .help = "Memory of all of them together."},
    {.name = "disk_bytes", .type = PARAM_SIZE, .offset = AT(disk_bytes), .min = 1, .max = AMOUNT_MAX, .example = "1073741824",
     .help = "Files of all of them together."},
};
#undef AT
static const struct param_table quota_table = PARAM_TABLE(struct quota_wish, "Quota", quota_rows);

#define AT(field) offsetof(struct key_wish, field)
static const struct param key_rows[] = {
    {.name = "name", .type = PARAM_STRING, .is_required = true, .offset = AT(name), .max_len = NAME_MAX_LEN,
     .check = is_name, .pattern = "^[^\\u0000-\\u001f\\u007f]*[^\\u0000- \\u007f][^\\u0000-\\u001f\\u007f]*$",
     .example = "\"nightly evaluation\"", .help = "What people call it; need not be unique."},
    {.name = "scopes", .type = PARAM_STRINGS, .is_required = true, .offset = AT(scopes), .max_len = SCOPE_COUNT,
     .check = is_scope,
     .pattern = "^(execute|sessions:read|sessions:write|files|templates:write|keys:admin|admin)$",
     .example = "[\"execute\"]", .help = "What it may do; nobody gives what he has not."},
    {.name = "quota", .type = PARAM_OBJECT, .offset = AT(quota), .table = &quota_table,
     .help = "What its live sessions may take together."},
    {.name = "rate_per_minute", .type = PARAM_INTEGER, .offset = AT(rate_per_minute), .min = 1, .max = RATE_LIMIT_PER_MINUTE_MAX,
     .example = "600", .help = "Requests a minute; absent: what the operator has set for all keys."},
    {.name = "expires_in", .other_name = "expires_in_seconds", .type = PARAM_SECONDS, .offset = AT(expires_ms),
     .min = 1, .max = YEARS_10_S, .example = "2592000", .help = "Seconds that it is valid; absent: until it is revoked."},
};
#undef AT
static const struct param_table key_table = PARAM_TABLE(struct key_wish, "CreateKey", key_rows);
/* clang-format on */

/* --- what it tells ---------------------------------------------------------------------------- */

static json_t *amount(uint64_t value)
{
    return value ? json_number(value) : json_null(); /* 0 is no limit */
}

static json_t *moment(int64_t wall_ns)
{
    char text[CLOCK_TEXT_BYTES];
    if (wall_ns == 0)
        return json_null();
    clock_format(wall_ns, text);
    return json_string(text);
}

static json_t *scope_list(unsigned scopes)
{
    json_t *list = json_array();
    for (size_t i = 0; i < SCOPE_COUNT; i++) {
        if (scopes & 1u << i)
            json_array_append_new(list, json_string(scope_info((enum scope_index)i)->word));
    }
    return list;
}

static json_t *quota_json(const struct store_amounts *q)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "sessions", amount(q->sessions), "cpus",
                     q->cpu_milli ? json_real((double)q->cpu_milli / MILLI) : json_null(),
                     "memory_bytes", amount(q->memory_bytes), "disk_bytes", amount(q->disk_bytes));
}

static json_t *key_json(const struct store_key *k)
{
    unsigned scopes = 0;
    scope_parse(k->scopes, &scopes); /* what is not known here may do nothing here */
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id", k->id, "name",
                     json_text_or_null(k->name), "scopes", scope_list(scopes), "quota",
                     quota_json(&k->quota), "rate_per_minute", amount(k->rate_per_minute),
                     "created_at", moment(k->created_ns), "last_used_at", moment(k->last_used_ns),
                     "expires_at", moment(k->expires_ns), "revoked_at", moment(k->revoked_ns));
}

/* --- to make one ------------------------------------------------------------------------------ */

static int read_scopes(const struct key_wish *wish, unsigned held, unsigned *out, struct error *err)
{
    unsigned scopes = 0;
    for (size_t i = 0; i < wish->scopes.count; i++) {
        unsigned one = scope_find(wish->scopes.items[i], strlen(wish->scopes.items[i]));
        if (!scope_may_grant(held, one)) {
            error_set(err, ERROR_DENIED, "scopes[%zu]: '%s' cannot be given by who has it not", i,
                      wish->scopes.items[i]);
            return error_word(err, "scope_not_held");
        }
        scopes |= one;
    }
    if (scopes == 0)
        return error_set(err, ERROR_INVALID, "scopes: a key needs at least one");
    *out = scopes;
    return 0;
}

/* A call that waits for the store; with it what only memory knows. */
struct making {
    struct api_call *call;
    struct api_key key;
    struct store_key record;
    char scopes[SCOPE_TEXT_BYTES];
};

static void free_making(struct making *m)
{
    explicit_bzero(m->key.text, sizeof(m->key.text));
    free(m);
}

static void tell_log(const struct api_call *call, const char *what, const char *id)
{
    struct log log = *api_of(call)->log;
    const char *by = api_caller(call)->owner;
    log.request_id = api_id(call);
    log_info(&log, what, LOG_STR("key", id), LOG_STR("by", by[0] ? by : "operator"));
}

static void on_added(void *ctx, const struct store_answer *answer)
{
    struct making *m = ctx;
    struct api_call *call = m->call;
    if (answer->err) {
        api_fail(call, answer->err);
    } else {
        auth_add(api_of(call)->auth, &m->record);
        tell_log(call, "key made", m->record.id);
        json_t *document = key_json(&m->record);
        json_object_set_new(document, SECRET, json_string(m->key.text));
        api_answer_secret(call, 201, document, SECRET);
    }
    free_making(m);
}

static void fill_record(struct making *m, const struct key_wish *wish)
{
    int64_t now = clock_wall_ns();
    m->record = (struct store_key){
        .id = m->key.id,
        .name = wish->name,
        .hash = {m->key.hash, sizeof(m->key.hash)},
        .scopes = m->scopes,
        .quota = {.sessions = (uint64_t)wish->quota.sessions,
                  .cpu_milli = (uint64_t)(wish->quota.cpus * MILLI + 0.5),
                  .memory_bytes = wish->quota.memory_bytes,
                  .disk_bytes = wish->quota.disk_bytes},
        .rate_per_minute = (uint64_t)wish->rate_per_minute,
        .created_ns = now,
        .expires_ns = wish->expires_ms ? now + (int64_t)wish->expires_ms * NS_PER_MS : 0,
    };
}

static void on_create(struct api_call *call)
{
    const struct key_wish *wish = api_body(call);
    struct api *api = api_of(call);
    struct error err;
    unsigned scopes = 0;
    struct making *m = xcalloc(1, sizeof(*m));
    m->call = call;
    if (read_scopes(wish, api_scopes(call), &scopes, &err) < 0 ||
        auth_check_room(api->auth, &err) < 0 ||
        api_key_make(&m->key, api_resource(call), &err) < 0) {
        api_fail(call, &err);
        free_making(m);
        return;
    }
    scope_format(scopes, m->scopes);
    fill_record(m, wish);
    store_add_key(api->store, &m->record, on_added, m);
}

/* The key that an earlier try may have made; its text is gone with that process. */
static void on_found_again(void *ctx, const struct store_answer *answer)
{
    struct api_call *call = ctx;
    if (answer->err && answer->err->code == ERROR_NOT_FOUND) {
        on_create(call);
    } else if (answer->err) {
        api_fail(call, answer->err);
    } else {
        json_t *document = key_json(&answer->keys[0]);
        json_object_set_new(document, SECRET, json_null());
        api_answer(call, 201, document);
    }
}

static void on_create_again(struct api_call *call)
{
    const struct store_name name = {.id = api_resource(call)};
    store_get_key(api_of(call)->store, &name, on_found_again, call);
}

/* --- to look at them, and to revoke one ------------------------------------------------------- */

static void on_listed(void *ctx, const struct store_answer *answer)
{
    struct api_call *call = ctx;
    if (answer->err) {
        api_fail(call, answer->err);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < answer->count; i++)
        json_array_append_new(list, key_json(&answer->keys[i]));
    api_answer(call, 200, page_json("keys", list, answer->next_cursor));
}

static void on_list(struct api_call *call)
{
    const struct page *page = api_query(call);
    const struct store_filter filter = {.cursor = page->cursor, .limit = (uint64_t)page->limit};
    store_list_keys(api_of(call)->store, &filter, on_listed, call);
}

static void on_got(void *ctx, const struct store_answer *answer)
{
    struct api_call *call = ctx;
    struct error err;
    if (!answer->err) {
        api_answer(call, 200, key_json(&answer->keys[0]));
        return;
    }
    err = *answer->err;
    if (err.code == ERROR_NOT_FOUND)
        error_word(&err, "key_not_found");
    api_fail(call, &err);
}

static void on_get(struct api_call *call)
{
    const struct store_name name = {.id = api_parameter(call, "id")};
    store_get_key(api_of(call)->store, &name, on_got, call);
}

static void on_revoked(void *ctx, const struct store_answer *answer)
{
    if (answer->err)
        on_got(ctx, answer);
    else
        on_get(ctx);
}

static int may_revoke(struct api_call *call, const char *id, struct error *err)
{
    unsigned scopes;
    if (!auth_find_scopes(api_of(call)->auth, id, &scopes)) {
        error_set(err, ERROR_NOT_FOUND, "there is no such key");
        return error_word(err, "key_not_found");
    }
    if (scope_may_grant(api_scopes(call), scopes))
        return 0;
    error_set(err, ERROR_DENIED, "a key that may do more cannot be revoked by this one");
    return error_word(err, "scope_not_held");
}

static void on_revoke(struct api_call *call)
{
    struct api *api = api_of(call);
    const char *id = api_parameter(call, "id");
    struct error err;
    if (may_revoke(call, id, &err) < 0) {
        api_fail(call, &err);
        return;
    }
    /* Before it is written: should the disk be full, the key is refused at least here. */
    const struct store_key_change change = {.id = id, .revoked_ns = clock_wall_ns()};
    auth_revoke(api->auth, id, change.revoked_ns);
    tell_log(call, "key revoked", id);
    store_change_key(api->store, &change, on_revoked, call);
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct api_reply key_reply[] = {{200, "Key", NULL, "The key, without its text."}, {0}};
static const struct api_reply created_reply[] = {
    {201, "NewKey", NULL, "The key; its text in the field 'key', this once."}, {0}};
static const struct api_reply list_reply[] = {
    {200, "KeyList", NULL, "A page of them, newest first."}, {0}};
static const int not_found[] = {404, 0}, on_create_errors[] = {409, 413, 0};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_POST, .pattern = "/keys", .scope = SCOPE_KEYS_ADMIN, .flags = API_CREATES, .body_max = BODY_MAX,
     .body = &key_table, .handler = on_create, .again = on_create_again, .makes = ID_KEY,
     .id = "createKey", .tag = "keys", .summary = "Make an API key",
     .help = "Its text is shown this once. A repeated request with the same Idempotency-Key is answered with the same "
             "key, whose text is null: when the first answer was lost, revoke that key and make another.",
     .replies = created_reply, .errors = on_create_errors},
    {.method = METHOD_GET, .pattern = "/keys", .scope = SCOPE_KEYS_ADMIN, .query = &page_table, .handler = on_list,
     .id = "listKeys", .tag = "keys", .summary = "List keys", .help = "The revoked ones, too.", .replies = list_reply},
    {.method = METHOD_GET, .pattern = "/keys/{id}", .scope = SCOPE_KEYS_ADMIN, .handler = on_get,
     .id = "getKey", .tag = "keys", .summary = "Read a key", .replies = key_reply, .errors = not_found},
    {.method = METHOD_DELETE, .pattern = "/keys/{id}", .scope = SCOPE_KEYS_ADMIN, .handler = on_revoke,
     .id = "revokeKey", .tag = "keys", .summary = "Revoke a key",
     .help = "It is refused from now on; its sessions go on until they end. One that is revoked already is answered "
             "the same way.",
     .replies = key_reply, .errors = not_found},
};
/* clang-format on */
const struct api_group rest_key_group = {rows, ARRAY_LEN(rows)};
