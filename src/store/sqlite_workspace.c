/* sqlite_workspace.c - which workspaces are saved, and which saves were begun */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite_verbs.h"

int sqlite_put_workspace(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                         struct error *err)
{
    static const char sql[] =
        "INSERT INTO workspaces (id, owner, bytes, chunks, created_ns, saved_ns)"
        " VALUES (:id, :owner, :bytes, :chunks, :created_ns, :saved_ns)"
        " ON CONFLICT (id) DO UPDATE SET owner = :owner, bytes = :bytes, chunks = :chunks,"
        " saved_ns = :saved_ns WHERE :saved_ns > 0";
    (void)rows;
    return sqlite_change(db, sql, &store_type_workspace, argument, err) < 0 ? -1 : 0;
}

int sqlite_remove_workspace(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                            struct error *err)
{
    (void)rows;
    return sqlite_change(db, "DELETE FROM workspaces WHERE id = :id", &store_type_name, argument,
                         err) < 0
               ? -1
               : 0;
}

int sqlite_list_stale_workspaces(struct sqlite_db *db, const void *argument,
                                 struct store_rows *rows, struct error *err)
{
    static const char sql[] =
        "SELECT id, owner, bytes, chunks, created_ns, saved_ns FROM workspaces"
        " WHERE max(created_ns, saved_ns) < :before_ns ORDER BY created_ns, id LIMIT :limit";
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    if (!st)
        return -1;
    sqlite_bind(st, &store_type_stale, argument);
    return sqlite_read_all(st, rows, err);
}
