/* auth_key.c - all keys in memory: read at the start, kept in step with what is written */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/auth_inside.h"
#include "base/clock.h"
#include "base/memory.h"

#define NS_PER_MS     1000000ll
#define USED_EVERY_NS (60 * 1000000000ll) /* how often the store learns that a key is used */

struct auth_key *auth_find(const struct auth *a, const char *id)
{
    struct map_node *node = map_find(&a->keys, id);
    return node ? MAP_OF(node, struct auth_key, by_id) : NULL;
}

/* What a later program has written may not be known here: such a key may do nothing. */
static unsigned read_scopes(const struct auth *a, const struct store_key *key)
{
    unsigned scopes = 0;
    if (!scope_parse(key->scopes, &scopes))
        log_warn(a->log, "a key has scopes that are not known", LOG_STR("key", key->id));
    return scopes & ~(unsigned)SCOPE_INTERNAL;
}

static bool has_quota(const struct store_amounts *q)
{
    return q->sessions || q->cpu_milli || q->memory_bytes || q->disk_bytes;
}

void auth_add(struct auth *a, const struct store_key *key)
{
    if (!id_is_valid(ID_KEY, key->id) || key->hash.len != SHA256_BYTES || auth_find(a, key->id))
        return; /* nobody can show such a key; or a page of the list has it once more */
    struct auth_key *k = xcalloc(1, sizeof(*k));
    memcpy(k->id, key->id, strlen(key->id));
    memcpy(k->hash, key->hash.data, SHA256_BYTES);
    k->rate = a->keys_rate;
    if (key->rate_per_minute)
        k->rate = (struct rate_rule){.per_minute = key->rate_per_minute};
    k->expires_ns = key->expires_ns;
    k->revoked_ns = key->revoked_ns;
    unsigned scopes = read_scopes(a, key);
    k->quota = key->quota;
    k->user = (struct api_user){{.owner = k->id,
                                 .sees_all = scopes & SCOPE_ADMIN,
                                 .quota = has_quota(&k->quota) ? &k->quota : NULL},
                                scopes};
    map_add(&a->keys, &k->by_id, k->id);
}

int auth_check_room(const struct auth *a, struct error *err)
{
    if (a->keys.count < AUTH_KEYS_MAX)
        return 0;
    return error_set(err, ERROR_LIMIT, "there are %zu keys, the revoked ones included: no more",
                     a->keys.count);
}

bool auth_find_scopes(const struct auth *a, const char *id, unsigned *out)
{
    const struct auth_key *k = auth_find(a, id);
    if (k)
        *out = k->user.scopes;
    return k;
}

/* --- who is told of a revocation -------------------------------------------------------------- */

/* One that is linked nowhere is fine. */
static void unlink_watch(struct auth_watch *w)
{
    if (!w->link)
        return;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    w->link = NULL;
}

/* A clock that was set back moves the end, too. */
static void wait_for_expiry(struct auth_watch *w);

static void on_expiry_time(void *ctx)
{
    struct auth_watch *w = ctx;
    loop_timer_free(take_ptr(&w->timer));
    if (clock_wall_ns() < w->key->expires_ns) {
        wait_for_expiry(w);
        return;
    }
    unlink_watch(w);
    w->fn(w->ctx);
}

static void wait_for_expiry(struct auth_watch *w)
{
    int64_t left_ns = w->key->expires_ns - clock_wall_ns();
    w->timer =
        loop_timer_new(w->auth->loop, (uint64_t)MAX(left_ns, 0) / NS_PER_MS + 1, on_expiry_time, w);
}

struct auth_watch *auth_watch_new(struct auth *a, const char *owner, void (*fn)(void *ctx),
                                  void *ctx)
{
    struct auth_key *k = auth_find(a, owner);
    if (!k)
        return NULL;
    struct auth_watch *w = xcalloc(1, sizeof(*w));
    *w = (struct auth_watch){
        .next = k->watches, .link = &k->watches, .fn = fn, .ctx = ctx, .auth = a, .key = k};
    if (k->expires_ns && a->loop)
        wait_for_expiry(w);
    if (w->next)
        w->next->link = &w->next;
    k->watches = w;
    return w;
}

void auth_watch_free(struct auth_watch *w)
{
    if (!w)
        return;
    unlink_watch(w);
    loop_timer_free(w->timer);
    free(w);
}

void auth_revoke(struct auth *a, const char *id, int64_t now_ns)
{
    struct auth_key *k = auth_find(a, id);
    if (!k || k->revoked_ns)
        return;
    k->revoked_ns = now_ns;
    while (k->watches) {
        struct auth_watch *w = k->watches;
        unlink_watch(w);
        w->fn(w->ctx); /* which frees it, and perhaps others */
    }
}

/* --- at the start ----------------------------------------------------------------------------- */

static void end_load(struct auth *a, const struct error *err)
{
    take_ptr (&a->loaded)(a->loaded_ctx, err);
}

static void load_page(struct auth *a, const char *cursor);

static void on_page(void *ctx, const struct store_answer *answer)
{
    struct auth *a = ctx;
    if (answer->err) {
        end_load(a, answer->err);
        return;
    }
    for (size_t i = 0; i < answer->count; i++)
        auth_add(a, &answer->keys[i]);
    if (answer->next_cursor)
        load_page(a, answer->next_cursor);
    else
        end_load(a, NULL);
}

static void load_page(struct auth *a, const char *cursor)
{
    const struct store_filter filter = {.cursor = cursor, .limit = STORE_PAGE_MAX};
    store_list_keys(a->store, &filter, on_page, a);
}

void auth_load(struct auth *a, void (*done)(void *ctx, const struct error *err), void *ctx)
{
    a->loaded = done;
    a->loaded_ctx = ctx;
    load_page(a, NULL);
}

/* --- last used -------------------------------------------------------------------------------- */

static void ignore(void *ctx, const struct store_answer *answer)
{
    (void)ctx, (void)answer; /* it is told again in a minute */
}

void auth_tell_used(struct auth *a, struct auth_key *k, int64_t now_ns)
{
    if (k->told_ns && now_ns - k->told_ns < USED_EVERY_NS)
        return;
    k->told_ns = now_ns;
    const struct store_key_change change = {.id = k->id, .last_used_ns = clock_wall_ns()};
    store_change_key(a->store, &change, ignore, NULL);
}
