/* store_world.h - a store in a folder of its own, asked one question at a time */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "check.h"
#include "event/loop.h"
#include "store/sqlite.h"
#include "store/store.h"
#include "store/store_field.h"

#define WORLD_ROWS_MAX STORE_PAGE_MAX

struct world {
    char *dir, *path; /* of the database */
    struct loop *loop;
    struct store *store;
    size_t waiting;

    /* The last answer; what is in it lives until the next. */
    bool has_failed;
    struct error err;
    size_t count;
    const struct store_type *type;
    void *rows[WORLD_ROWS_MAX];
    char next[128]; /* cursor; "" at the end */
};

void world_open(struct world *w);
void world_close(struct world *w); /* the folder goes, too */

/* Only the store; a second one on the same files. */
int world_try_open(struct world *w, const struct store_order *order);
void world_reopen(struct world *w);

void world_on_answer(void *ctx, const struct store_answer *answer);
void world_wait(struct world *w); /* until all that was asked is answered */

void world_begin(struct world *w, const struct store_type *type); /* a question comes next */

/* Asks, and waits for the answer. */
#define ask(w, call, ...)                                                                          \
    do {                                                                                           \
        world_begin(w, NULL);                                                                      \
        call((w)->store, __VA_ARGS__, world_on_answer, (w));                                       \
        world_wait(w);                                                                             \
    } while (0)

/* The same for an answer with records, of which row(w, session, 0) is the first. */
#define ask_for(w, kind, call, ...)                                                                \
    do {                                                                                           \
        world_begin(w, &store_type_##kind);                                                        \
        call((w)->store, __VA_ARGS__, world_on_answer, (w));                                       \
        world_wait(w);                                                                             \
    } while (0)
#define row(w, kind, i) ((const struct store_##kind *)world_row(w, i))
const void *world_row(const struct world *w, size_t i);

#define assert_done(w)         assert_string_equal((w)->has_failed ? (w)->err.msg : "", "")
#define assert_refused(w, why) assert_int_equal((w)->has_failed ? (int)(w)->err.code : -1, why)

/* Records that are whole but for what a test is about. */
struct store_session a_session(const char *id);
struct store_execution an_execution(const char *id, const char *session_id);
struct store_key a_key(const char *id);
struct store_attempt an_attempt(const char *resource, uint64_t epoch);

/* What must succeed. */
void add_session(struct world *w, const struct store_session *s);
void end_session(struct world *w, const char *id, int64_t at);
void add_template(struct world *w, const char *id, const char *name);
