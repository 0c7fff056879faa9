/* session_inside.h - a session as its own parts see it: session*.c, attach.c,
 * checkpoint.c, errand.c, family.c, fork.c and terminal.c, nobody else */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/session.h"

/* A process inside that waits, and can bear kernels as they were when it was made. */
struct checkpoint {
    struct checkpoint_info info;
    struct session *session;
    uint32_t number; /* of its copy of the workspace */
    int32_t pid;     /* inside; content, as all that a kernel says */
    int32_t spare;   /* the pid of what it has forked in advance; 0: nothing */
    int32_t dropped; /* the pid of the spare before, which may still be about to end */
    bool owes_spare;
    int fd; /* its channel; -1: it is lost */
    struct loop_watch *watch;
};

/* The checkpoint or rollback that is under way. */
struct checkpoint_work {
    enum checkpoint_step {
        CHECKPOINT_NONE,
        CHECKPOINT_COPY,      /* the kernel copies itself */
        CHECKPOINT_WAIT,      /* for the pid of a spare, which must not be taken for a stranger */
        CHECKPOINT_SAVE,      /* init copies the workspace */
        CHECKPOINT_FORGET,    /* init removes such a copy */
        CHECKPOINT_WAIT_BACK, /* rollback: the same, since a kill would leave it half-way */
        CHECKPOINT_KILL,      /* rollback: the kernel and all that it started end */
        CHECKPOINT_RESTORE,   /* init puts the files back */
        CHECKPOINT_BEAR,      /* the copy bears a kernel */
        CHECKPOINT_ADOPT,     /* which init adopts, and which says that it is ready */
    } step;
    struct checkpoint *target;
    session_checkpoint_fn fn;
    void *ctx;
    int64_t start_ns;
    enum session_state state; /* of the session, before */
    struct error error;       /* msg "": none; what is told when the rest is cleaned up */
    struct error death;       /* msg "": none; of the interpreter, meanwhile */
    bool is_adopted;
    bool is_ready;
};

/* A sealed sandbox in which a process waits that has the memory of a session's interpreter. */
struct heir {
    struct session *session;
    struct capacity_seat seat;
    uint64_t sandbox; /* 0: none (any more) */
    int control_fd;
    int channel_fd;
    struct spawn_sealed sealed;
    bool is_asked; /* the spawner owes it to us */
    bool is_sealed;
};

/* What makes a session one that can be forked. */
struct family {
    uint64_t brood;       /* that makes its sandboxes, while it does */
    bool is_asking;       /* the spawner owes us a brood */
    const char *why_none; /* there are no heirs (any more) */
    struct heir heirs[SESSION_FORKS_MAX];
    size_t count;
    struct session *child; /* the fork that is being made, or waits for our interpreter */
    bool is_packing;       /* init copies the workspace for it, or for one that is no more */
    int gate_fd;           /* of one that is no more, closed until that has ended; -1: none */
};

/* Of a fork: how far it is. */
struct fork_work {
    enum fork_step {
        FORK_NONE,
        FORK_STAND, /* the interpreter comes to a stand */
        FORK_FILES, /* the workspace is copied */
        FORK_BEAR,  /* the heir forks */
        FORK_KILL,  /* init ends the heir, and whatever else is there */
        FORK_LOOK,  /* the spawner sees that what is left has a memory of its own */
        FORK_ADOPT, /* init adopts the interpreter, which says that it is ready */
    } step;
    struct session *parent; /* until its interpreter has said that it goes on */
    int gate_fd;
    struct loop_watch *gate_watch;
    int heir_fd; /* the heir's channel */
    struct loop_watch *heir_watch;
    int files_left; /* ends of the pipe that are not done */
    int files_error;
    int32_t pid;
    bool is_looking; /* the spawner owes us an answer */
    bool is_adopted;
    bool is_ready;
};

#define SESSION_LATE_MAX 4 /* pipes of earlier executions that children still hold */

/* An execution that waits for its turn. */
struct waiting {
    struct waiting *next;
    const struct cell_request *request;
    const struct execution_events *events;
    void *ctx;
};

struct late {
    struct session *session;
    struct stdio *stdio; /* NULL: free */
};

struct session {
    struct session_info info;
    struct builder_waiter *packages; /* not NULL: it waits for them */
    struct loop *loop;
    struct spawner_client *spawner;
    const struct session_template *template;
    const struct session_events *events;
    void *ctx;

    struct capacity_seat seat;
    uint64_t sandbox; /* 0: none */
    struct guest *guest;
    struct kernel *kernel;
    struct stdio *startup; /* what the kernel prints before it is ready */
    struct output startup_out, startup_err;
    struct loop_timer *timer; /* by state: start, idle; of a question */
    struct loop_timer *freeze_timer;
    int64_t start_ns; /* monotonic */
    uint32_t generation;
    struct spawn_stats before;
    int64_t newest_ns; /* of the changes that executions have been told, or errands have made */

    struct cell *cell;
    const struct execution_events *told; /* of the cell */
    void *told_ctx;
    struct waiting *first;
    struct late late[SESSION_LATE_MAX];
    size_t next_late;

    struct question {
        session_answer_fn fn; /* NULL: none is open */
        void *ctx;
        struct strbuf body;
        bool is_answered;
        struct error error; /* msg "": none */
    } question;

    bool is_creating; /* the spawner owes us a sandbox */
    bool was_ready;   /* once, here or with the host before */
    bool is_sealed;
    struct spawn_sealed sealed; /* by what, once it is */
    bool is_seal_awaited;       /* `changed` shall tell of it */
    bool is_warm;               /* its interpreter is made with it, by a zygote */
    bool kernel_runs;           /* asked to start, and its end not told yet */
    bool is_preloading;
    bool wants_reset;
    bool has_destroyed;

    bool is_unsettled;  /* what was kept of the last execution is still needed */
    bool owes_ack;      /* ...also by its kernel, which then forgets its results */
    bool has_unwritten; /* it was held, and its end may be known to nobody but us */
    struct cell_record unwritten;
    bool is_kept; /* the spawner holds what the next host needs, under this label */
    uint8_t label[SPAWN_LABEL_BYTES];
    bool is_channel_kept; /* it holds that of this very kernel, also for one that is not kept yet */
    struct attaching *attaching; /* to the sandbox of another host's session; NULL: not, or over */
    bool is_syncing;             /* frames are another host's, until the SYNCED */
    bool is_asking;              /* init's messages are, until the GUEST_TOLD */

    struct checkpoint *checkpoints[SESSION_CHECKPOINTS_MAX]; /* oldest first */
    size_t checkpoint_count;
    uint32_t last_number; /* that a copy of the workspace was given */
    uint32_t base_number; /* the copy that the workspace was saved to, or came from, last */
    struct checkpoint_work work;
    struct loop_timer *spare_timer;
    struct checkpoint *spare_for; /* valid while there is that timer */

    struct family family;
    struct fork_work fork;

    struct terminal *terminals; /* open ones, newest first */

    struct errand *errands; /* the same */
    size_t errand_writers;  /* those that write */

    struct passage *passage; /* its way out, or NULL; owned */
};

/* --- session.c: states and the sandbox -------------------------------------------------------- */

void session_enter(struct session *s, enum session_state state);
void session_tell(struct session *s);
void session_set_sealed(struct session *s, const struct spawn_sealed *sealed);
void session_fail(struct session *s, const struct error *err); /* the interpreter is gone */
void session_expel(struct session *s); /* its code attacks the host: its sandbox is killed */
void session_set_timer(struct session *s, uint64_t ms, loop_timer_fn fn);
bool session_is_ending(const struct session *s);
void session_on_guest(void *ctx, const struct guest_message *m);      /* NULL: init is gone */
void session_end(struct session *s, const struct spawn_stats *stats); /* nothing of it is left */
void session_destroy(struct session *s);
void session_destroy_if_due(struct session *s);
void session_fill_create(const struct session_template *template, struct spawn_message *m);
void session_ask_create(struct session *s, uint64_t zygote);
struct session *session_new(struct loop *loop, struct spawner_client *spawner,
                            const struct session_template *template,
                            const struct session_events *events, void *ctx); /* has no id yet */

/* --- session_kernel.c ------------------------------------------------------------------------- */

#define SESSION_START_MS 30000 /* for a kernel to say that it is ready */

MUST_CHECK int session_open_channel(int *ours, int *theirs, struct error *err);

/* Takes `fd`, even when it fails. */
MUST_CHECK int session_open_kernel(struct session *s, int fd, struct error *err);
void session_start_kernel(struct session *s);
void session_join_kernel(struct session *s, int channel); /* that was forked with the sandbox */
void session_restart(struct session *s); /* a new one, now or when the old one's end is told */
void session_drop_kernel(struct session *s);
void session_on_frame(void *ctx, const struct frame_message *m, const char *why);
void session_on_ready(struct session *s);
void session_on_start_late(void *ctx);
void session_on_kernel_exit(struct session *s, const struct guest_message *m); /* no cell runs */

/* --- session_cells.c -------------------------------------------------------------------------- */

void session_begin_next(struct session *s);
int session_refuse(const struct session *s, struct error *err); /* -1: it is not in the state */
MUST_CHECK int session_resume_cell(struct session *s, const struct cell_request *request,
                                   const struct cell_record *record, const int *output,
                                   const struct execution_events *events, void *ctx,
                                   struct error *err);
void session_refuse_all(struct session *s, const char *why); /* that wait */
void session_refuse_failed(struct session *s);               /* the same, if it has failed */
void session_free_late(struct session *s);
void session_forget_cells(struct session *s); /* nobody is told */

/* --- session_question.c ----------------------------------------------------------------------- */

MUST_CHECK int session_ask_with(struct session *s, enum kernel_frame_type question, const int *fds,
                                size_t fd_count, session_answer_fn fn, void *ctx,
                                struct error *err);
void session_expect_answer(struct session *s); /* to the question that is open, soon */
void session_question_on_frame(struct session *s, const struct frame_message *m);
void session_end_question(struct session *s, const struct error *err);       /* which is open */
void session_take_refusal(struct session *s, const struct frame_message *m); /* an ERROR frame */

/* --- session_preload.c ------------------------------------------------------------------------ */

/* The kernel is there: it is ready when it has imported what the template says. */
void session_preload(struct session *s);
void session_preload_on_frame(struct session *s, const struct frame_message *m);
void session_forget_preload(struct session *s);

/* --- session_idle.c, session_keep.c ----------------------------------------------------------- */

void session_count_idle(struct session *s);   /* from now on, when its state is one of those */
void session_keep_channel(struct session *s); /* for the next host, if it is kept */

/* --- checkpoint.c ----------------------------------------------------------------------------- */

/* True when the message was about a rollback, and nobody else should look at it. */
bool checkpoint_on_guest(struct session *s, const struct guest_message *m);
bool checkpoint_on_ready(struct session *s); /* the same, for a READY */
void checkpoint_explain_files(struct error *err, int error, const char *what);

/* True when the interpreter's end must wait: files are being copied or removed, and the session
 * fails when that is cleaned up. */
bool checkpoint_on_death(struct session *s, const struct error *err);

/* The session has failed or ended while something was under way. */
void checkpoint_abort(struct session *s, const struct error *err);
void checkpoint_free_all(struct session *s);

/* --- errand.c --------------------------------------------------------------------------------- */

void session_end_errands(struct session *s, const char *why);

/* --- terminal.c ------------------------------------------------------------------------------- */

void session_end_terminals(struct session *s, const char *why);

/* Whether something can be begun beside the interpreter: `what` for the message; `writes`: not
 * while the workspace is copied. */
MUST_CHECK int session_check_live(const struct session *s, const char *what, bool writes,
                                  struct error *err);

/* What is typed into a terminal, and errands that write, would change what is being copied. */
MUST_CHECK int session_check_alone(const struct session *s, struct error *err);

/* --- attach.c --------------------------------------------------------------------------------- */

/* True when the message belongs to an earlier host, and nobody else should look at it. */
bool attach_on_frame(struct session *s, const struct frame_message *m);

/* The same. It may change the message into what it means now. */
bool attach_on_guest(struct session *s, struct guest_message *m);
void attach_free(struct session *s);

/* --- family.c ------------------------------------------------------------------------------------
 */

/* Instead of session_ask_create(). ERROR_LIMIT: there is no room for its heirs. */
MUST_CHECK int family_begin(struct session *s, struct error *err);
bool family_is_owed(const struct session *s);        /* the spawner will call back for it */
void family_end(struct session *s, const char *why); /* no heirs from now on */
void family_forget(struct session *s);               /* the same, and nobody is asked */
void family_on_event(struct session *s, const struct spawn_message *m);
struct heir *family_find_heir(struct session *s, struct error *err); /* NULL: there is none */

/* --- fork.c --------------------------------------------------------------------------------------
 */

void fork_init(struct session *s);
bool fork_on_guest(struct session *s, const struct guest_message *m); /* as checkpoint_on_guest() */
bool fork_on_ready(struct session *s);
void fork_release(struct session *s); /* of a fork: what it was made with */
void fork_forget(struct session *s);  /* `s` is about to be freed; nobody is asked or told */
