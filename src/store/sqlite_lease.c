/* sqlite_lease.c - the look at a record before it is changed, inside the same transaction */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite_lease.h"

#include <string.h>

enum columns { STATE, NODE, EPOCH, ENDED_NS };

static const char session_sql[] =
    "SELECT state, node, epoch, ended_ns FROM sessions WHERE id = :id";
static const char execution_sql[] =
    "SELECT state, node, epoch, ended_ns FROM executions WHERE id = :id";

static int compare(struct sqlite_statement *st, const struct store_type *type,
                   const struct sqlite_lease *wanted, unsigned *out, struct error *err)
{
    bool is_session = type == &store_type_session;
    const char *word = sqlite_text(st, STATE);
    int state = store_state_find(is_session ? store_session_names : store_execution_names, word);
    if (state < 0)
        return error_set(err, ERROR_INTERNAL, "%s '%s' has a state '%.40s', which is unknown",
                         type->name, wanted->id, word);
    bool is_held = !wanted->node || (strcmp(wanted->node, sqlite_text(st, NODE)) == 0 &&
                                     wanted->epoch == (uint64_t)sqlite_i64(st, EPOCH));
    if (!is_held)
        return error_set(err, ERROR_CONFLICT, "%s '%s' is held by another node", type->name,
                         wanted->id);
    bool is_expected = wanted->from == 0 || (wanted->from & STORE_BIT(state));
    if (sqlite_i64(st, ENDED_NS) != 0 || !is_expected)
        return error_set(err, ERROR_CONFLICT, "%s '%s' is %s", type->name, wanted->id, word);
    *out = (unsigned)state;
    return 0;
}

int sqlite_lease_check(struct sqlite_db *db, const struct store_type *type,
                       const struct sqlite_lease *wanted, unsigned *state, struct error *err)
{
    const char *sql = type == &store_type_session ? session_sql : execution_sql;
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    if (!st)
        return -1;
    sqlite_bind_text(st, ":id", wanted->id);
    int found = sqlite_next(st, err);
    if (found == 0)
        return error_set(err, ERROR_NOT_FOUND, "there is no %s '%s'", type->name, wanted->id);
    if (found < 0)
        return -1;
    int result = compare(st, type, wanted, state, err);
    sqlite_end(st);
    return result;
}
