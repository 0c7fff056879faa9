/* sqlite_session.c - sessions: who may have one more, and what may become of it
 *
 * What all live sessions of an owner take together stands in `usage`, which triggers keep up to
 * date in the transaction that changes a session: so a quota is one row to look at, and cannot be
 * raced. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "store/sqlite_lease.h"
#include "store/sqlite_verbs.h"

#define AMOUNT_MAX (1ull << 48) /* so that the sum over any number of sessions stays a number */

/* --- add ------------------------------------------------------------------------------------- */

static const char template_sql[] = "SELECT 1 FROM templates WHERE id = :template_id";

/* The limits, and behind them what is used, in the order of amount_names. */
static const char quota_sql[] =
    "SELECT k.sessions, k.cpu_milli, k.memory_bytes, k.disk_bytes,"
    " ifnull(u.sessions, 0), ifnull(u.cpu_milli, 0), ifnull(u.memory_bytes, 0),"
    " ifnull(u.disk_bytes, 0), k.revoked_ns"
    " FROM keys k LEFT JOIN usage u ON u.owner = k.id WHERE k.id = :owner";

static const char *const amount_names[] = {"sessions", "milli-cores", "bytes of memory",
                                           "bytes of disk"};
#define AMOUNTS        ARRAY_LEN(amount_names)
#define REVOKED_COLUMN (2 * AMOUNTS)

static const char object_sql[] = "SELECT CASE WHEN json_valid(:metadata)"
                                 " THEN json_type(:metadata) = 'object' ELSE 0 END";
static const char metadata_sql[] =
    "INSERT OR IGNORE INTO session_metadata (session_id, key, value)"
    " SELECT :id, key, CAST(atom AS TEXT) FROM json_each(:metadata) WHERE atom IS NOT NULL";

/* Runs a question about the session; 1: *out has its row, to be ended. */
static int ask(struct sqlite_db *db, const char *sql, const struct store_session *s,
               struct sqlite_statement **out, struct error *err)
{
    *out = sqlite_get(db, sql, err);
    if (!*out)
        return -1;
    sqlite_bind(*out, &store_type_session, s);
    return sqlite_next(*out, err);
}

static int check_template(struct sqlite_db *db, const struct store_session *s, struct error *err)
{
    struct sqlite_statement *st;
    int found = s->template_id ? ask(db, template_sql, s, &st, err) : 0;
    if (found > 0)
        sqlite_end(st);
    else if (found == 0 && s->template_id)
        return error_set(err, ERROR_NOT_FOUND, "there is no template '%s'", s->template_id);
    return found < 0 ? -1 : 0;
}

static int compare_quota(struct sqlite_statement *st, const struct store_session *s,
                         struct error *err)
{
    const uint64_t takes[AMOUNTS] = {1, s->takes.cpu_milli, s->takes.memory_bytes,
                                     s->takes.disk_bytes};
    if (sqlite_i64(st, REVOKED_COLUMN) != 0)
        return error_set(err, ERROR_DENIED, "the key has been revoked");
    for (size_t i = 0; i < AMOUNTS; i++) {
        uint64_t limit = (uint64_t)sqlite_i64(st, (int)i);
        uint64_t used = (uint64_t)sqlite_i64(st, (int)(AMOUNTS + i));
        if (limit == 0 || used + takes[i] <= limit)
            continue;
        error_set(err, ERROR_LIMIT,
                  "quota of the key: %" PRIu64 " %s are in use, %" PRIu64
                  " more are above %" PRIu64,
                  used, amount_names[i], takes[i], limit);
        return error_hint(err, "terminate a session, or ask for a larger quota");
    }
    return 0;
}

/* An owner that has no key is the operator, who has no quota. */
static int check_quota(struct sqlite_db *db, const struct store_session *s, struct error *err)
{
    const struct store_amounts *t = &s->takes;
    if (t->cpu_milli > AMOUNT_MAX || t->memory_bytes > AMOUNT_MAX || t->disk_bytes > AMOUNT_MAX)
        return error_set(err, ERROR_INVALID, "session: its resources are out of range");
    struct sqlite_statement *st;
    int found = ask(db, quota_sql, s, &st, err);
    if (found <= 0)
        return found;
    int result = compare_quota(st, s, err);
    sqlite_end(st);
    return result;
}

static int check_metadata(struct sqlite_db *db, const struct store_session *s, struct error *err)
{
    struct sqlite_statement *st;
    if (ask(db, object_sql, s, &st, err) < 0)
        return -1;
    bool is_object = sqlite_i64(st, 0);
    sqlite_end(st);
    return is_object ? 0 : error_set(err, ERROR_INVALID, "session: metadata is no JSON object");
}

static int add_metadata(struct sqlite_db *db, const struct store_session *s, struct error *err)
{
    if (!s->metadata || strcmp(s->metadata, "{}") == 0) /* nearly all of them */
        return 0;
    if (check_metadata(db, s, err) < 0)
        return -1;
    return sqlite_change(db, metadata_sql, &store_type_session, s, err) < 0 ? -1 : 0;
}

int sqlite_add_session(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                       struct error *err)
{
    const struct store_session *s = argument;
    (void)rows;
    BUG_ON(!store_session_fits(s->state, s->ended_ns));
    if (check_template(db, s, err) < 0 || check_quota(db, s, err) < 0)
        return -1;
    if (sqlite_insert(db, &store_type_session, s, err) < 0) {
        if (err->code == ERROR_CONFLICT && s->name)
            error_set(err, ERROR_CONFLICT, "there is a session '%s' already", s->name);
        return -1;
    }
    return add_metadata(db, s, err);
}

int sqlite_get_usage(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                     struct error *err)
{
    static const char sql[] = "SELECT sessions, cpu_milli, memory_bytes, disk_bytes FROM usage"
                              " WHERE owner = :owner";
    const struct store_name *name = argument;
    BUG_ON(!name->owner);
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    if (!st)
        return -1;
    sqlite_bind(st, &store_type_name, name);
    if (sqlite_read_all(st, rows, err) < 0)
        return -1;
    if (rows->count == 0)
        store_rows_add(rows); /* one that never had any takes nothing */
    return 0;
}

/* --- change ---------------------------------------------------------------------------------- */

static const char change_sql[] =
    "UPDATE sessions SET state = :to, node = ifnull(:new_node, node),"
    " epoch = iif(:new_node IS NULL, epoch, :new_epoch),"
    " last_used_ns = ifnull(nullif(:last_used_ns, 0), last_used_ns),"
    " expires_ns = ifnull(nullif(:expires_ns, 0), expires_ns),"
    " ended_ns = ifnull(nullif(:ended_ns, 0), ended_ns),"
    " doc = ifnull(:doc, doc), resume = ifnull(:resume, resume) WHERE id = :id";

int sqlite_change_session(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                          struct error *err)
{
    const struct store_session_change *c = argument;
    const struct sqlite_lease wanted = {c->id, c->node, c->epoch, c->from};
    unsigned state;
    (void)rows;
    BUG_ON(!store_session_fits(c->to, c->ended_ns));
    if (sqlite_lease_check(db, &store_type_session, &wanted, &state, err) < 0)
        return -1;
    if (!store_session_may((enum store_session_state)state, c->to))
        return error_set(err, ERROR_CONFLICT, "session '%s' is %s and cannot become %s", c->id,
                         store_session_names[state], store_session_names[c->to]);
    return sqlite_change(db, change_sql, &store_type_session_change, c, err) < 0 ? -1 : 0;
}
