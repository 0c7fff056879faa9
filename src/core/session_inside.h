/* session_inside.h - a session as its own parts see it: session.c and checkpoint.c, nobody else */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/session.h"

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
    struct loop *loop;
    struct spawner_client *spawner;
    const struct session_template *template;
    const struct session_events *events;
    void *ctx;

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
    bool is_sealed;
    bool is_warm;     /* its interpreter is made with it, by a zygote */
    bool kernel_runs; /* started, and its end not told yet */
    bool wants_reset;
    bool has_destroyed;
};
