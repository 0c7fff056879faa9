/* sqlite_template.c - what operators set up: templates and keys */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "store/sqlite_verbs.h"

/* --- templates ------------------------------------------------------------------------------- */

static int same_name(const struct store_template *t, struct error *err)
{
    if (err->code != ERROR_CONFLICT)
        return -1;
    error_set(err, ERROR_CONFLICT, "there is a template '%s' already", t->name);
    return error_word(err, "template_exists");
}

static int tell_template(struct sqlite_db *db, const char *id, struct store_rows *rows,
                         struct error *err)
{
    return sqlite_get_record(db, &(struct store_name){.id = id}, rows, err);
}

int sqlite_add_template(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                        struct error *err)
{
    struct store_template first = *(const struct store_template *)argument;
    first.version = 1;
    if (sqlite_insert(db, &store_type_template, &first, err) < 0)
        return same_name(&first, err);
    return tell_template(db, first.id, rows, err);
}

/* The mark stays when the template is removed. */
int sqlite_seed_template(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                         struct error *err)
{
    static const char mark_sql[] = "INSERT INTO meta (key, value) VALUES ('seeded ' || :name, :id)"
                                   " ON CONFLICT (key) DO NOTHING";
    static const char add_sql[] =
        "INSERT INTO templates (id, name, doc, version, created_ns, updated_ns)"
        " VALUES (:id, :name, :doc, 1, :created_ns, :updated_ns) ON CONFLICT (name) DO NOTHING";
    const struct store_template *t = argument;
    int changed = sqlite_change(db, mark_sql, &store_type_template, t, err);
    if (changed > 0)
        changed = sqlite_change(db, add_sql, &store_type_template, t, err);
    return changed > 0 ? tell_template(db, t->id, rows, err) : changed;
}

/* The version of the template `id`; 0: there is none. */
static int64_t version_of(struct sqlite_db *db, const char *id, struct error *err)
{
    static const char sql[] = "SELECT version FROM templates WHERE id = :id";
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    if (!st)
        return -1;
    sqlite_bind_text(st, ":id", id);
    int found = sqlite_next(st, err);
    if (found <= 0)
        return found;
    int64_t version = sqlite_i64(st, 0);
    sqlite_end(st);
    return version;
}

static int check_template(struct sqlite_db *db, const char *id, uint64_t version, struct error *err)
{
    int64_t now = version_of(db, id, err);
    if (now == 0)
        return error_set(err, ERROR_NOT_FOUND, "there is no template '%s'", id);
    if (now < 0 || !version || version == (uint64_t)now)
        return now < 0 ? -1 : 0;
    error_set(err, ERROR_CONFLICT, "template '%s' has changed: it has version %" PRId64, id, now);
    return error_word(err, "version_mismatch");
}

int sqlite_change_template(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                           struct error *err)
{
    static const char sql[] = "UPDATE templates SET name = :name, doc = :doc,"
                              " updated_ns = :updated_ns, version = version + 1 WHERE id = :id";
    const struct store_template *t = argument;
    if (check_template(db, t->id, t->version, err) < 0)
        return -1;
    if (sqlite_change(db, sql, &store_type_template, t, err) < 0)
        return same_name(t, err);
    return tell_template(db, t->id, rows, err);
}

/* How many live sessions use it, or -1. */
static int64_t users_of(struct sqlite_db *db, const struct store_name *name, struct error *err)
{
    static const char sql[] =
        "SELECT count(*) FROM sessions WHERE template_id = :id AND ended_ns = 0";
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    if (!st)
        return -1;
    sqlite_bind(st, &store_type_name, name);
    if (sqlite_next(st, err) < 0)
        return -1;
    int64_t count = sqlite_i64(st, 0);
    sqlite_end(st);
    return count;
}

int sqlite_remove_template(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                           struct error *err)
{
    static const char sql[] = "DELETE FROM templates WHERE id = :id";
    const struct store_name *name = argument;
    (void)rows;
    if (check_template(db, name->id, name->version, err) < 0)
        return -1;
    int64_t users = users_of(db, name, err);
    if (users > 0) {
        error_set(err, ERROR_CONFLICT, "template '%s' is used by %" PRId64 " live sessions",
                  name->id, users);
        error_word(err, "template_in_use");
        return error_hint(err, "terminate them first");
    }
    return users < 0 || sqlite_change(db, sql, &store_type_name, name, err) < 0 ? -1 : 0;
}

/* --- keys ------------------------------------------------------------------------------------ */

int sqlite_add_key(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                   struct error *err)
{
    (void)rows;
    return sqlite_insert(db, &store_type_key, argument, err);
}

int sqlite_change_key(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                      struct error *err)
{
    static const char sql[] =
        "UPDATE keys SET last_used_ns = ifnull(nullif(:last_used_ns, 0), last_used_ns),"
        " revoked_ns = iif(revoked_ns = 0, :revoked_ns, revoked_ns) WHERE id = :id";
    const struct store_key_change *c = argument;
    (void)rows;
    int changed = sqlite_change(db, sql, &store_type_key_change, c, err);
    if (changed == 0)
        return error_set(err, ERROR_NOT_FOUND, "there is no key '%s'", c->id);
    return changed < 0 ? -1 : 0;
}
