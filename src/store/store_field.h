/* store_field.h - records as tables of fields: one way to copy, check, write and read all of them
 *
 * For back ends. The name of a field is its column and its parameter in SQL. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"
#include "store/store_record.h"

#define STORE_FIELDS_MAX 24

enum store_field_kind {
    STORE_FIELD_TEXT,  /* const char *, NULL: none */
    STORE_FIELD_BLOB,  /* struct store_blob */
    STORE_FIELD_I64,   /* int64_t */
    STORE_FIELD_U64,   /* uint64_t, up to INT64_MAX as databases have no more */
    STORE_FIELD_BOOL,  /* bool */
    STORE_FIELD_STATE, /* an enum, by its word */
};

enum store_field_flags {
    STORE_FIELD_NEEDED = 1 << 0, /* text or bytes that may not be missing */
    STORE_FIELD_HEAVY = 1 << 1,  /* lists leave it out */
};

struct store_field {
    const char *name; /* as a parameter, ":id" */
    enum store_field_kind kind;
    unsigned flags;
    size_t offset;
    const char *const *words; /* of a state */
};

struct store_type {
    const char *name;  /* "session", for messages */
    const char *table; /* NULL: it is no record, but an argument */
    size_t size;
    const struct store_type *inner; /* of the records in its struct store_list; NULL: it has none */
    size_t inner_offset;
    size_t count;
    struct store_field fields[STORE_FIELDS_MAX];
};

extern const struct store_type store_type_session, store_type_execution, store_type_template,
    store_type_key, store_type_attempt, store_type_artifact, store_type_workspace,
    store_type_checkpoint, store_type_node, store_type_amounts, store_type_removed, store_type_name,
    store_type_filter, store_type_session_change, store_type_execution_change,
    store_type_key_change, store_type_retention, store_type_stale, store_type_none;

/* An owned copy with all it points to, ended by store_record_free(). *bytes is what it holds.
 * ERROR_INVALID: a needed field is missing, a number too large. ERROR_TOO_LARGE: above
 * STORE_RECORD_MAX_BYTES, as one of the records in it may be. */
MUST_CHECK int store_record_copy(void **out, size_t *bytes, const struct store_type *type,
                                 const void *record, struct error *err);
void store_record_free(const struct store_type *type, void *record); /* NULL is fine */

/* The same as bytes, with the names of its fields: what another version does not know it skips, and
 * what it finds missing is 0. The second answers with an owned record, or NULL: they are none. */
void store_record_pack(struct strbuf *out, const struct store_type *type, const void *record);
void *store_record_unpack(const struct store_type *type, const void *data, size_t len);

/* A word in front of a packed record, of which unpacking takes no notice. */
void store_record_mark(struct strbuf *out, const char *word);
bool store_record_is_marked(const char *word, const void *data, size_t len);

static inline const char *store_field_column(const struct store_field *f)
{
    return f->name + 1;
}

/* Where field `f` of a record is. */
static inline void *store_field_at(const struct store_field *f, const void *record)
{
    return (char *)record + f->offset;
}

/* The list in a record of a type that has one. */
static inline struct store_list *store_list_at(const struct store_type *type, const void *record)
{
    return (struct store_list *)((char *)record + type->inner_offset);
}

/* Records that a call answers with; each owns what it points to. */
struct store_rows {
    const struct store_type *type;
    void *items;
    size_t count, cap;
    char *next_cursor;
};

void *store_rows_add(struct store_rows *rows); /* a zeroed record at the end, borrowed */
void store_rows_drop_last(struct store_rows *rows);
void store_rows_clear(struct store_rows *rows); /* empty again, of the same type */
