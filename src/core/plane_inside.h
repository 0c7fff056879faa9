/* plane_inside.h - what the files of the plane share: live sessions, and executions on their way */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/map.h"
#include "core/plane.h"

/* Somebody who waits for something to be so and written down. */
struct plane_waiter {
    struct plane_waiter *next;
    plane_fn fn;
    void *ctx;
};

struct job;

/* A session whose sandbox lives here. It is there for others (by id and name) from the moment it is
 * written down until its end is. */
struct live {
    struct plane *plane;
    struct map_node by_id, by_name;
    char id[ID_BYTES];
    char *owner;
    char *name;              /* NULL: none */
    char *name_key;          /* owner and name */
    char *metadata;          /* JSON */
    char *problem;           /* why it failed or ended; NULL: nothing to say */
    json_t *facts;           /* what never changes of its document */
    char **env;              /* NAME=VALUE */
    struct session *session; /* NULL: its sandbox is gone */
    struct catalog_kind *kind;
    struct tail *tail; /* NULL: it has printed nothing */
    uint64_t idle_ms;
    int64_t created_ns, last_used_ns, expires_ns, ended_ns; /* wall clock */
    int64_t began_ns, used_ns;                              /* monotonic */
    bool is_known;                                          /* written down */
    bool is_writing;                                        /* its beginning or its end, now */
    bool is_ending;                                         /* nobody is to use it any more */
    bool is_over;                                           /* that is written down */
    bool is_failed; /* its interpreter is gone, and that is written down */
    bool is_dirty;  /* its record is older than it is */
    bool is_pooled;
    struct plane_waiter creating; /* fn NULL: nobody waits */
    struct plane_waiter *ending, *resetting;
    struct job *running;
    struct job *first; /* that wait */
};

/* One execution, from the asking until its end is written and told. */
struct job {
    struct plane *plane;
    struct map_node by_id;
    char id[ID_BYTES];
    char *owner;
    char *session_id; /* NULL: stateless */
    char *language;
    struct live *live; /* NULL: stateless, or its session has gone */
    struct job *next;  /* that waits behind it */

    struct session *session; /* stateless: its own */
    struct catalog_kind *kind;

    char *code, *request_text;
    char **env;
    struct execution_input *inputs;
    size_t input_count;
    int stdin_fd;
    uint64_t timeout_ms;
    bool is_idempotent, is_cancelled;
    struct cell_request request;

    enum execution_state state;
    int64_t created_ns, started_ns;
    bool is_known;   /* written down before its end, or being so */
    bool has_begun;  /* stateless: its code runs, or ran */
    bool is_dropped; /* could not be written down: nobody will hear of its end */
    bool is_told;    /* its end is written and told */
    enum wish_mode mode;
    plane_fn fn; /* NULL: nobody waits */
    void *ctx;

    json_t *files;       /* stateless: what it made, with content */
    struct strbuf *file; /* the one that comes */
    size_t files_bytes;

    struct journal *journal; /* NULL: nobody can listen */
    char *document;          /* when it has ended: what is kept... */
    size_t document_len;
    char *answer; /* ...and what is told, when that is more */
    size_t answer_len;
    int64_t ended_ns;
    struct loop_timer *timer; /* writes that it runs; tries a write again; forgets it */
};

struct plane {
    struct plane_order order;
    struct map sessions, names, jobs;
    struct loop_timer *sweep;
    uint64_t running, queued, lingering; /* executions */
    bool is_recovering;
    const struct plane_events *events;
    void *events_ctx;
    struct recovery *recovery;
};

/* plane.c */
void plane_answer(struct plane_waiter *waiters, const char *text, size_t len,
                  const struct error *err); /* all of the list, and frees it */
void plane_wait(struct plane_waiter **list, plane_fn fn, void *ctx);
void plane_fail(plane_fn fn, void *ctx, const struct error *err);
char *plane_dump(json_t *document, size_t *len); /* takes it */
void plane_label(const char *id, uint8_t label[SPAWN_LABEL_BYTES]);
json_t *plane_time(int64_t wall_ns);
json_t *plane_map(const struct param_map *map);

/* plane_session.c */
struct live *live_find(struct plane *p, const struct plane_caller *who, const char *word);
struct live *live_new(struct plane *p, const char *id, const char *owner, const char *name);
void live_forget(struct live *l);
enum store_session_state live_state(const struct live *l);
void live_write(struct live *l); /* what another process needs, without waiting */
void live_end(struct live *l, const char *why);
void live_ended(struct live *l); /* its sandbox is gone: writes and tells that */
void live_sweep(struct live *l, int64_t now_ns, int64_t wall_ns);
extern const struct session_events live_events;
struct catalog_kind *plane_kind(struct plane *p, const char *template, const char *language,
                                struct error *err);
char **plane_env(const struct param_map *map); /* NAME=VALUE, NULL-terminated; owned */

/* plane_quota.c: whether one more sandbox with these limits may be his. */
MUST_CHECK int plane_check_quota(const struct plane *p, const struct plane_caller *who,
                                 const struct spawn_limits *limits, struct error *err);

/* plane_recover.c */
struct recovery;
void recovery_free(struct recovery *recovery);

/* job.c */
#define JOURNAL_MIN (1 * MIB) /* of events that are kept */
struct job *job_new(struct plane *p, const char *owner, const char *id);
MUST_CHECK int job_fill(struct job *j, const struct code_wish *wish,
                        const struct catalog_kind *kind, char *const *env, struct error *err);
void job_free(struct job *j);

/* job_write.c */
char *job_stub(const char *id, const char *session_id, const char *language,
               enum execution_state state, int64_t created_ns, int64_t started_ns, size_t *len);
void job_tell(const struct job *j, plane_fn fn,
              void *ctx); /* its document, as far as it is known */
void job_tell_waiter(struct job *j, const struct error *err);
void job_make_known(struct job *j, store_fn fn); /* writes it down before its end */
void job_on_known(void *job, const struct store_answer *answer);
void job_on_old(void *job);    /* it runs for a while now */
void job_write_end(void *job); /* and tells it then */
void job_leave_session(struct job *j);
void job_finish(struct job *j);
bool job_leave_queue(struct job *j); /* false: it does not wait */

/* job_end.c */
extern const struct execution_events job_events;
void job_end_unbegun(struct job *j, enum execution_state state, enum reason_kind kind,
                     const char *why);

/* job_begin.c */
MUST_CHECK int job_begin(struct job *j, struct session *session, struct error *err);
MUST_CHECK int job_check_room(const struct plane *p, struct error *err);
MUST_CHECK int job_make_id(char id[ID_BYTES], struct error *err); /* unless there is one */
void job_next(struct live *l); /* begins what waits, when it can */
void job_end_all(struct live *l, const char *why);
struct job *job_of_record(struct plane *p, const struct store_execution *record);
const struct cell_request *job_attach(struct job *j, struct live *l); /* it runs on */
void job_queue(struct job *j, struct live *l);
void job_lose(struct job *j, const char *why);
