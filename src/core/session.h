/* session.h - a sandbox that lives on: one interpreter, whose state survives its executions
 *
 *   creating -> ready <-> busy -> terminating -> terminated
 *                  \-> failed (its interpreter is gone) -> reset -> creating
 *
 * One execution or question is under way at a time; others wait in a queue when asked to. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/builder.h"
#include "core/capacity.h"
#include "core/cell.h"
#include "event/loop.h"
#include "runtime/spawner_client.h"

#define SESSION_QUEUE_MAX           64
#define SESSION_CHECKPOINTS_MAX     32
#define SESSION_CHECKPOINTS_DEFAULT 8
#define CHECKPOINT_NAME_BYTES       64
#define SESSION_FORKS_MAX           8

enum session_state {
    SESSION_CREATING,
    SESSION_READY,
    SESSION_BUSY,
    SESSION_FAILED,
    SESSION_TERMINATING,
    SESSION_TERMINATED,
};

const char *session_state_name(enum session_state state);

/* How a kernel is started; shared by sessions, borrowed while any of them lives. */
struct session_template {
    uint8_t image[SPAWN_DIGEST_BYTES];
    const char *const *argv; /* of the kernel, inside the image */
    const char *const *env;
    int kernel_fd;              /* a memory file with the kernel's text, or -1 */
    bool is_plain;              /* the kernel speaks the plain form of the protocol */
    struct spawn_limits limits; /* lifetime_ms: of the whole session */
    int copier_fd;              /* a memory file: what helps the kernel to copy itself, or -1 */
    size_t checkpoint_max;      /* 0: SESSION_CHECKPOINTS_DEFAULT */
    uint64_t zygote;            /* the warm interpreter to fork from; 0: started cold */
    size_t forks;               /* how often it can be forked; needs a zygote, and seats as many */
    uint64_t idle_ms;           /* closed when unused for this long; 0: never */
    uint64_t idle_freeze_ms;    /* frozen when unused for this long; 0: never */
    struct capacity *capacity;  /* which a session needs a seat of; NULL: none; borrowed */
    const struct packages *packages; /* that it has, made by the builder first; NULL: none */
    struct builder *builder;         /* both borrowed */
    const char *const *preload;      /* modules that it imports itself, before it is ready; NULL */
    bool allow_degraded;
};

/* Plain data. */
struct session_info {
    char id[ID_BYTES];
    enum session_state state;
    bool is_frozen;        /* its processes stand still, until somebody wants something of it */
    size_t terminal_count; /* open ones: see terminal.h */
    size_t errand_count;   /* the same: see errand.h */
    uint32_t layers;
    int64_t created_ns; /* wall clock */
    int64_t last_used_ns;
    double create_ms;
    struct error error; /* failed: why */
};

struct session;

struct session_events {
    /* Its state. TERMINATED comes last, not inside session_close(), and may be answered by
     * session_free(). */
    void (*changed)(void *ctx, struct session *session);
    bool is_parked; /* nobody has it yet: it is not frozen, for whoever comes shall not wait */
};

/* Begins to create it; `changed` tells READY or FAILED. ERROR_LIMIT: there is no room for it. */
MUST_CHECK int session_open(struct session **out, struct loop *loop, struct spawner_client *spawner,
                            const struct session_template *template,
                            const struct session_events *events, void *ctx, struct error *err);

/* Ends it: kills what runs, removes every trace, then tells TERMINATED. */
void session_close(struct session *session);
/* Has its interpreter do, while nobody waits, what its first execution would have to wait for. Only
 * of one that is ready and was never used. */
void session_rehearse(struct session *session);
/* What it has used so far is none of its executions'. Where that would have to be asked for, it
 * stays the first one's. */
void session_forget_usage(struct session *session);

void session_give_way(struct session *session); /* the same, and others may have its seat now */
void session_free(struct session *session);     /* after TERMINATED, or with its spawner gone */
SCOPED_DEFINE(session)

const struct session_info *session_info(const struct session *session);
uint64_t session_sandbox(const struct session *session); /* the spawner's number; 0: none now */
/* Whether the spawner knows that it is sealed: its interpreter can be heard of before that. If not,
 * `changed` is called once more when it is. */
bool session_await_seal(struct session *session);

/* --- for another process -----------------------------------------------------------------------
 *
 * With a spawner that outlives its clients a session can: its variables, and the execution that
 * runs. What is lost: checkpoints, executions and questions that wait or have not begun, what stdin
 * had not brought yet, and the output of code that ran for less than a millisecond, unless it was
 * begun with `keeps_now`. */

/* Plain data: what a store keeps. Written down when the session is ready, and when an execution has
 * begun. */
struct session_record {
    char id[ID_BYTES];
    uint64_t sandbox;
    uint8_t label[SPAWN_LABEL_BYTES];
    uint32_t generation;
    int64_t created_ns, last_used_ns;
    double create_ms;
    struct spawn_stats before; /* the counters when the last execution ended */
    int64_t newest_ns;
    uint32_t last_number; /* of the copies of its workspace */
    bool has_execution;
    struct cell_record execution;
};

/* From now on the spawner holds what is needed to go on with it, under the label that its record
 * has and keeper_list() tells. */
void session_keep(struct session *session);
/* Hands over now what a session_keep() would have to. Only of one that is ready and was never
 * used. */
void session_keep_early(struct session *session);

void session_get_record(const struct session *session, struct session_record *out);

/* Lets it go without ending it: nobody is told anything. It is ready, busy or failed: before and
 * after that the spawner owes it an answer, which would find nobody. */
void session_detach(struct session *session, struct session_record *out);

/* Who hears of the execution that runs; borrowed until its end. */
struct session_resumption {
    const struct cell_request *request; /* limits and wishes; its code is not looked at */
    const struct execution_events *events;
    void *ctx;
};

/* Begins to go on with it. `changed` tells READY, unless the execution runs on; FAILED when the
 * interpreter is gone; TERMINATED when all of it is. `resumption` is for a record that has an
 * execution: its `ended` comes exactly once, whatever became of it. */
MUST_CHECK int session_attach(struct session **out, struct loop *loop,
                              struct spawner_client *spawner,
                              const struct session_template *template,
                              const struct session_record *record,
                              const struct session_resumption *resumption,
                              const struct session_events *events, void *ctx, struct error *err);

/* Its way out (gateway.h), taken: closed with it. */
struct passage;
void session_give_passage(struct session *session, struct passage *passage);
struct passage *session_passage(const struct session *session); /* borrowed; NULL: none */

/* A parked session gets a user: from now on these events. */
void session_give(struct session *session, const struct session_events *events, void *ctx);

/* `ended` comes later, exactly once. Busy is ERROR_CONFLICT, unless `may_queue`; what waits is
 * refused (as cancelled) when the interpreter is lost. The request's fds are taken even on failure.
 */
MUST_CHECK int session_execute(struct session *session, const struct cell_request *request,
                               bool may_queue, const struct execution_events *events, void *ctx,
                               struct error *err);

/* Stops its processes where they stand, when it is ready; what is asked of it next lets them go on.
 * Without a freezer on this host nothing happens. */
void session_freeze(struct session *session);
void session_thaw(struct session *session);

/* The end of the last execution is known for good: what the next host would need of it is let go.
 * For those that were asked for with `is_held`. */
void session_settle(struct session *session);

/* Whether the code of what runs may have reached the interpreter: its files come first. */
bool session_has_sent(const struct session *session);

/* For the execution that runs; none is fine. */
void session_interrupt(struct session *session); /* SIGINT; a second one kills */
void session_cancel(struct session *session);    /* interrupt, then kill */

/* A new interpreter in the same workspace; what runs is killed. `changed` tells when it is ready.
 */
MUST_CHECK int session_reset(struct session *session, struct error *err);

/* A question about the namespace: VARIABLES, VARIABLE, COMPLETE, IS_WHOLE. The answer is the body
 * of the REPLY or DATA (for DATA: mime NUL bytes), bounded; or *err. All of it is content. */
typedef void (*session_answer_fn)(void *ctx, const char *body, size_t len, const struct error *err);
MUST_CHECK int session_ask(struct session *session, enum kernel_frame_type question,
                           const void *body, size_t len, session_answer_fn fn, void *ctx,
                           struct error *err);

/* --- checkpoints ------------------------------------------------------------------------------
 *
 * A checkpoint is the interpreter as it was, a frozen copy inside the sandbox from which any number
 * of rollbacks start, and a copy of the workspace; both count in the sandbox's limits. It outlives
 * resets and a dead interpreter. /tmp and /dev/shm are not part of it. */

/* Plain data. */
struct checkpoint_info {
    char id[ID_BYTES];
    char name[CHECKPOINT_NAME_BYTES]; /* may be empty */
    int64_t created_ns;               /* wall clock */
    double took_ms;                   /* the last that was done with it */
    bool is_lost;                     /* its process was killed, by code or for want of memory */
};

/* `info` is borrowed for the call; on failure *err says why, and the session is as it was, or
 * FAILED. */
typedef void (*session_checkpoint_fn)(void *ctx, const struct checkpoint_info *info,
                                      const struct error *err);

/* A ready session only, without terminals. `name` may be NULL; `fn` is called once, later. */
MUST_CHECK int session_checkpoint(struct session *session, const char *name,
                                  session_checkpoint_fn fn, void *ctx, struct error *err);

/* A ready or failed session: what runs inside is killed, terminals included, and interpreter and
 * workspace are those of the checkpoint again, named by id or name. `changed` tells READY, too. */
MUST_CHECK int session_rollback(struct session *session, const char *checkpoint,
                                session_checkpoint_fn fn, void *ctx, struct error *err);

/* The oldest is 0; NULL past the last. Borrowed until the next call that changes anything. */
const struct checkpoint_info *session_checkpoint_at(const struct session *session, size_t index);

/* A ready or failed session. `fn` is told the one that is no more. */
MUST_CHECK int session_drop_checkpoint(struct session *session, const char *checkpoint,
                                       session_checkpoint_fn fn, void *ctx, struct error *err);

/* --- forks --------------------------------------------------------------------------------------
 *
 * A fork is a second session with a sandbox of its own, whose interpreter has the variables of the
 * first by copy-on-write and whose workspace is a copy. From then on the two have nothing to do
 * with each other, and each may be closed first. Its sandbox was made with the first one's: so a
 * session can be forked as often as its template says, and a fork cannot be forked again.
 *
 * Memory that both still share counts in the first one's sandbox. */

/* A ready session only, without terminals; it is busy meanwhile. *out is the fork: `changed` tells
 * READY, or FAILED and why, and the first one goes on in both cases. It is to be closed and freed
 * like any other. */
MUST_CHECK int session_fork(struct session *session, struct session **out,
                            const struct session_events *events, void *ctx, struct error *err);

/* The spawner says something about a sandbox (NULL: the spawner itself is gone). */
void session_on_event(struct session *session, const struct spawn_message *m);
