/* store_early.c - lists of sessions, with those that are told and not in the database yet
 *
 * What was told when a list was asked for is copied then, and put among what was read: a list waits
 * for no commit, and goes on while the database takes none. What was committed meanwhile is in
 * both, and counts as it was read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/store_cursor.h"
#include "store/store_inside.h"
#include "store/store_page.h"

/* As lists are ordered: < 0, `a` comes first, being newer. */
static int compare(int64_t a_ns, const char *a, int64_t b_ns, const char *b)
{
    return a_ns != b_ns ? (a_ns < b_ns) - (a_ns > b_ns) : strcmp(b, a);
}

static int compare_sessions(const void *a, const void *b)
{
    const struct store_session *x = a, *y = b;
    return compare(x->created_ns, x->id, y->created_ns, y->id);
}

static bool is_same(const char *wanted, const char *text)
{
    return !wanted || (text && strcmp(wanted, text) == 0);
}

/* As the database judges. None of these has ended, and none has metadata. */
static bool matches(const struct store_session *s, const struct store_filter *f)
{
    struct store_cursor after;
    if (!is_same(f->owner, s->owner) || !is_same(f->template_id, s->template_id) ||
        !is_same(f->node, s->node) || (f->states && !(f->states & STORE_BIT(s->state))))
        return false;
    if (f->meta_key && f->meta_value)
        return false;
    return !f->cursor || (store_cursor_parse(f->cursor, &after) &&
                          compare(s->created_ns, s->id, after.created_ns, after.id) > 0);
}

static void copy_matching(const struct call_list *list, struct call *call)
{
    for (const struct call *one = list->first; one; one = one->next) {
        void *copy;
        size_t bytes;
        struct error err;
        if (one->verb != STORE_VERB_KEEP_SESSION || !matches(one->argument, call->argument) ||
            store_record_copy(&copy, &bytes, &store_type_session, one->argument, &err) < 0)
            continue;
        memcpy(store_rows_add(&call->early), copy, sizeof(struct store_session));
        free(copy); /* what it points to has moved */
    }
}

void early_find(const struct store *s, struct call *call)
{
    call->early.type = &store_type_session;
    copy_matching(&s->lag.told, call);
    copy_matching(&s->lag.taken, call);
}

static bool has_session(const struct store_rows *rows, const char *id)
{
    const struct store_session *list = rows->items;
    for (size_t i = 0; i < rows->count; i++) {
        if (strcmp(list[i].id, id) == 0)
            return true;
    }
    return false;
}

/* Whether it stands on this page, of which so many were read: a list that goes on has what comes
 * behind the last of them on its next page. */
static bool is_here(const struct store_rows *rows, size_t read, const struct store_session *s)
{
    const struct store_session *list = rows->items;
    return !has_session(rows, s->id) &&
           (!rows->next_cursor || compare_sessions(s, &list[read - 1]) < 0);
}

void early_merge(struct call *call)
{
    struct store_session *early = call->early.items;
    struct store_rows *rows = &call->rows;
    size_t read = rows->count;
    struct error err;
    for (size_t i = 0; i < call->early.count; i++) {
        if (!is_here(rows, read, &early[i]))
            continue;
        memcpy(store_rows_add(rows), &early[i], sizeof(early[i]));
        early[i] = (struct store_session){0}; /* it has moved */
    }
    if (rows->count == read)
        return;
    qsort(rows->items, rows->count, sizeof(struct store_session), compare_sessions);
    if (store_page_cut(rows, &store_session_place, store_page_limit(call->argument), &err) < 0)
        call_fail(call, &err);
}
