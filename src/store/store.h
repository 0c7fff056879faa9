/* store.h - sessions, executions, templates, keys at rest: asynchronous calls on any back end
 *
 * A call copies its argument and returns; its callback comes later on the loop's thread, exactly
 * once, and never from inside the call. A write is answered when it is committed, or, the end of an
 * execution, when it is in the ledger beside the database: what was told is still there after kill
 * -9 (and after a power cut with STORE_SYNC_FULL). Writes take effect in the
 * order of their calls; many of them share one commit. A read sees every write that was answered.
 *
 * A write that failed has left nothing. What error_passes() is the only exception: the disk is full
 * (ERROR_NO_SPACE) or broken or somebody else holds the database, and it is not known whether the
 * write will be found after a crash; it may be tried again, and the store works again once the
 * cause is gone.
 *
 * Threads: everything here is called on the loop's thread. The store has two threads of its own,
 * begun by store_open(): restrictions that hold for one thread only are to be in place before. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "base/scoped.h"
#include "event/loop.h"
#include "store/store_record.h"

#define STORE_PAGE_MAX         1000 /* records of one page */
#define STORE_PAGE_DEFAULT     50
#define STORE_RECORD_MAX_BYTES (16 * MIB)    /* text and bytes of one argument */
#define STORE_QUEUE_MAX        (size_t)20000 /* calls that wait; more are ERROR_UNAVAILABLE */
#define STORE_QUEUE_MAX_BYTES  (128 * MIB)   /* of their arguments */

struct store;
struct store_ops;

enum store_sync {
    STORE_SYNC_NORMAL, /* survives the end of any process */
    STORE_SYNC_FULL,   /* and that of the power supply */
    STORE_SYNC_NONE,   /* as NORMAL, but the disk is never waited for: nobody needs it later */
};

struct store_order {
    const char *place; /* sqlite: the path of the database, made when it is not there */
    enum store_sync sync;
    uint64_t busy_ms;         /* how long to wait for another program's lock; 0: 5 s */
    uint64_t check_max_bytes; /* a database of up to this size is checked page by page at the start;
                                 0: 32 MiB */
};

/* Fails, with a hint, when the database is broken, newer than this program, read-only, in use by
 * another coved, or the disk is full. `order` and `ops` are borrowed: the one for the call. */
MUST_CHECK int store_open(struct store **out, struct loop *loop, const struct store_ops *ops,
                          const struct store_order *order, struct error *err);

/* Finishes what was asked, answers it (from inside this call), and ends the threads. Not from a
 * callback. */
void store_free(struct store *store);
SCOPED_DEFINE(store)

struct store_answer {
    const struct error *err; /* NULL: it went well */
    size_t count;            /* of the records below; a `get` that went well has one */
    union {
        const struct store_session *sessions;
        const struct store_execution *executions;
        const struct store_template *templates;
        const struct store_key *keys;
        const struct store_attempt *attempts;
        const struct store_artifact *artifacts;
        const struct store_checkpoint *checkpoints;
        const struct store_workspace *workspaces;
        const struct store_node *nodes;
        const struct store_amounts *usage;
        const struct store_removed *removed;
        const void *records;
    };
    const char *next_cursor; /* a list: where the next page begins; NULL: this was the last */
};

/* Everything in the answer is borrowed for the call. */
typedef void (*store_fn)(void *ctx, const struct store_answer *answer);

/* Plain data, for /health and metrics. */
struct store_info {
    uint64_t queued;       /* calls that wait or are under way */
    uint64_t commits;      /* transactions that were committed */
    uint64_t written;      /* writes that were told; over `commits` it is the size of a group */
    uint64_t failed;       /* calls that ended by an error that passes */
    uint64_t dropped;      /* ends of executions that were kept, then refused: a defect of ours */
    uint64_t memory_bytes; /* that the database takes in this process, up to a limit */
    bool is_failing;       /* the last transaction could not be committed... */
    char why[512];         /* ...because of this */
};

void store_get_info(struct store *store, struct store_info *out);

/* --- names, filters, changes ----------------------------------------------------------------- */

/* One record: by its id, or by a name (of a session: its owner's live one; of a template). With an
 * owner, what belongs to others is ERROR_NOT_FOUND. */
struct store_name {
    const char *id;
    const char *owner; /* NULL: anybody's */
    const char *name;
    uint64_t version; /* of a template that is removed; 0: any */
};

/* Which records a list has, newest first; each member narrows it unless it is NULL or 0, and is to
 * be left so in lists of records that do not have it. A page continues where the last one ended,
 * whatever was added or removed meanwhile. */
struct store_filter {
    const char *owner;       /* sessions, executions, workspaces */
    const char *session_id;  /* executions, checkpoints */
    const char *template_id; /* sessions */
    const char *node;        /* sessions, executions */
    const char *meta_key;    /* sessions; with meta_value */
    const char *meta_value;
    uint64_t states;    /* sessions, executions: STORE_BIT() of each */
    bool is_live;       /* sessions, executions: those that have not ended */
    const char *cursor; /* `next_cursor` of the page before; bad ones are ERROR_INVALID */
    uint64_t limit;     /* 0: STORE_PAGE_DEFAULT */
};

/* `from`: the states it may be in, 0: any from which `to` is legal; else ERROR_CONFLICT. With a
 * node the lease must still be this one's, else ERROR_CONFLICT. NULL and 0 leave what is there. */
struct store_session_change {
    const char *id;
    const char *node;
    uint64_t epoch;
    uint64_t from;
    enum store_session_state to;
    const char *new_node; /* the lease goes over */
    uint64_t new_epoch;
    int64_t last_used_ns, expires_ns, ended_ns;
    const char *doc;
    struct store_blob resume;
};

struct store_execution_change {
    const char *id;
    const char *node;
    uint64_t epoch;
    uint64_t from;
    enum store_execution_state to; /* QUEUED, from RUNNING, counts as a new attempt */
    const char *new_node;
    uint64_t new_epoch;
    int64_t started_ns, ended_ns, heartbeat_ns;
    const char *doc;
    struct store_list artifacts; /* of struct store_artifact: what it left */
};

struct store_key_change {
    const char *id;
    int64_t last_used_ns;
    int64_t revoked_ns; /* once revoked it stays so, with the first time */
};

struct store_retention {
    int64_t before_ns; /* sessions and executions that ended before this... */
    int64_t now_ns;    /* ...and attempts that expired */
    uint64_t limit;    /* most of each kind: so that no transaction takes long */
};

/* --- sessions -------------------------------------------------------------------------------- */

/* In one transaction: the key is not revoked, its quota has room (else ERROR_LIMIT), the template
 * exists (else ERROR_NOT_FOUND), id and name are new (else ERROR_CONFLICT). */
void store_add_session(struct store *store, const struct store_session *session, store_fn fn,
                       void *ctx);
/* One that nobody can object to: its id is new, it has neither name nor metadata, its owner no key,
 * and its template was there when it was asked for. The answer may come sooner, as that of
 * store_keep_execution(). */
void store_keep_session(struct store *store, const struct store_session *session, store_fn fn,
                        void *ctx);
void store_change_session(struct store *store, const struct store_session_change *change,
                          store_fn fn, void *ctx);
void store_get_session(struct store *store, const struct store_name *name, store_fn fn, void *ctx);
void store_list_sessions(struct store *store, const struct store_filter *filter, store_fn fn,
                         void *ctx);

/* What the live sessions of an owner take; store_name.owner. */
void store_get_usage(struct store *store, const struct store_name *name, store_fn fn, void *ctx);

/* --- executions ------------------------------------------------------------------------------ */

/* Queued, running, or whole at its end. Its session must exist (else ERROR_NOT_FOUND). */
void store_add_execution(struct store *store, const struct store_execution *execution, store_fn fn,
                         void *ctx);
/* One that has ended and was never added, whole; its id is new and its session exists. The answer
 * comes sooner than that of others: when it is safe, though not in the database yet. */
void store_keep_execution(struct store *store, const struct store_execution *execution, store_fn fn,
                          void *ctx);
void store_change_execution(struct store *store, const struct store_execution_change *change,
                            store_fn fn, void *ctx);
void store_get_execution(struct store *store, const struct store_name *name, store_fn fn,
                         void *ctx);
void store_list_executions(struct store *store, const struct store_filter *filter, store_fn fn,
                           void *ctx);

/* What an execution leaves is written with its end; this is for what is learnt of it later. A
 * second one of the same path replaces the first. The list has all of an execution (id). */
void store_put_artifact(struct store *store, const struct store_artifact *artifact, store_fn fn,
                        void *ctx);
void store_list_artifacts(struct store *store, const struct store_name *execution, store_fn fn,
                          void *ctx);
/* Those whose bytes may go: they have a place, and keep it until they are put without one. */
void store_list_stale_artifacts(struct store *store, const struct store_stale *stale, store_fn fn,
                                void *ctx);
/* What all that have a place take together, whoever's they are: the usage in the answer has their
 * bytes as disk_bytes. The name is empty. */
void store_get_kept(struct store *store, const struct store_name *name, store_fn fn, void *ctx);

/* The same id again replaces it. */
void store_put_checkpoint(struct store *store, const struct store_checkpoint *checkpoint,
                          store_fn fn, void *ctx);
void store_remove_checkpoint(struct store *store, const struct store_name *name, store_fn fn,
                             void *ctx);
void store_list_checkpoints(struct store *store, const struct store_filter *filter, store_fn fn,
                            void *ctx);

/* --- saved workspaces ------------------------------------------------------------------------ */

/* Without `saved_ns` a save begins, and what is there of an earlier one stays; with it, it is
 * whole. Those that never were are in no answer but that of the stale ones. Removing one that is
 * not there is no error. */
void store_put_workspace(struct store *store, const struct store_workspace *workspace, store_fn fn,
                         void *ctx);
void store_remove_workspace(struct store *store, const struct store_name *name, store_fn fn,
                            void *ctx);
void store_get_workspace(struct store *store, const struct store_name *name, store_fn fn,
                         void *ctx);
void store_list_workspaces(struct store *store, const struct store_filter *filter, store_fn fn,
                           void *ctx);
void store_list_stale_workspaces(struct store *store, const struct store_stale *stale, store_fn fn,
                                 void *ctx);

/* --- templates and keys ---------------------------------------------------------------------- */

/* Adding, seeding and changing answer with the record as it is then. */
void store_add_template(struct store *store, const struct store_template *template, store_fn fn,
                        void *ctx);
/* Adds it, unless one of this name is there or was seeded before: what operators have changed or
 * removed stays so. The answer has it when it was added. */
void store_seed_template(struct store *store, const struct store_template *template, store_fn fn,
                         void *ctx);
/* Name, doc and updated_ns become these. A version that is not 0 must be the one that is there. */
void store_change_template(struct store *store, const struct store_template *template, store_fn fn,
                           void *ctx);
/* ERROR_CONFLICT while live sessions use it, or when it has another version than store_name's. */
void store_remove_template(struct store *store, const struct store_name *name, store_fn fn,
                           void *ctx);
void store_get_template(struct store *store, const struct store_name *name, store_fn fn, void *ctx);
void store_list_templates(struct store *store, const struct store_filter *filter, store_fn fn,
                          void *ctx);

void store_add_key(struct store *store, const struct store_key *key, store_fn fn, void *ctx);
void store_change_key(struct store *store, const struct store_key_change *change, store_fn fn,
                      void *ctx);
void store_get_key(struct store *store, const struct store_name *name, store_fn fn, void *ctx);
void store_list_keys(struct store *store, const struct store_filter *filter, store_fn fn,
                     void *ctx);

/* --- attempts: Idempotency-Key --------------------------------------------------------------- */

/* Answers with one record:
 *   is_mine                      go on, then end or drop it. When the resource is not the one that
 *                                was passed, an older epoch of this node began it and died: look
 *                                whether the resource was made
 *   else under way               somebody else works on it
 *   done                         the response of the first; NULL: it was not kept
 * Another hash is ERROR_CONFLICT. What expired before created_ns of the new one never was. */
void store_begin_attempt(struct store *store, const struct store_attempt *attempt, store_fn fn,
                         void *ctx);
/* Keeps status and response. It must be this node's, of this epoch. */
void store_end_attempt(struct store *store, const struct store_attempt *attempt, store_fn fn,
                       void *ctx);
/* Nothing came of it: the next is the first. */
void store_drop_attempt(struct store *store, const struct store_attempt *attempt, store_fn fn,
                        void *ctx);

/* --- nodes and time -------------------------------------------------------------------------- */

/* A node begins: its epoch is raised, and told in the answer (one node). */
void store_begin_node(struct store *store, const struct store_node *node, store_fn fn, void *ctx);
/* The heartbeat; ERROR_CONFLICT: another epoch has begun, this node is to stop. */
void store_beat_node(struct store *store, const struct store_node *node, store_fn fn, void *ctx);
void store_list_nodes(struct store *store, const struct store_filter *filter, store_fn fn,
                      void *ctx);

/* One bounded step; the answer has what was removed, of sessions and executions. To be called
 * again while it is not empty. A session stays as long as it has executions, and an execution as
 * long as the bytes of an artifact of its are at rest. */
void store_retain(struct store *store, const struct store_retention *retention, store_fn fn,
                  void *ctx);
