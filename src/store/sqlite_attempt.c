/* sqlite_attempt.c - what keeps requests and nodes apart: idempotency keys, epochs; and retention
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "store/sqlite_verbs.h"

/* --- attempts -------------------------------------------------------------------------------- */

static const char find_sql[] =
    "SELECT owner, route, key, hash, state, resource, node, epoch, status, response, created_ns,"
    " expires_ns FROM attempts WHERE owner = :owner AND route = :route AND key = :key"
    " AND expires_ns > :created_ns";
static const char take_sql[] = "UPDATE attempts SET epoch = :epoch"
                               " WHERE owner = :owner AND route = :route AND key = :key";
static const char end_sql[] =
    "UPDATE attempts SET state = 'done', status = :status, response = :response,"
    " resource = ifnull(:resource, resource)"
    " WHERE owner = :owner AND route = :route AND key = :key AND state = 'under_way'"
    " AND node = :node AND epoch = :epoch";
static const char drop_sql[] =
    "DELETE FROM attempts WHERE owner = :owner AND route = :route AND key = :key"
    " AND state = 'under_way' AND node = :node AND epoch = :epoch"
    " AND resource = ifnull(:resource, resource)";

static int add_attempt(struct sqlite_db *db, const struct store_attempt *wanted,
                       struct store_rows *rows, struct error *err)
{
    struct store_attempt first = *wanted;
    struct sqlite_statement *st;
    first.state = STORE_ATTEMPT_UNDER_WAY;
    first.status = 0;
    first.response = NULL;
    if (sqlite_replace(db, &store_type_attempt, &first, err) < 0 ||
        !(st = sqlite_get(db, find_sql, err)))
        return -1;
    sqlite_bind(st, &store_type_attempt, &first);
    if (sqlite_read_all(st, rows, err) < 0)
        return -1;
    if (rows->count == 0)
        return error_set(err, ERROR_INVALID, "attempt: it expires before it begins");
    ((struct store_attempt *)rows->items)->is_mine = true;
    return 0;
}

/* One of an older epoch of this node died with it. */
static int meet_attempt(struct sqlite_db *db, const struct store_attempt *wanted,
                        struct store_attempt *found, struct error *err)
{
    bool is_same = found->hash.len == wanted->hash.len &&
                   memcmp(found->hash.data, wanted->hash.data, wanted->hash.len) == 0;
    if (!is_same) {
        error_set(err, ERROR_CONFLICT, "this Idempotency-Key came with another request before");
        return error_hint(err, "use a new key for each new request");
    }
    bool is_dead = found->state == STORE_ATTEMPT_UNDER_WAY &&
                   strcmp(found->node, wanted->node) == 0 && found->epoch < wanted->epoch;
    if (!is_dead)
        return 0;
    found->is_mine = true;
    found->epoch = wanted->epoch;
    return sqlite_change(db, take_sql, &store_type_attempt, wanted, err) < 0 ? -1 : 0;
}

int sqlite_begin_attempt(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                         struct error *err)
{
    const struct store_attempt *wanted = argument;
    struct sqlite_statement *st = sqlite_get(db, find_sql, err);
    BUG_ON(wanted->hash.len != STORE_HASH_BYTES);
    if (!st)
        return -1;
    sqlite_bind(st, &store_type_attempt, wanted);
    if (sqlite_read_all(st, rows, err) < 0)
        return -1;
    return rows->count == 0 ? add_attempt(db, wanted, rows, err)
                            : meet_attempt(db, wanted, rows->items, err);
}

int sqlite_end_attempt(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                       struct error *err)
{
    (void)rows;
    int changed = sqlite_change(db, end_sql, &store_type_attempt, argument, err);
    if (changed == 0)
        return error_set(err, ERROR_CONFLICT, "the attempt is not this node's any more");
    return changed < 0 ? -1 : 0;
}

int sqlite_drop_attempt(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                        struct error *err)
{
    (void)rows;
    return sqlite_change(db, drop_sql, &store_type_attempt, argument, err) < 0 ? -1 : 0;
}

/* --- nodes ----------------------------------------------------------------------------------- */

int sqlite_begin_node(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                      struct error *err)
{
    static const char sql[] =
        "INSERT INTO nodes (id, epoch, heartbeat_ns, doc) VALUES (:id, 1, :heartbeat_ns, :doc)"
        " ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1, heartbeat_ns = excluded.heartbeat_ns,"
        " doc = ifnull(excluded.doc, doc) RETURNING id, epoch, heartbeat_ns, doc";
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    if (!st)
        return -1;
    sqlite_bind(st, &store_type_node, argument);
    return sqlite_read_all(st, rows, err);
}

int sqlite_beat_node(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                     struct error *err)
{
    static const char sql[] =
        "UPDATE nodes SET heartbeat_ns = :heartbeat_ns, doc = ifnull(:doc, doc)"
        " WHERE id = :id AND epoch = :epoch";
    const struct store_node *node = argument;
    (void)rows;
    int changed = sqlite_change(db, sql, &store_type_node, node, err);
    if (changed == 0)
        return error_set(err, ERROR_CONFLICT, "another epoch of node '%s' has begun", node->id);
    return changed < 0 ? -1 : 0;
}

/* --- retention ------------------------------------------------------------------------------- */

/* In this order: a session whose executions are all gone can go. What belongs to them, artifacts,
 * checkpoints, metadata, goes with them; the bytes of artifacts have to be gone before, since
 * nobody could find them afterwards. */
static const char *const retain_sql[] = {
    "DELETE FROM executions WHERE id IN (SELECT id FROM executions e WHERE ended_ns > 0"
    " AND ended_ns < :before_ns AND NOT EXISTS (SELECT 1 FROM artifacts WHERE execution_id = e.id"
    " AND place IS NOT NULL) ORDER BY ended_ns LIMIT :limit) RETURNING 'execution', id",
    "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions s WHERE ended_ns > 0"
    " AND ended_ns < :before_ns AND NOT EXISTS (SELECT 1 FROM executions WHERE session_id = s.id)"
    " ORDER BY ended_ns LIMIT :limit) RETURNING 'session', id",
    "DELETE FROM attempts WHERE (owner, route, key) IN (SELECT owner, route, key FROM attempts"
    " WHERE expires_ns <= :now_ns ORDER BY expires_ns LIMIT :limit)",
};

int sqlite_retain(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                  struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(retain_sql); i++) {
        struct sqlite_statement *st = sqlite_get(db, retain_sql[i], err);
        if (!st)
            return -1;
        sqlite_bind(st, &store_type_retention, argument);
        if (sqlite_read_all(st, rows, err) < 0)
            return -1;
    }
    return 0;
}
