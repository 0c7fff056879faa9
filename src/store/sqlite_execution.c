/* sqlite_execution.c - executions, and what they and sessions leave: artifacts, checkpoints */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite_lease.h"
#include "store/sqlite_verbs.h"

static int put_artifacts(struct sqlite_db *db, const struct store_list *list, struct error *err)
{
    const struct store_artifact *items = list->items;
    for (size_t i = 0; i < list->count; i++) {
        if (sqlite_replace(db, &store_type_artifact, &items[i], err) < 0)
            return -1;
    }
    return 0;
}

int sqlite_add_execution(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                         struct error *err)
{
    const struct store_execution *e = argument;
    (void)rows;
    BUG_ON(!store_execution_fits(e->state, e->ended_ns));
    if (sqlite_insert(db, &store_type_execution, e, err) < 0)
        return -1;
    return put_artifacts(db, &e->artifacts, err);
}

static const char change_sql[] =
    "UPDATE executions SET attempts = attempts + (state = 'running' AND :to = 'queued'),"
    " state = :to, node = ifnull(:new_node, node),"
    " epoch = iif(:new_node IS NULL, epoch, :new_epoch),"
    " started_ns = ifnull(nullif(:started_ns, 0), started_ns),"
    " ended_ns = ifnull(nullif(:ended_ns, 0), ended_ns),"
    " heartbeat_ns = ifnull(nullif(:heartbeat_ns, 0), heartbeat_ns),"
    " doc = ifnull(:doc, doc) WHERE id = :id";

int sqlite_change_execution(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                            struct error *err)
{
    const struct store_execution_change *c = argument;
    const struct sqlite_lease wanted = {c->id, c->node, c->epoch, c->from};
    unsigned state;
    (void)rows;
    BUG_ON(!store_execution_fits(c->to, c->ended_ns));
    if (sqlite_lease_check(db, &store_type_execution, &wanted, &state, err) < 0)
        return -1;
    if (!store_execution_may((enum store_execution_state)state, c->to))
        return error_set(err, ERROR_CONFLICT, "execution '%s' is %s and cannot become %s", c->id,
                         store_execution_names[state], store_execution_names[c->to]);
    if (sqlite_change(db, change_sql, &store_type_execution_change, c, err) < 0)
        return -1;
    return put_artifacts(db, &c->artifacts, err);
}

int sqlite_put_artifact(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                        struct error *err)
{
    (void)rows;
    return sqlite_replace(db, &store_type_artifact, argument, err);
}

int sqlite_list_artifacts(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                          struct error *err)
{
    static const char sql[] =
        "SELECT execution_id, path, mime, place, size, mode, modified_ns, sha256 FROM artifacts"
        " WHERE execution_id = :id ORDER BY path";
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    if (!st)
        return -1;
    sqlite_bind(st, &store_type_name, argument);
    return sqlite_read_all(st, rows, err);
}

/* Of one execution after the other, so that a page has whole ones but for its last. */
int sqlite_list_stale(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                      struct error *err)
{
    static const char sql[] =
        "SELECT a.execution_id, a.path, a.mime, a.place, a.size, a.mode, a.modified_ns, a.sha256"
        " FROM artifacts a JOIN executions e ON e.id = a.execution_id"
        " LEFT JOIN sessions s ON s.id = e.session_id"
        " WHERE a.place IS NOT NULL AND e.ended_ns > 0 AND e.ended_ns < :before_ns AND"
        " (:is_any OR s.id IS NULL OR (s.ended_ns > 0 AND s.ended_ns < :before_ns))"
        " ORDER BY e.ended_ns, e.id, a.path LIMIT :limit";
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    if (!st)
        return -1;
    sqlite_bind(st, &store_type_stale, argument);
    return sqlite_read_all(st, rows, err);
}

int sqlite_get_kept(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                    struct error *err)
{
    static const char sql[] = "SELECT 0, 0, 0, ifnull(sum(size), 0) FROM artifacts"
                              " WHERE place IS NOT NULL";
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    (void)argument;
    return st ? sqlite_read_all(st, rows, err) : -1;
}

int sqlite_put_checkpoint(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                          struct error *err)
{
    (void)rows;
    return sqlite_replace(db, &store_type_checkpoint, argument, err);
}

int sqlite_remove_checkpoint(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                             struct error *err)
{
    static const char sql[] = "DELETE FROM checkpoints WHERE id = :id";
    const struct store_name *name = argument;
    (void)rows;
    int changed = sqlite_change(db, sql, &store_type_name, name, err);
    if (changed == 0)
        return error_set(err, ERROR_NOT_FOUND, "there is no checkpoint '%s'", name->id);
    return changed < 0 ? -1 : 0;
}
