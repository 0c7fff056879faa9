/* sqlite_query.c - text of statements, made of the tables of fields and of constant pieces
 *
 * What is put together here is names of columns and conditions of ours: a value never is. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "store/sqlite_verbs.h"
#include "store/store_cursor.h"
#include "store/store_page.h"

#define SQL_MAX_BYTES (8 * KIB)

/* The parts of a mask that tell statements on one table apart; filters have the low bits. */
#define MASK_INSERT  (1u << 31)
#define MASK_REPLACE (1u << 30)
#define MASK_GET     (1u << 29)

/* --- one record ------------------------------------------------------------------------------ */

void sqlite_add_columns(struct strbuf *sql, const struct store_type *type, bool has_heavy)
{
    for (size_t i = 0; i < type->count; i++) {
        bool is_out = (type->fields[i].flags & STORE_FIELD_HEAVY) && !has_heavy;
        strbuf_add_fmt(sql, "%s%s", i ? ", " : "",
                       is_out ? "NULL" : store_field_column(&type->fields[i]));
    }
}

static int write_record(struct sqlite_db *db, unsigned mask, const char *verb,
                        const struct store_type *type, const void *record, struct error *err)
{
    struct sqlite_statement *st = sqlite_find(db, type, mask);
    if (!st) {
        scoped_strbuf struct strbuf sql;
        strbuf_init(&sql, SQL_MAX_BYTES);
        strbuf_add_fmt(&sql, "%s INTO %s (", verb, type->table);
        sqlite_add_columns(&sql, type, true);
        strbuf_add_str(&sql, ") VALUES (");
        for (size_t i = 0; i < type->count; i++)
            strbuf_add_fmt(&sql, "%s%s", i ? ", " : "", type->fields[i].name);
        strbuf_add_str(&sql, ")");
        st = sqlite_make(db, type, mask, strbuf_str(&sql), err);
        if (!st)
            return -1;
    }
    sqlite_bind(st, type, record);
    return sqlite_run(st, err) < 0 ? error_wrap(err, "%s", type->name) : 0;
}

int sqlite_insert(struct sqlite_db *db, const struct store_type *type, const void *record,
                  struct error *err)
{
    return write_record(db, MASK_INSERT, "INSERT", type, record, err);
}

int sqlite_replace(struct sqlite_db *db, const struct store_type *type, const void *record,
                   struct error *err)
{
    return write_record(db, MASK_REPLACE, "REPLACE", type, record, err);
}

int sqlite_read_all(struct sqlite_statement *st, struct store_rows *rows, struct error *err)
{
    int more;
    while ((more = sqlite_next(st, err)) > 0) {
        if (sqlite_read(st, rows->type, store_rows_add(rows), err) < 0)
            return -1;
    }
    return more;
}

/* --- get ------------------------------------------------------------------------------------- */

enum get_bits { GET_BY_NAME = 1 << 0, GET_OWNED = 1 << 1, GET_LIVE = 1 << 2 };

static unsigned get_mask(const struct store_type *type, const struct store_name *name)
{
    bool has_owner = type == &store_type_session || type == &store_type_execution ||
                     type == &store_type_workspace;
    unsigned mask = MASK_GET;
    BUG_ON(!name->id && !name->name);
    if (!name->id)
        mask |= GET_BY_NAME | (type == &store_type_session ? GET_LIVE : 0);
    if (name->owner && has_owner)
        mask |= GET_OWNED;
    return mask;
}

static struct sqlite_statement *get_statement(struct sqlite_db *db, const struct store_type *type,
                                              unsigned mask, struct error *err)
{
    struct sqlite_statement *st = sqlite_find(db, type, mask);
    if (st)
        return st;
    scoped_strbuf struct strbuf sql;
    strbuf_init(&sql, SQL_MAX_BYTES);
    strbuf_add_str(&sql, "SELECT ");
    sqlite_add_columns(&sql, type, true);
    strbuf_add_fmt(&sql, " FROM %s WHERE %s%s%s", type->table,
                   mask & GET_BY_NAME ? "name = :name" : "id = :id",
                   mask & GET_OWNED ? " AND owner = :owner" : "",
                   mask & GET_LIVE ? " AND ended_ns = 0" : "");
    return sqlite_make(db, type, mask, strbuf_str(&sql), err);
}

int sqlite_get_record(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                      struct error *err)
{
    const struct store_name *name = argument;
    struct sqlite_statement *st = get_statement(db, rows->type, get_mask(rows->type, name), err);
    if (!st)
        return -1;
    sqlite_bind(st, &store_type_name, name);
    if (sqlite_read_all(st, rows, err) < 0)
        return -1;
    if (rows->count == 0)
        return error_set(err, ERROR_NOT_FOUND, "there is no %s '%s'", rows->type->name,
                         name->id ? name->id : name->name);
    return 0;
}

/* --- lists ----------------------------------------------------------------------------------- */

enum filter_bits {
    BY_OWNER = 1 << 0,
    BY_SESSION = 1 << 1,
    BY_TEMPLATE = 1 << 2,
    BY_NODE = 1 << 3,
    BY_META = 1 << 4,
    BY_STATES = 1 << 5,
    BY_LIFE = 1 << 6,
    BY_CURSOR = 1 << 7,
};

#define STATE_PARAMETERS 8 /* no record has more states */

static const struct {
    unsigned bit;
    const char *sql;
} conditions[] = {
    {BY_OWNER, " AND owner = :owner"},
    {BY_SESSION, " AND session_id = :session_id"},
    {BY_TEMPLATE, " AND template_id = :template_id"},
    {BY_NODE, " AND node = :node"},
    {BY_META, " AND id IN (SELECT session_id FROM session_metadata"
              " WHERE key = :meta_key AND value = :meta_value)"},
    {BY_STATES, " AND state IN (:s0, :s1, :s2, :s3, :s4, :s5, :s6, :s7)"},
    {BY_LIFE, " AND ended_ns = 0"},
    {BY_CURSOR, " AND (created_ns, id) < (:after_ns, :after_id)"},
};

struct list_kind {
    const struct store_type *type;
    unsigned allowed;
    const char *order;
    struct store_place place; /* when there are cursors */
    const char *const *states;
};

#define BY_TIME "created_ns DESC, id DESC"
#define PLACE(type)                                                                                \
    {                                                                                              \
        offsetof(struct store_##type, id), offsetof(struct store_##type, created_ns)               \
    }
/* clang-format off */
static const struct list_kind list_kinds[] = {
    {&store_type_session, BY_OWNER | BY_TEMPLATE | BY_NODE | BY_META | BY_STATES | BY_LIFE | BY_CURSOR, BY_TIME, PLACE(session), store_session_names},
    {&store_type_execution, BY_OWNER | BY_SESSION | BY_NODE | BY_STATES | BY_LIFE | BY_CURSOR, BY_TIME, PLACE(execution), store_execution_names},
    {&store_type_template, BY_CURSOR, BY_TIME, PLACE(template), NULL},
    {&store_type_key, BY_CURSOR, BY_TIME, PLACE(key), NULL},
    {&store_type_checkpoint, BY_SESSION | BY_CURSOR, BY_TIME, PLACE(checkpoint), NULL},
    {&store_type_workspace, BY_OWNER | BY_CURSOR, BY_TIME, PLACE(workspace), NULL},
    {&store_type_node, 0, "id", {0}, NULL},
};
/* clang-format on */
#undef PLACE

static const struct list_kind *find_kind(const struct store_type *type)
{
    size_t i = 0;
    while (list_kinds[i].type != type)
        i++;
    return &list_kinds[i];
}

static unsigned filter_mask(const struct store_filter *f)
{
    return (f->owner ? BY_OWNER : 0) | (f->session_id ? BY_SESSION : 0) |
           (f->template_id ? BY_TEMPLATE : 0) | (f->node ? BY_NODE : 0) |
           (f->meta_key && f->meta_value ? BY_META : 0) | (f->states ? BY_STATES : 0) |
           (f->is_live ? BY_LIFE : 0) | (f->cursor ? BY_CURSOR : 0);
}

static struct sqlite_statement *list_statement(struct sqlite_db *db, const struct list_kind *kind,
                                               unsigned mask, struct error *err)
{
    struct sqlite_statement *st = sqlite_find(db, kind, mask);
    if (st)
        return st;
    scoped_strbuf struct strbuf sql;
    strbuf_init(&sql, SQL_MAX_BYTES);
    strbuf_add_str(&sql, "SELECT ");
    sqlite_add_columns(&sql, kind->type, false);
    strbuf_add_fmt(&sql, " FROM %s WHERE TRUE", kind->type->table);
    for (size_t i = 0; i < ARRAY_LEN(conditions); i++) {
        if (mask & conditions[i].bit)
            strbuf_add_str(&sql, conditions[i].sql);
    }
    strbuf_add_fmt(&sql, " ORDER BY %s LIMIT :limit", kind->order);
    return sqlite_make(db, kind, mask, strbuf_str(&sql), err);
}

/* A parameter that is not used is null, which no state is equal to. */
static void bind_states(struct sqlite_statement *st, const struct list_kind *kind, uint64_t states)
{
    static const char *const parameters[STATE_PARAMETERS] = {":s0", ":s1", ":s2", ":s3",
                                                             ":s4", ":s5", ":s6", ":s7"};
    for (size_t i = 0; kind->states[i]; i++) {
        BUG_ON(i >= STATE_PARAMETERS);
        if (states & STORE_BIT(i))
            sqlite_bind_text(st, parameters[i], kind->states[i]);
    }
}

int sqlite_list_records(struct sqlite_db *db, const void *argument, struct store_rows *rows,
                        struct error *err)
{
    const struct store_filter *filter = argument;
    const struct list_kind *kind = find_kind(rows->type);
    struct store_cursor after;
    size_t limit = store_page_limit(filter);
    unsigned mask = filter_mask(filter);
    BUG_ON(mask & ~(kind->allowed | BY_CURSOR));
    if (filter->cursor &&
        !((kind->allowed & BY_CURSOR) && store_cursor_parse(filter->cursor, &after)))
        return error_set(err, ERROR_INVALID, "this cursor is none of ours");

    struct sqlite_statement *st = list_statement(db, kind, mask, err);
    if (!st)
        return -1;
    sqlite_bind(st, &store_type_filter, filter);
    if (mask & BY_STATES)
        bind_states(st, kind, filter->states);
    if (mask & BY_CURSOR) {
        sqlite_bind_i64(st, ":after_ns", after.created_ns);
        sqlite_bind_text(st, ":after_id", after.id);
    }
    bool has_pages = kind->allowed & BY_CURSOR;
    sqlite_bind_i64(st, ":limit", has_pages ? (int64_t)limit + 1 : STORE_PAGE_MAX);
    if (sqlite_read_all(st, rows, err) < 0)
        return -1;
    return has_pages ? store_page_cut(rows, &kind->place, limit, err) : 0;
}
