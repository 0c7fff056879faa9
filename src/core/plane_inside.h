/* plane_inside.h - what the files of the plane share: live sessions, and executions on their way */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/map.h"
#include "core/pipes.h"
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
    char *name;     /* NULL: none */
    char *name_key; /* owner and name */
    char *metadata; /* JSON */
    char *problem;  /* why it failed or ended; NULL: nothing to say */
    json_t *facts;  /* what never changes of its document */
    char **env;     /* NAME=VALUE; those of the network, and its own */
    struct network_spec network;
    struct vault *vault;     /* NULL: no secrets */
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
    bool is_going_out;                                         /* its way out is being opened */
    void (*trusting)(struct live *l, const struct error *err); /* NULL: no file is on its way */
    struct plane_waiter creating;                              /* fn NULL: nobody waits */
    struct plane_waiter *ending, *resetting;
    struct job *running;
    struct job *first;       /* that wait */
    char carrying[ID_BYTES]; /* the execution whose large files are still read; "": none */
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
    struct network_spec network; /* stateless: of that */
    struct vault *vault;         /* stateless: its secrets, or NULL */
    bool is_going_out;           /* stateless: its way out is being opened */

    char *code, *request_text;
    char **env, **args;
    char *cwd; /* NULL: where its session is */
    struct execution_input *inputs;
    size_t input_count;
    int stdin_fd;
    uint64_t timeout_ms, output_bytes;
    bool is_idempotent;
    struct cell_request request;

    enum execution_state state;
    int64_t created_ns, started_ns;
    bool is_known;    /* written down before its end, or being so */
    bool is_starting; /* stateless: it is counted, and has not begun */
    bool has_begun;   /* stateless: its code runs, or ran */
    bool is_dropped;  /* could not be written down: nobody will hear of its end */
    bool is_told;     /* its end is written and told */
    bool is_observed; /* its end was counted and logged */
    enum wish_mode mode;
    plane_fn fn; /* NULL: nobody waits */
    void *ctx;

    struct haul haul; /* what it made */
    bool is_once;     /* stateless: that comes along with the answer */
    bool is_carried;  /* its own sandbox stays until it was read */

    struct journal *journal; /* NULL: nobody can listen */
    struct tail *tail;       /* the end of what it printed; NULL: nobody asks for it */
    char *document;          /* when it has ended: what is kept... */
    size_t document_len;
    char *answer; /* ...and what is told, when that is more: files, addresses */
    size_t answer_len;
    int64_t ended_ns;
    struct job_figures {
        enum reason_kind kind;
        double duration_ms;
        uint64_t cpu_us;
    } figures;                /* of its end, for metrics and logs */
    struct loop_timer *timer; /* writes that it runs; tries a write again; forgets it */
};

struct plane {
    struct plane_order order;
    struct map sessions, names, jobs;
    struct loop_timer *sweep;
    struct pipes pipes;
    uint64_t running, queued, lingering; /* executions */
    uint64_t starting;                   /* stateless ones that wait for their sandbox */
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
json_t *plane_kept(const char *text);            /* of a record; {} where it says nothing */
json_t *plane_time(int64_t wall_ns);
json_t *plane_map(const struct param_map *map);

/* plane_view.c */
enum store_session_state live_state(const struct live *l);
void live_tell(const struct live *l, plane_fn fn, void *ctx);
void live_tell_all(const struct live *l, struct plane_waiter *waiters); /* and frees them */

/* plane_create.c */
extern const struct session_events live_events;
struct catalog_kind *plane_kind(struct plane *p, const char *template, const char *language,
                                struct error *err);

/* plane_session.c */
struct live *live_find(struct plane *p, const struct plane_caller *who, const char *word);
struct live *live_find_usable(struct plane *p, const struct plane_caller *who, const char *word,
                              struct error *err); /* one that is not about to end */
int live_not_found(struct error *err, const char *word);
char *live_name_key(const char *owner, const char *name); /* of plane.names; owned */
struct live *live_new(struct plane *p, const char *id, const char *owner, const char *name);
int64_t live_expiry(const struct live *l, uint64_t ttl_ms); /* wall clock; 0: never */
void live_forget(struct live *l);
void live_write_state(struct live *l, enum store_session_state to);
void live_write(struct live *l); /* what another process needs, without waiting */
void live_end(struct live *l, const char *why);
void live_ended(struct live *l); /* its sandbox is gone: writes and tells that */
void live_sweep(struct live *l, int64_t now_ns, int64_t wall_ns);
char **plane_env(const struct param_map *map); /* NAME=VALUE, NULL-terminated; owned */

/* plane_artifact.c: an execution's document that was read, with what is known of its files now. */
void plane_tell_document(struct plane *p, const char *id, const char *text, plane_fn fn, void *ctx);

extern const struct archive_source plane_source; /* ctx is the plane */
void job_keep(struct job *j);                    /* its end is written: what it made is kept */

/* plane_network.c */

/* What is to hold: the wish's, else the template's; checked. *out is owned. */
MUST_CHECK int plane_choose_network(const struct plane *p, const struct network_spec *wish,
                                    const struct catalog_kind *kind, struct network_spec *out,
                                    struct error *err);
/* NAME=VALUE, NULL-terminated, owned: the network's, and `own` which wins; `own` is taken. */
char **plane_network_env(const struct plane *p, const struct network_spec *spec, char **own);
/* Whether it is time: the spawner opens no door of a sandbox that it does not know to be sealed. If
 * not, the session changes once more. */
bool plane_can_go_out(const struct plane *p, struct session *session,
                      const struct network_spec *spec);
/* Whether nothing has to be waited for. Else `fn` is called once, later, unless the session is
 * freed before. */
struct plane_way {
    const char *who; /* what the log calls it */
    const struct network_spec *network;
    const struct vault *vault; /* NULL: no secrets */
};
bool plane_go_out(struct plane *p, struct session *session, const struct plane_way *way,
                  passage_fn fn, void *ctx);
/* *out is owned, and NULL without wishes. */
MUST_CHECK int plane_make_vault(const struct plane *p, const struct param_list *wishes,
                                const struct network_spec *network, const struct param_map *env,
                                struct vault **out, struct error *err);

/* plane_secrets.c */

/* The way out is open, and the proxy has said who signs for the hosts of the secrets. */
void plane_learn_authority(struct vault *vault, const struct session *session);

/* Gives the sandbox the file that says whom to trust. `fn` is called once, later, also when the
 * session ends before. */
void live_put_trust(struct live *l, void (*fn)(struct live *l, const struct error *err));
void live_keep_vault(struct live *l); /* for the next host; after session_keep() */
MUST_CHECK int job_add_trust(struct job *j, struct error *err); /* the same file, as an input */

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
bool job_is_path(const char *path); /* of a file below the workspace */

/* job_write.c */
char *job_stub(const char *id, const char *session_id, const char *language,
               enum execution_state state, int64_t created_ns, int64_t started_ns, size_t *len);
void job_tell(const struct job *j, plane_fn fn,
              void *ctx); /* its document, as far as it is known */
void job_tell_running(const struct job *j, plane_fn fn, void *ctx); /* without its end */
void job_tell_waiter(struct job *j, const struct error *err);
void job_make_known(struct job *j, store_fn fn, void *ctx); /* writes it down before its end */
void job_on_known(void *job, const struct store_answer *answer);
void job_note(struct job *j, plane_fn fn, void *ctx); /* the same; `fn` NULL: nobody is told */
void job_on_old(void *job);                           /* it runs for a while now */
void job_write_end(void *job);                        /* and tells it then */
void job_leave_session(struct job *j);
void job_observe(struct job *j); /* its end, by metrics and log */
void job_let_go(struct job *j);
void job_finish(struct job *j);
bool job_leave_queue(struct job *j); /* false: it does not wait */
bool job_leave_start(struct job *j); /* false: it has a sandbox, or needs none of its own */

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
bool job_queue_first(struct job *j); /* it was to begin and did not; false: nobody knows the code */
void job_lose(struct job *j, const char *why);
