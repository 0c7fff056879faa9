/* cell.h - one execution in a session: code to its kernel, and what came of it
 *
 * put files -> execute -> drain -> look for artifacts and read the counters -> end. Every ending
 * goes through the one `ended` call. What the kernel says of itself is content; time, death and
 * limits are seen from outside. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/execution.h"
#include "event/loop.h"
#include "runtime/guest.h"
#include "runtime/kernel.h"
#include "runtime/spawner_client.h"

struct pipes;

/* Borrowed until the end, but for the fds, which are taken. */
struct cell_request {
    const char *id; /* that the execution is to have; NULL: any */
    const char *code;
    size_t code_len;
    const char *language;    /* for a kernel that knows several; NULL: its first */
    const char *const *env;  /* NAME=VALUE, for this execution only; NULL: none */
    const char *const *args; /* the same */
    const char *cwd;         /* the same, as a path inside; NULL: where the kernel is */
    struct execution_input *inputs;
    size_t input_count;
    int stdin_fd;        /* -1: empty */
    struct pipes *pipes; /* a stock of them; NULL: none */
    uint64_t timeout_ms;
    size_t output_bytes;
    bool wants_artifacts;
    uint64_t artifact_bytes; /* of them that are read before the end, see collect.h; 0: all */
    bool wants_usage;
    bool is_held;   /* what is kept of it stays until session_settle() */
    bool keeps_now; /* in a session that is kept: its output is held for the next host before the
                     * code begins, not only when it has run for a millisecond */
};

struct passage;

/* What a cell uses of its session; borrowed. */
struct cell_place {
    struct loop *loop;
    struct spawner_client *spawner;
    struct guest *guest;
    struct kernel *kernel;
    uint64_t sandbox;
    const struct spawn_limits *limits;
    const struct spawn_stats *before;  /* the counters when the last execution ended */
    const bool *is_sealed;             /* as far as the spawner has said by now */
    const struct spawn_sealed *sealed; /* no layers: nobody may read its counters here */
    uint32_t generation;
    int64_t *newest_ns;   /* the last change that belongs to an earlier execution */
    bool is_plain;        /* the kernel speaks the plain form */
    const uint8_t *label; /* under which the spawner keeps the output for the next host, or NULL */
    struct passage *const *passage; /* its way out, at its end; NULL: none */
    const size_t *terminal_count;   /* open ones, which shall live on when the kernel is killed */
    const size_t *errand_count;     /* the same */
};

struct cell;

struct cell_events {
    const struct execution_events *told; /* those of who asked; `ended` is called by the session */
    void *told_ctx;
    void (*ended)(void *ctx, struct cell *cell);
    void *ctx;
};

/* What has to be known of one that runs, to go on with it in another process. Plain data; the
 * spawner has it too, from before the code begins (keeper_put_noted()). */
struct cell_record {
    char id[ID_BYTES];
    uint32_t generation;            /* 0: its interpreter was replaced, so it is over */
    uint32_t timeout_ms;            /* 0: longer than this can say */
    int64_t created_ns, started_ns; /* wall clock */
    int64_t start_ns;               /* monotonic */
    int64_t since_ns;
    uint64_t told[2];      /* by enum execution_stream: bytes that its `output` has been given */
    uint32_t told_results; /* that its `result` has been given */
    uint32_t output_bytes; /* the size of the files of its output; 0: not told, or larger */
};
_Static_assert(sizeof(struct cell_record) <= SPAWN_NOTE_BYTES, "it is a note of the spawner's");

/* The request's fds are taken even on failure. */
MUST_CHECK int cell_begin(struct cell **out, const struct cell_place *place,
                          const struct cell_request *request, const struct cell_events *events,
                          struct error *err);
void cell_free(struct cell *cell);

void cell_get_record(const struct cell *cell, struct cell_record *out);
uint32_t cell_generation(const struct cell *cell);
bool cell_is_kept(const struct cell *cell); /* the spawner holds its output */
bool cell_is_held(const struct cell *cell); /* ...until it is let go */
bool cell_is_sent(const struct cell *cell); /* its code is on its way to the kernel, or there */

/* Goes on with one of another process. `output` are the fds of stdio_keep() (taken, even on
 * failure) or NULL: then it ends as lost. The code of the request is of no interest any more. */
MUST_CHECK int cell_resume(struct cell **out, const struct cell_place *place,
                           const struct cell_request *request, const struct cell_record *record,
                           const int *output, const struct cell_events *events, struct error *err);

/* Its answer comes again, from the beginning. */
void cell_on_synced(struct cell *cell);
void cell_lose_unbegun(struct cell *cell); /* ends it: its kernel has never heard of it */
void cell_lose_ended(struct cell *cell);   /* the same: its kernel has heard of later ones */

const struct execution *cell_execution(const struct cell *cell);
const struct spawn_stats *cell_stats(const struct cell *cell); /* raw counters at its end */
bool cell_lost_kernel(const struct cell *cell);                /* it did not survive */
struct stdio *cell_take_stdio(struct cell *cell); /* pipes that children still hold, or NULL */

void cell_interrupt(struct cell *cell); /* SIGINT; a second one kills */
void cell_cancel(struct cell *cell);    /* interrupt, and kill when that did not end it soon */
void cell_kill(struct cell *cell);      /* cancels at once */

/* What the session hears and the cell has to know. */
void cell_on_frame(struct cell *cell, const struct frame_message *m);
void cell_on_channel_end(struct cell *cell, const char *why);          /* NULL: closed */
void cell_on_guest(struct cell *cell, const struct guest_message *m);  /* NULL: init is gone */
void cell_on_over(struct cell *cell, const struct spawn_stats *stats); /* so is the sandbox */
void cell_on_sealed(struct cell *cell); /* the spawner has said so by now */
