/* store_ops.h - what a back end of the store is: blocking calls, one thread per connection
 *
 * store.c queues, groups and answers; a back end knows SQL. For each store there are two
 * connections, one that writes and one that reads, each used by one thread at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "store/store.h"
#include "store/store_field.h"

/* One row per call: its name, the lane on which it runs, what its argument and its records are. */
/* clang-format off */
#define STORE_VERBS(X)                                                                             \
    /* verb             lane   argument           records */                                       \
    X(ADD_SESSION,       WRITE, session,           none)                                           \
    X(KEEP_SESSION,      WRITE, session,           none)                                           \
    X(CHANGE_SESSION,    WRITE, session_change,    none)                                           \
    X(GET_SESSION,       READ,  name,              session)                                        \
    X(LIST_SESSIONS,     READ,  filter,            session)                                        \
    X(GET_USAGE,         READ,  name,              amounts)                                        \
    X(ADD_EXECUTION,     WRITE, execution,         none)                                           \
    X(KEEP_EXECUTION,    WRITE, execution,         none)                                           \
    X(CHANGE_EXECUTION,  WRITE, execution_change,  none)                                           \
    X(GET_EXECUTION,     READ,  name,              execution)                                      \
    X(LIST_EXECUTIONS,   READ,  filter,            execution)                                      \
    X(PUT_ARTIFACT,      WRITE, artifact,          none)                                           \
    X(LIST_ARTIFACTS,    READ,  name,              artifact)                                       \
    X(LIST_STALE,        READ,  stale,             artifact)                                       \
    X(GET_KEPT,          READ,  name,              amounts)                                        \
    X(PUT_CHECKPOINT,    WRITE, checkpoint,        none)                                           \
    X(REMOVE_CHECKPOINT, WRITE, name,              none)                                           \
    X(LIST_CHECKPOINTS,  READ,  filter,            checkpoint)                                     \
    X(PUT_WORKSPACE,     WRITE, workspace,         none)                                           \
    X(REMOVE_WORKSPACE,  WRITE, name,              none)                                           \
    X(GET_WORKSPACE,     READ,  name,              workspace)                                      \
    X(LIST_WORKSPACES,   READ,  filter,            workspace)                                      \
    X(LIST_STALE_SAVES,  READ,  stale,             workspace)                                      \
    X(ADD_TEMPLATE,      WRITE, template,          template)                                       \
    X(SEED_TEMPLATE,     WRITE, template,          template)                                       \
    X(CHANGE_TEMPLATE,   WRITE, template,          template)                                       \
    X(REMOVE_TEMPLATE,   WRITE, name,              none)                                           \
    X(GET_TEMPLATE,      READ,  name,              template)                                       \
    X(LIST_TEMPLATES,    READ,  filter,            template)                                       \
    X(ADD_KEY,           WRITE, key,               none)                                           \
    X(CHANGE_KEY,        WRITE, key_change,        none)                                           \
    X(GET_KEY,           READ,  name,              key)                                            \
    X(LIST_KEYS,         READ,  filter,            key)                                            \
    X(BEGIN_ATTEMPT,     WRITE, attempt,           attempt)                                        \
    X(END_ATTEMPT,       WRITE, attempt,           none)                                           \
    X(DROP_ATTEMPT,      WRITE, attempt,           none)                                           \
    X(BEGIN_NODE,        WRITE, node,              node)                                           \
    X(BEAT_NODE,         WRITE, node,              none)                                           \
    X(LIST_NODES,        READ,  filter,            node)                                           \
    X(RETAIN,            WRITE, retention,         removed)
/* clang-format on */

enum store_verb {
#define X(verb, lane, argument, records) STORE_VERB_##verb,
    STORE_VERBS(X)
#undef X
        STORE_VERB_COUNT
};

enum store_lane { STORE_LANE_WRITE, STORE_LANE_READ, STORE_LANES };

struct store_ops {
    /* The writing connection is opened first, and finds out all that is wrong with the database;
     * the reading one begins when that went well. */
    int (*open)(void **out, const struct store_order *order, enum store_lane lane,
                struct error *err);
    void (*close)(void *db); /* the reading one first */

    /* Around every group of writes; with no patience it fails at once where somebody else holds the
     * database. When commit fails the transaction is gone, without a trace. */
    int (*begin)(void *db, bool is_patient, struct error *err);
    int (*commit)(void *db, struct error *err);
    void (*abandon)(void *db); /* in place of a commit */

    /* One call. A write that fails leaves nothing in its transaction, and may have lost all of it:
     * then commit and every later write fail. `rows` is empty, and of the verb's type. */
    int (*run)(void *db, enum store_verb verb, const void *argument, struct store_rows *rows,
               struct error *err);

    /* For a back end beside which there is a ledger, else NULL: the number of the last entry that
     * it has taken over, set in a transaction. get_mark: 0 when it has never been set, else 1. */
    int (*mark)(void *db, uint64_t entry, struct error *err);
    int (*get_mark)(void *db, uint64_t *entry, struct error *err);

    /* After those who wait were told, on the writing connection: what can wait, and may take long.
     */
    bool (*needs_rest)(void *db);
    void (*rest)(void *db);

    /* Bytes that all connections of this process take, kept pages most of all. From any thread. */
    uint64_t (*memory)(void);
};
