/* cell_inside.h - an execution in a session as its own parts see it: cell*.c, nobody else */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/cell.h"
#include "core/collect.h"
#include "core/upload.h"

enum cell_step { CELL_PUT, CELL_RUN, CELL_FINISH, CELL_OVER };

/* A question to the spawner, which may outlive the cell that asked it. */
struct cell_count {
    struct cell *cell; /* NULL: it is gone */
};

struct cell {
    struct execution e;
    struct cell_place place;
    const struct cell_request *request;
    struct cell_events events;

    enum cell_step step;
    struct upload *upload;
    struct stdio *stdio;
    struct collect *collect;
    struct loop_timer *timer; /* of the step */
    struct loop_timer *kill_timer;
    struct loop_timer *again_timer; /* an interrupt is sent once more */
    struct loop_timer *watch_timer; /* before its output is streamed */
    struct spawn_stats stats;
    int64_t start_ns; /* monotonic */
    int64_t since_ns; /* files changed from here on are the execution's */
    unsigned interrupts;
    bool was_interrupted; /* for whichever reason: init may not have passed it on yet */
    int stdin_fd;         /* until the code starts */
    size_t told_results;  /* of those in the list, or that come again */
    unsigned ticks;
    bool is_putting;   /* init owes us the end of the files worker */
    bool is_sent;      /* the kernel may have its code */
    bool is_expected;  /* its end, by the loop */
    bool is_untouched; /* the workspace, says the kernel */
    bool is_collecting;
    bool awaits_seal;            /* the word of it tells where its counters are */
    struct cell_count *counting; /* the spawner owes us the counters */
    struct cell_count *culling;  /* and this the end of all that runs */
    bool kernel_is_lost;
    bool kernel_has_exited; /* and init said how */
    bool is_gone;           /* there is no init to ask any more */
    bool is_kept;           /* the spawner holds its output */
    bool has_lost_output;   /* with the host before */
};

void cell_set_timer(struct cell *c, uint64_t ms, loop_timer_fn fn); /* of the step */
void cell_stop_timers(struct cell *c);                              /* and of all else */

/* --- cell_finish.c: the code is over, in whichever way ---------------------------------------- */

void cell_tell_results(struct cell *c, size_t end); /* those below it */
void cell_begin_finish(struct cell *c); /* counters and artifacts, side by side; then the end */
void cell_finish_unrun(struct cell *c); /* the same for code that was cut short before it began */
void cell_check_finished(struct cell *c);
void cell_cut_collect(struct cell *c);                   /* what is listed by now is all */
void cell_fail(struct cell *c, const struct error *err); /* ends it */
uint64_t cell_minus(uint64_t now, uint64_t before);      /* not below 0 */

/* --- cell_cut.c: cutting it short ------------------------------------------------------------- */

void cell_on_timeout(void *ctx);
void cell_kill_now(struct cell *c); /* for whichever reason */
