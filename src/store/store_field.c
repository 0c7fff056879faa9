/* store_field.c - the fields of each record and argument, and what can be done with any of them */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_field.h"

#include <string.h>

#include "base/memory.h"
#include "store/store.h"

/* clang-format off */
#define FIELD(s, column, member, kind, flags, words)                                               \
    {":" #column, STORE_FIELD_##kind, flags, offsetof(struct s, member), words}

#define TEXT(s, member)  FIELD(s, member, member, TEXT, 0, NULL)
#define NEEDS(s, member) FIELD(s, member, member, TEXT, STORE_FIELD_NEEDED, NULL)
#define HEAVY(s, member) FIELD(s, member, member, TEXT, STORE_FIELD_HEAVY, NULL)
#define BLOB(s, member)  FIELD(s, member, member, BLOB, 0, NULL)
#define TIME(s, member)  FIELD(s, member, member, I64, 0, NULL)
#define U64(s, member)   FIELD(s, member, member, U64, 0, NULL)
#define BOOL(s, member)  FIELD(s, member, member, BOOL, 0, NULL)
#define STATE(s, member, words) FIELD(s, member, member, STATE, 0, words)
#define INNER(s, column, member) FIELD(s, column, member, U64, 0, NULL) /* of a struct inside */

#define TYPE(id, word, in_table, ...) TYPE_WITH(id, word, in_table, NULL, 0, __VA_ARGS__)
#define TYPE_WITH(id, word, in_table, of, at, ...)                                                 \
    const struct store_type store_type_##id = {                                                    \
        .name = (word), .table = (in_table), .size = sizeof(struct store_##id),                    \
        .inner = (of), .inner_offset = (at),                                                       \
        .count = sizeof((struct store_field[]){__VA_ARGS__}) / sizeof(struct store_field),         \
        .fields = {__VA_ARGS__}}

TYPE(session, "session", "sessions",
    NEEDS(store_session, id), NEEDS(store_session, owner), TEXT(store_session, name),
    STATE(store_session, state, store_session_names), TEXT(store_session, template_id),
    TEXT(store_session, language), TEXT(store_session, node), U64(store_session, epoch),
    INNER(store_session, cpu_milli, takes.cpu_milli), INNER(store_session, memory_bytes, takes.memory_bytes),
    INNER(store_session, disk_bytes, takes.disk_bytes), TIME(store_session, created_ns),
    TIME(store_session, last_used_ns), TIME(store_session, expires_ns),
    TIME(store_session, ended_ns), TEXT(store_session, metadata), TEXT(store_session, doc),
    BLOB(store_session, resume));

TYPE_WITH(execution, "execution", "executions",
    &store_type_artifact, offsetof(struct store_execution, artifacts),
    NEEDS(store_execution, id), TEXT(store_execution, session_id), NEEDS(store_execution, owner),
    STATE(store_execution, state, store_execution_names), TEXT(store_execution, language),
    TEXT(store_execution, node), U64(store_execution, epoch), BOOL(store_execution, is_idempotent),
    U64(store_execution, attempts), TIME(store_execution, created_ns),
    TIME(store_execution, started_ns), TIME(store_execution, ended_ns),
    TIME(store_execution, heartbeat_ns), HEAVY(store_execution, request),
    HEAVY(store_execution, doc));

TYPE(template, "template", "templates",
    NEEDS(store_template, id), NEEDS(store_template, name), TEXT(store_template, doc),
    U64(store_template, version), TIME(store_template, created_ns),
    TIME(store_template, updated_ns));

TYPE(key, "key", "keys",
    NEEDS(store_key, id), TEXT(store_key, name), BLOB(store_key, hash), NEEDS(store_key, scopes),
    INNER(store_key, sessions, quota.sessions), INNER(store_key, cpu_milli, quota.cpu_milli),
    INNER(store_key, memory_bytes, quota.memory_bytes), INNER(store_key, disk_bytes, quota.disk_bytes),
    U64(store_key, rate_per_minute), TIME(store_key, created_ns), TIME(store_key, last_used_ns),
    TIME(store_key, expires_ns), TIME(store_key, revoked_ns));

TYPE(attempt, "attempt", "attempts",
    NEEDS(store_attempt, owner), NEEDS(store_attempt, route), NEEDS(store_attempt, key),
    BLOB(store_attempt, hash), STATE(store_attempt, state, store_attempt_names),
    TEXT(store_attempt, resource), NEEDS(store_attempt, node), U64(store_attempt, epoch),
    U64(store_attempt, status), TEXT(store_attempt, response), TIME(store_attempt, created_ns),
    TIME(store_attempt, expires_ns));

TYPE(artifact, "artifact", "artifacts",
    NEEDS(store_artifact, execution_id), NEEDS(store_artifact, path), TEXT(store_artifact, mime),
    TEXT(store_artifact, place), U64(store_artifact, size), U64(store_artifact, mode),
    TIME(store_artifact, modified_ns), BLOB(store_artifact, sha256));

TYPE(checkpoint, "checkpoint", "checkpoints",
    NEEDS(store_checkpoint, id), NEEDS(store_checkpoint, session_id), TEXT(store_checkpoint, name),
    TEXT(store_checkpoint, doc), BOOL(store_checkpoint, is_lost),
    TIME(store_checkpoint, created_ns));

/* Read through a view of those that are whole; see sqlite_workspace.c for the rest. */
TYPE(workspace, "workspace", "saved_workspaces",
    NEEDS(store_workspace, id), NEEDS(store_workspace, owner), U64(store_workspace, bytes),
    U64(store_workspace, chunks), TIME(store_workspace, created_ns),
    TIME(store_workspace, saved_ns));

TYPE(node, "node", "nodes",
    NEEDS(store_node, id), U64(store_node, epoch), TIME(store_node, heartbeat_ns),
    TEXT(store_node, doc));

TYPE(amounts, "usage", "usage",
    U64(store_amounts, sessions), U64(store_amounts, cpu_milli), U64(store_amounts, memory_bytes),
    U64(store_amounts, disk_bytes));

TYPE(removed, "removed record", NULL,
    TEXT(store_removed, kind), TEXT(store_removed, id));

TYPE(name, "name", NULL,
    TEXT(store_name, id), TEXT(store_name, owner), TEXT(store_name, name),
    U64(store_name, version));

TYPE(filter, "filter", NULL,
    TEXT(store_filter, owner), TEXT(store_filter, session_id), TEXT(store_filter, template_id),
    TEXT(store_filter, node), TEXT(store_filter, meta_key), TEXT(store_filter, meta_value),
    U64(store_filter, states), BOOL(store_filter, is_live), TEXT(store_filter, cursor),
    U64(store_filter, limit));

TYPE(session_change, "change of a session", NULL,
    NEEDS(store_session_change, id), TEXT(store_session_change, node),
    U64(store_session_change, epoch), U64(store_session_change, from),
    STATE(store_session_change, to, store_session_names), TEXT(store_session_change, new_node),
    U64(store_session_change, new_epoch), TIME(store_session_change, last_used_ns),
    TIME(store_session_change, expires_ns), TIME(store_session_change, ended_ns),
    TEXT(store_session_change, doc), BLOB(store_session_change, resume));

TYPE_WITH(execution_change, "change of an execution", NULL,
    &store_type_artifact, offsetof(struct store_execution_change, artifacts),
    NEEDS(store_execution_change, id), TEXT(store_execution_change, node),
    U64(store_execution_change, epoch), U64(store_execution_change, from),
    STATE(store_execution_change, to, store_execution_names),
    TEXT(store_execution_change, new_node), U64(store_execution_change, new_epoch),
    TIME(store_execution_change, started_ns), TIME(store_execution_change, ended_ns),
    TIME(store_execution_change, heartbeat_ns), TEXT(store_execution_change, doc));

TYPE(key_change, "change of a key", NULL,
    NEEDS(store_key_change, id), TIME(store_key_change, last_used_ns),
    TIME(store_key_change, revoked_ns));

TYPE(retention, "retention", NULL,
    TIME(store_retention, before_ns), TIME(store_retention, now_ns), U64(store_retention, limit));

TYPE(stale, "stale artifacts", NULL,
    TIME(store_stale, before_ns), BOOL(store_stale, is_any), U64(store_stale, limit));
/* clang-format on */

const struct store_type store_type_none = {.name = "nothing"};

/* --- copies ---------------------------------------------------------------------------------- */

static size_t field_bytes(const struct store_field *f, const void *record)
{
    const void *at = store_field_at(f, record);
    if (f->kind == STORE_FIELD_TEXT) {
        const char *text = *(const char *const *)at;
        return text ? strlen(text) + 1 : 0;
    }
    return f->kind == STORE_FIELD_BLOB ? ((const struct store_blob *)at)->len : 0;
}

/* Nothing in a request can make a field of ours missing: what is needed is filled by our code. */
static int field_check(const struct store_type *type, const struct store_field *f,
                       const void *record, struct error *err)
{
    const void *at = store_field_at(f, record);
    BUG_ON((f->flags & STORE_FIELD_NEEDED) && !*(const char *const *)at);
    if (f->kind == STORE_FIELD_U64 && *(const uint64_t *)at > INT64_MAX)
        return error_set(err, ERROR_INVALID, "%s: %s is too large", type->name,
                         store_field_column(f));
    return 0;
}

static void *copy_bytes(const void *data, size_t len)
{
    void *copy = xmalloc(len ? len : 1);
    if (len)
        memcpy(copy, data, len);
    return copy;
}

static void field_copy(const struct store_field *f, void *record)
{
    void *at = store_field_at(f, record);
    if (f->kind == STORE_FIELD_TEXT) {
        const char **text = at;
        *text = *text ? xstrdup(*text) : NULL;
    } else if (f->kind == STORE_FIELD_BLOB) {
        struct store_blob *blob = at;
        blob->data = blob->data ? copy_bytes(blob->data, blob->len) : NULL;
    }
}

static void record_release(const struct store_type *type, void *record);

static void list_release(const struct store_type *type, struct store_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        record_release(type, (char *)list->items + i * type->size);
    free((void *)list->items);
    *list = (struct store_list){0};
}

static void record_release(const struct store_type *type, void *record)
{
    if (type->inner)
        list_release(type->inner, store_list_at(type, record));
    for (size_t i = 0; i < type->count; i++) {
        void *at = store_field_at(&type->fields[i], record);
        if (type->fields[i].kind == STORE_FIELD_TEXT)
            free((void *)*(const char **)at);
        else if (type->fields[i].kind == STORE_FIELD_BLOB)
            free((void *)((struct store_blob *)at)->data);
    }
}

static int record_measure(size_t *bytes, const struct store_type *type, const void *record,
                          struct error *err)
{
    size_t total = type->size;
    for (size_t i = 0; i < type->count; i++) {
        if (field_check(type, &type->fields[i], record, err) < 0)
            return -1;
        size_t more = field_bytes(&type->fields[i], record);
        if (more > STORE_RECORD_MAX_BYTES - MIN(total, STORE_RECORD_MAX_BYTES))
            return error_set(err, ERROR_TOO_LARGE, "%s: more than %zu bytes", type->name,
                             STORE_RECORD_MAX_BYTES);
        total += more;
    }
    *bytes = total;
    return 0;
}

static void record_copy(const struct store_type *type, void *record)
{
    for (size_t i = 0; i < type->count; i++)
        field_copy(&type->fields[i], record);
}

/* Each record in it may have as many bytes as one alone. */
static int list_measure(size_t *bytes, const struct store_type *type, const struct store_list *list,
                        struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        size_t more;
        if (record_measure(&more, type, (const char *)list->items + i * type->size, err) < 0)
            return -1;
        *bytes += more;
    }
    return 0;
}

static void list_copy(const struct store_type *type, struct store_list *list)
{
    char *items = list->count ? copy_bytes(list->items, list->count * type->size) : NULL;
    for (size_t i = 0; i < list->count; i++)
        record_copy(type, items + i * type->size);
    list->items = items;
}

int store_record_copy(void **out, size_t *bytes, const struct store_type *type, const void *record,
                      struct error *err)
{
    size_t total;
    if (record_measure(&total, type, record, err) < 0 ||
        (type->inner && list_measure(&total, type->inner, store_list_at(type, record), err) < 0))
        return -1;
    void *copy = copy_bytes(record, type->size);
    record_copy(type, copy);
    if (type->inner)
        list_copy(type->inner, store_list_at(type, copy));
    *out = copy;
    *bytes = total;
    return 0;
}

void store_record_free(const struct store_type *type, void *record)
{
    if (!record)
        return;
    record_release(type, record);
    free(record);
}

/* --- rows ------------------------------------------------------------------------------------ */

void *store_rows_add(struct store_rows *rows)
{
    if (rows->count == rows->cap) {
        rows->cap = rows->cap ? 2 * rows->cap : 1;
        rows->items = xrealloc(rows->items, rows->cap * rows->type->size);
    }
    void *item = (char *)rows->items + rows->count++ * rows->type->size;
    memset(item, 0, rows->type->size);
    return item;
}

void store_rows_drop_last(struct store_rows *rows)
{
    rows->count--;
    record_release(rows->type, (char *)rows->items + rows->count * rows->type->size);
}

void store_rows_clear(struct store_rows *rows)
{
    while (rows->count > 0)
        store_rows_drop_last(rows);
    free(rows->items);
    free(rows->next_cursor);
    *rows = (struct store_rows){.type = rows->type};
}
