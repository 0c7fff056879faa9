/* plane.h - the sessions and executions of this machine, for every door
 *
 * What is told is written down first. A session lives here while its sandbox does; what is over is
 * read from the store. Whoever asks sees what is his own; others' do not exist for him.
 *
 * One thread. Callbacks come exactly once, from the loop or from inside the call. Documents are
 * JSON as text, borrowed for the call. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/log.h"
#include "core/archive.h"
#include "core/catalog.h"
#include "core/gateway.h"
#include "core/journal.h"
#include "core/links.h"
#include "core/wish.h"
#include "store/store.h"

struct plane;
struct tail;

/* Borrowed as long as the plane lives. */
struct plane_order {
    struct loop *loop;
    struct spawner_client *spawner;
    struct store *store;
    struct catalog *catalog;
    struct archive *archive;   /* NULL: nothing that executions make is kept */
    const struct links *links; /* how it is reached; NULL: not at all */
    const struct log *log;
    const char *node;
    uint64_t epoch;
    size_t output_bytes;      /* kept of each stream of an execution, at most */
    uint64_t timeout_ms;      /* of an execution that asks for no other... */
    uint64_t timeout_max_ms;  /* ...and at most */
    uint64_t ttl_ms, idle_ms; /* of sessions that ask for no others; 0: none */
    uint64_t max_executions;  /* that run at a time; 0: any number */
    struct gateway *gateway;  /* for sandboxes that may reach something; NULL: none may */
    struct network_bounds network;
};

MUST_CHECK int plane_open(struct plane **out, const struct plane_order *order, struct error *err);

/* Goes on with what an earlier process on this node has left: takes over live sessions and what
 * runs in them, writes down as lost what is gone, and removes sandboxes that belong to nobody. To
 * be called once, before anything else; templates are in the catalog by then. */
void plane_recover(struct plane *plane, void (*done)(void *ctx, const struct error *err),
                   void *ctx);

/* Writes down what is not yet, without waiting: before the store is freed. */
void plane_flush(struct plane *plane);

/* Lets everything go without ending it, for the next process; after the store, which answers what
 * is under way. */
void plane_free(struct plane *plane);
SCOPED_DEFINE(plane)

/* To be told of every event of the spawner (NULL: it is gone). */
void plane_on_event(struct plane *plane, const struct spawn_message *m);

/* --- who asks, and what he gets --------------------------------------------------------------- */

struct plane_caller {
    const char *owner; /* the id of his key; "": the operator */
    bool sees_all;
    const struct store_amounts *quota; /* of what he has here; NULL: no limit */
};

typedef void (*plane_fn)(void *ctx, const char *text, size_t len, const struct error *err);

/* --- sessions --------------------------------------------------------------------------------- */

/* `id` is the one that it is to have; NULL: any. */
void plane_create(struct plane *plane, const struct plane_caller *who, const char *id,
                  const struct session_wish *wish, plane_fn fn, void *ctx);

/* `word` is an id or a name. The newest that has ended is found by its id alone. */
void plane_get(struct plane *plane, const struct plane_caller *who, const char *word, plane_fn fn,
               void *ctx);

/* {"sessions": [...], "next_cursor": ...} */
struct plane_filter {
    char *template, *cursor;
    char *metadata; /* key=value */
    char *session;  /* executions */
    int state;      /* of a session or of an execution */
    bool has_state, is_live;
    int64_t limit;
};
void plane_list(struct plane *plane, const struct plane_caller *who,
                const struct plane_filter *filter, plane_fn fn, void *ctx);

void plane_end(struct plane *plane, const struct plane_caller *who, const char *word, plane_fn fn,
               void *ctx); /* one that has ended is fine */
void plane_reset(struct plane *plane, const struct plane_caller *who, const char *word, plane_fn fn,
                 void *ctx);
void plane_interrupt(struct plane *plane, const struct plane_caller *who, const char *word,
                     plane_fn fn, void *ctx);
/* From now on it has so long to live. */
void plane_extend(struct plane *plane, const struct plane_caller *who, const char *word,
                  uint64_t ttl_ms, plane_fn fn, void *ctx);

/* A live session, for questions, checkpoints, forks, files; NULL with *err: not found, or over. It
 * counts as used. */
struct session *plane_use(struct plane *plane, const struct plane_caller *who, const char *word,
                          struct error *err);
const char *plane_session_id(struct plane *plane, const struct plane_caller *who,
                             const char *word); /* of a live one; or NULL */
/* Whether a live session has all of these, in whatever form they are asked for. ERROR_CONFLICT: its
 * packages were chosen when it began. */
MUST_CHECK int plane_check_packages(struct plane *plane, const struct plane_caller *who,
                                    const char *word, const struct param_strings *wanted,
                                    struct error *err);

/* Writes down what another process needs to go on with it; what the store is asked for next is
 * written after that. */
void plane_write(struct plane *plane, const char *id);

/* What plane_use() was for is over, and the session is free again: what waits for it begins. */
void plane_go_on(struct plane *plane, const char *id);

/* `id` is the one that the fork is to have; NULL: any. */
void plane_fork(struct plane *plane, const struct plane_caller *who, const char *id,
                const char *word, const char *name, plane_fn fn, void *ctx);

/* terminal_open() in a live session, with the variables that it was given. */
struct terminal;
struct terminal_order;
MUST_CHECK int plane_open_terminal(struct terminal **out, struct plane *plane,
                                   const struct plane_caller *who, const char *word,
                                   const struct terminal_order *order, struct error *err);

/* errand_open() in a live session. */
struct errand;
struct errand_order;
MUST_CHECK int plane_open_errand(struct errand **out, struct plane *plane,
                                 const struct plane_caller *who, const char *word,
                                 const struct errand_order *order, struct error *err);

/* --- executions ------------------------------------------------------------------------------- */

/* In a session. ASYNC: `fn` when it is written down. SYNC: at its end. STREAM: as ASYNC, and the
 * journal is kept for plane_listen(). `id` is the one that it is to have, or "": then one is filled
 * in, before `fn` is called. It is for plane_cancel(), and must live until `fn`. */
void plane_execute(struct plane *plane, const struct plane_caller *who, const char *word,
                   const struct code_wish *wish, char id[ID_BYTES], plane_fn fn, void *ctx);

/* In a sandbox of its own, which is gone afterwards; at its end. */
void plane_execute_once(struct plane *plane, const struct plane_caller *who,
                        const struct code_wish *wish, char id[ID_BYTES], plane_fn fn, void *ctx);

/* The document: whole when it has ended, else as far as it is known. */
void plane_get_execution(struct plane *plane, const struct plane_caller *who, const char *id,
                         plane_fn fn, void *ctx);
void plane_list_executions(struct plane *plane, const struct plane_caller *who,
                           const struct plane_filter *filter, plane_fn fn, void *ctx);

/* Writes down one that somebody waits for, so that its id can be told before its end and the next
 * process knows of it. `fn` has no document. ERROR_NOT_FOUND: it has ended, or not come yet. */
void plane_make_known(struct plane *plane, const struct plane_caller *who, const char *id,
                      plane_fn fn, void *ctx);

/* Interrupts it, and kills it when that does not help; one that waits never begins. The document as
 * it is then: its end may still come. One that has ended is fine. */
void plane_cancel(struct plane *plane, const struct plane_caller *who, const char *id, plane_fn fn,
                  void *ctx);

/* Its events, while it runs and for a minute after; NULL: there are none any more, or here.
 * `first` is what the number of an event is counted from: other than 0 after a restart. */
struct journal *plane_listen(struct plane *plane, const struct plane_caller *who, const char *id,
                             uint64_t *first);

/* The end of what it printed so far, when that was wanted (code_wish.is_watched): borrowed until
 * the loop goes on. NULL: nothing, or it does not run here. */
const struct tail *plane_last_output(struct plane *plane, const struct plane_caller *who,
                                     const char *id);

/* --- figures ---------------------------------------------------------------------------------- */

struct plane_info {
    uint64_t sessions[STORE_SESSION_STATES]; /* live ones, by their state */
    uint64_t running, queued;                /* executions */
    bool is_recovering;
};
void plane_get_info(const struct plane *plane, struct plane_info *out);

struct plane_ending {
    const char *id, *owner;
    const char *session_id; /* NULL: stateless */
    enum execution_state state;
    enum reason_kind kind;
    double duration_ms;
    uint64_t cpu_us;
};

/* What happens here, for metrics and logs; called with borrowed data. */
struct plane_events {
    void (*created)(void *ctx, double ms, bool is_pooled);
    void (*ended)(void *ctx, const struct plane_ending *ending);
};
void plane_watch(struct plane *plane, const struct plane_events *events, void *ctx);

/* For operators' views. */
struct plane_session_view {
    const char *id, *owner, *template_name, *language;
    enum store_session_state state; /* as its owner is told */
    const struct session_info *info;
    uint64_t sandbox;
    const struct spawn_limits *limits;
    const struct tail *tail; /* of what it printed; NULL: nothing yet */
};

/* Live ones with a sandbox, in no order: the one behind `after`, which was told before and still
 * lives (NULL: the first). False: there are no more. */
bool plane_view(const struct plane *plane, const char *after, struct plane_session_view *out);
bool plane_find_view(const struct plane *plane, const char *id, struct plane_session_view *out);
