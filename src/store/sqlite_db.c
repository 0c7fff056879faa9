/* sqlite_db.c - statements and errors of one connection */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite_db.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"

struct sqlite_statement {
    struct sqlite_db *db;
    sqlite3_stmt *stmt;
    const void *key;
    unsigned mask;
    uint64_t used; /* the turn in which it was used last */
    const struct store_type *type;
    int parameters[STORE_FIELDS_MAX]; /* of each field of `type`; 0: none */
};

/* --- errors ---------------------------------------------------------------------------------- */

struct fault {
    int code; /* of SQLite, extended or not; the first that fits counts */
    enum error_code as;
    unsigned retry_ms;
    const char *message, *hint;
};

static const struct fault faults[] = {
    {SQLITE_FULL, ERROR_NO_SPACE, 5000, "the disk of the database is full",
     "free space where the data directory is; the store goes on by itself"},
    {SQLITE_BUSY, ERROR_UNAVAILABLE, 1000, "the database is locked by another program",
     "end the program that holds it, such as a database shell with an open transaction"},
    {SQLITE_LOCKED, ERROR_UNAVAILABLE, 1000, "the database is locked", ""},
    {SQLITE_READONLY, ERROR_UNAVAILABLE, 5000, "the database cannot be written to",
     "look at the mount and at the rights of the data directory"},
    {SQLITE_PERM, ERROR_UNAVAILABLE, 5000, "the database may not be opened",
     "look at the rights of the data directory"},
    {SQLITE_CANTOPEN, ERROR_UNAVAILABLE, 5000, "a file of the database cannot be opened",
     "look at the rights and the free space of the data directory"},
    {SQLITE_CORRUPT, ERROR_UNAVAILABLE, 0, "the database is damaged",
     "restore a backup, or save what can be read with: sqlite3 FILE .recover"},
    {SQLITE_NOTADB, ERROR_UNAVAILABLE, 0, "the file is not a database, or its beginning is damaged",
     "restore a backup, or move the file away to begin anew"},
    {SQLITE_IOERR, ERROR_UNAVAILABLE, 5000, "the disk of the database does not work",
     "look at the kernel's log"},
    {SQLITE_NOMEM, ERROR_UNAVAILABLE, 1000, "no memory is left for the database", ""},
    {SQLITE_TOOBIG, ERROR_TOO_LARGE, 0, "the record is too large for the database", ""},
    {SQLITE_CONSTRAINT_CHECK, ERROR_INVALID, 0, "a value is out of range", ""},
    {SQLITE_CONSTRAINT_DATATYPE, ERROR_INVALID, 0, "a value is out of range", ""},
    {SQLITE_CONSTRAINT_NOTNULL, ERROR_INVALID, 0, "a value is missing", ""},
    {SQLITE_CONSTRAINT_FOREIGNKEY, ERROR_NOT_FOUND, 0, "what it belongs to is not there", ""},
    {SQLITE_CONSTRAINT, ERROR_CONFLICT, 0, "it is there already", ""},
};

/* What the system said about the last write to the log; its errno may be overwritten by then. */
static int log_errno(struct sqlite_db *db)
{
    sqlite3_file *file = NULL;
    int cause = 0;
    sqlite3_file_control(db->handle, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &file);
    if (file && file->pMethods)
        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &cause);
    return cause;
}

/* Some calls report a disk that is full, or read-only, as one that does not work. */
static int true_code(struct sqlite_db *db, int code)
{
    int cause = db->handle ? sqlite3_system_errno(db->handle) : 0;
    if ((code & 0xff) != SQLITE_IOERR)
        return code;
    if (code == SQLITE_IOERR_WRITE && db->handle)
        cause = log_errno(db);
    bool is_full = cause == ENOSPC || cause == EDQUOT;
    return is_full ? SQLITE_FULL : cause == EROFS ? SQLITE_READONLY : code;
}

int sqlite_fault(struct sqlite_db *db, int code, struct error *err)
{
    code = true_code(db, code);
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        const struct fault *f = &faults[i];
        if (f->code != code && f->code != (code & 0xff))
            continue;
        error_set(err, f->as, "%s", f->message);
        if (f->hint[0])
            error_hint(err, "%s", f->hint);
        err->retry_ms = f->retry_ms;
        return -1;
    }
    return error_set(err, ERROR_INTERNAL, "database: %s",
                     db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(code));
}

int sqlite_do(struct sqlite_db *db, const char *sql, struct error *err)
{
    int code = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : sqlite_fault(db, code, err);
}

/* --- the cache ------------------------------------------------------------------------------- */

struct sqlite_statement *sqlite_find(struct sqlite_db *db, const void *key, unsigned mask)
{
    for (size_t i = 0; i < db->statement_count; i++) {
        struct sqlite_statement *st = db->statements[i];
        if (st->key == key && st->mask == mask) {
            st->used = ++db->turn;
            return st;
        }
    }
    return NULL;
}

/* Filters can be combined in more ways than are worth keeping: the one unused longest goes. */
static struct sqlite_statement **free_place(struct sqlite_db *db)
{
    if (db->statement_count < SQLITE_STATEMENTS_MAX)
        return &db->statements[db->statement_count++];
    struct sqlite_statement **oldest = &db->statements[0];
    for (size_t i = 1; i < db->statement_count; i++) {
        if (db->statements[i]->used < (*oldest)->used)
            oldest = &db->statements[i];
    }
    sqlite3_finalize((*oldest)->stmt);
    free(*oldest);
    return oldest;
}

struct sqlite_statement *sqlite_make(struct sqlite_db *db, const void *key, unsigned mask,
                                     const char *sql, struct error *err)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
    if (code != SQLITE_OK) {
        sqlite_fault(db, code, err);
        return NULL;
    }
    struct sqlite_statement *st = xcalloc(1, sizeof(*st));
    *st = (struct sqlite_statement){
        .db = db, .stmt = stmt, .key = key, .mask = mask, .used = ++db->turn};
    *free_place(db) = st;
    return st;
}

struct sqlite_statement *sqlite_get(struct sqlite_db *db, const char *sql, struct error *err)
{
    struct sqlite_statement *st = sqlite_find(db, sql, 0);
    return st ? st : sqlite_make(db, sql, 0, sql, err);
}

void sqlite_drop_statements(struct sqlite_db *db)
{
    for (size_t i = 0; i < db->statement_count; i++) {
        sqlite3_finalize(db->statements[i]->stmt);
        free(db->statements[i]);
    }
    db->statement_count = 0;
}

/* --- values in ------------------------------------------------------------------------------- */

static void find_parameters(struct sqlite_statement *st, const struct store_type *type)
{
    if (st->type == type)
        return;
    st->type = type;
    for (size_t i = 0; i < type->count; i++)
        st->parameters[i] = sqlite3_bind_parameter_index(st->stmt, type->fields[i].name);
}

static void bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
    /* NULL binds null. Borrowed until the statement ends. */
    sqlite3_bind_text64(stmt, at, text, text ? strlen(text) : 0, SQLITE_STATIC, SQLITE_UTF8);
}

static void bind_blob(sqlite3_stmt *stmt, int at, const struct store_blob *blob)
{
    sqlite3_bind_blob64(stmt, at, blob->data, blob->len, SQLITE_STATIC);
}

static void bind_field(sqlite3_stmt *stmt, int at, const struct store_field *f, const void *value)
{
    switch (f->kind) {
    case STORE_FIELD_TEXT:
        bind_text(stmt, at, *(const char *const *)value);
        return;
    case STORE_FIELD_BLOB:
        bind_blob(stmt, at, value);
        return;
    case STORE_FIELD_I64:
    case STORE_FIELD_U64: /* checked to fit */
        sqlite3_bind_int64(stmt, at, *(const int64_t *)value);
        return;
    case STORE_FIELD_BOOL:
        sqlite3_bind_int(stmt, at, *(const bool *)value);
        return;
    case STORE_FIELD_STATE:
        bind_text(stmt, at, f->words[*(const unsigned *)value]);
        return;
    }
}

void sqlite_bind(struct sqlite_statement *st, const struct store_type *type, const void *record)
{
    find_parameters(st, type);
    for (size_t i = 0; i < type->count; i++) {
        if (st->parameters[i] > 0)
            bind_field(st->stmt, st->parameters[i], &type->fields[i],
                       store_field_at(&type->fields[i], record));
    }
}

void sqlite_bind_text(struct sqlite_statement *st, const char *parameter, const char *text)
{
    bind_text(st->stmt, sqlite3_bind_parameter_index(st->stmt, parameter), text);
}

void sqlite_bind_i64(struct sqlite_statement *st, const char *parameter, int64_t value)
{
    sqlite3_bind_int64(st->stmt, sqlite3_bind_parameter_index(st->stmt, parameter), value);
}

/* --- rows out -------------------------------------------------------------------------------- */

int sqlite_next(struct sqlite_statement *st, struct error *err)
{
    int code = sqlite3_step(st->stmt);
    if (code == SQLITE_ROW)
        return 1;
    /* The cause is told before the reset, which forgets it. */
    if (code != SQLITE_DONE)
        sqlite_fault(st->db, code, err);
    sqlite_end(st);
    return code == SQLITE_DONE ? 0 : -1;
}

void sqlite_end(struct sqlite_statement *st)
{
    sqlite3_reset(st->stmt); /* tells a failure of the last step once more */
    sqlite3_clear_bindings(st->stmt);
}

int sqlite_run(struct sqlite_statement *st, struct error *err)
{
    int more;
    while ((more = sqlite_next(st, err)) > 0)
        ;
    return more < 0 ? -1 : sqlite3_changes(st->db->handle);
}

int sqlite_change(struct sqlite_db *db, const char *sql, const struct store_type *type,
                  const void *argument, struct error *err)
{
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    if (!st)
        return -1;
    sqlite_bind(st, type, argument);
    return sqlite_run(st, err);
}

static const void *read_bytes(sqlite3_stmt *stmt, int column, const void *bytes, size_t *len)
{
    *len = bytes ? (size_t)sqlite3_column_bytes(stmt, column) : 0;
    if (sqlite3_column_type(stmt, column) == SQLITE_NULL)
        return NULL;
    char *copy = xmalloc(*len + 1);
    if (*len > 0)
        memcpy(copy, bytes, *len);
    copy[*len] = '\0';
    return copy;
}

static int read_state(struct sqlite_statement *st, int column, const struct store_field *f,
                      unsigned *out, struct error *err)
{
    int state = store_state_find(f->words, sqlite_text(st, column));
    if (state < 0)
        return error_set(err, ERROR_INTERNAL, "the database has a state '%.40s', which is unknown",
                         sqlite_text(st, column));
    *out = (unsigned)state;
    return 0;
}

static int read_field(struct sqlite_statement *st, int column, const struct store_field *f,
                      void *value, struct error *err)
{
    sqlite3_stmt *stmt = st->stmt;
    struct store_blob *blob = value;
    size_t len;
    switch (f->kind) {
    case STORE_FIELD_TEXT:
        *(const void **)value = read_bytes(stmt, column, sqlite3_column_text(stmt, column), &len);
        return 0;
    case STORE_FIELD_BLOB:
        blob->data = read_bytes(stmt, column, sqlite3_column_blob(stmt, column), &blob->len);
        return 0;
    case STORE_FIELD_I64:
    case STORE_FIELD_U64:
        *(int64_t *)value = sqlite3_column_int64(stmt, column);
        return 0;
    case STORE_FIELD_BOOL:
        *(bool *)value = sqlite3_column_int(stmt, column) != 0;
        return 0;
    case STORE_FIELD_STATE:
        return read_state(st, column, f, value, err);
    }
    return 0;
}

int sqlite_read(struct sqlite_statement *st, const struct store_type *type, void *record,
                struct error *err)
{
    for (size_t i = 0; i < type->count; i++) {
        const struct store_field *f = &type->fields[i];
        if (read_field(st, (int)i, f, store_field_at(f, record), err) < 0) {
            sqlite_end(st);
            return -1;
        }
    }
    return 0;
}

int64_t sqlite_i64(struct sqlite_statement *st, int column)
{
    return sqlite3_column_int64(st->stmt, column);
}

const char *sqlite_text(struct sqlite_statement *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st->stmt, column);
    return text ? text : "";
}
