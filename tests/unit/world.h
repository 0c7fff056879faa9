/* world.h - a session whose spawner, cove-init and kernel are played by the test */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "check.h"
#include "core/session.h"
#include "stage.h"

#define WORLD_SANDBOX      5
#define WORLD_ENDED_MAX    128
#define WORLD_MEMORY_BYTES (64 * MIB)

/* An execution, as its caller was told of it. */
struct world_ended {
    enum execution_state state;
    enum reason_kind kind;
    char message[256];
    int exit_code;
    int who; /* which request */
    char out[64];
    bool artifacts_cut, has_results, is_unbegun;
};

struct world {
    struct loop *loop;
    struct spawner_client spawner;
    struct session *session;
    struct session_template template;
    int init;       /* cove-init's end of its socket */
    int channel;    /* the kernel's end */
    int streams[3]; /* its standard streams */
    int cell[3];    /* those of the execution */
    int given[2];   /* what came with a CHECKPOINT or FORK: a socket, and the copier */
    struct strbuf states;
    struct world_ended ended[WORLD_ENDED_MAX];
    size_t ended_count;
    struct world_request {
        struct cell_request cell;
        struct world *w;
        int who;
    } requests[WORLD_ENDED_MAX];
    size_t request_count;
    unsigned answers;
    struct strbuf answer;
    const struct execution_events *events; /* of the executions that it begins */
    char told[256]; /* what came of one while it ran, with world_streamed_events */
    struct error answer_error;
    uint32_t files_epoch; /* of what init was asked about files last */
    int64_t listed_ns;    /* when a folder of its workspace was changed last; 0: it is empty */
    unsigned fds_before;
    bool is_closing_at_end; /* the caller closes the session when its execution ends */
};

extern const struct session_events world_session_events;     /* ctx: the world */
extern const struct execution_events world_execution_events; /* ctx: a world_request */
extern const struct execution_events world_streamed_events;  /* the same, and tells the rest */
void world_on_answer(void *ctx, const char *body, size_t len, const struct error *err);

/* --- a life ---------------------------------------------------------------------------------- */

void world_init(struct world *w);         /* before the session is opened */
void world_open_sealed(struct world *w);  /* opens it, until its kernel is to be started */
void world_become_ready(struct world *w); /* that starts, and says READY */
void world_open(struct world *w);         /* all three */

/* Ends it in good order, and sees that nothing is left: no timer, no descriptor. */
void world_close(struct world *w);

/* The same for one whose session is over and freed. */
void world_release(struct world *w);

void world_settle(struct world *w);
void world_advance(struct world *w, uint64_t ms);
void world_assert_state(const struct world *w, enum session_state state);

/* Begins one, with `1` for its code. */
int world_try_execute(struct world *w, bool may_queue, int stdin_fd, struct error *err);
uint32_t world_execute(struct world *w); /* answers its generation, as the kernel heard it */
const struct world_ended *world_last_ended(const struct world *w, size_t count); /* of so many */
void world_reset(struct world *w);

/* --- the spawner says ------------------------------------------------------------------------ */

void world_reply_with(struct world *w, enum spawn_verb verb, struct spawn_message *m, int fd);
void world_reply(struct world *w, enum spawn_verb verb, struct spawn_stats stats);
bool world_is_asked(const struct world *w, enum spawn_verb verb);
void world_tell(struct world *w, enum spawn_verb verb, struct spawn_stats stats); /* an event */

/* --- cove-init says, and hears --------------------------------------------------------------- */

void world_init_says(struct world *w, enum guest_verb verb, int value, int exit_code, int signal);

/* The next word to init, or 0; its fds are closed, those of a start are kept. */
enum guest_verb world_init_hears(struct world *w, int *value);
void world_expect_init(struct world *w, enum guest_verb verb, int value);
void world_init_lists(struct world *w); /* the files that it is to list, and was not before */
void world_expect_silence(struct world *w);
void world_expect_start(struct world *w); /* after what is left of the old one was killed */

/* --- the kernel says, and hears -------------------------------------------------------------- */

void world_say(struct world *w, unsigned type, unsigned flags, uint32_t generation,
               const void *body, size_t len);
void world_show(struct world *w, unsigned flags, uint32_t generation,
                const char *text); /* a form */
void world_say_done(struct world *w, uint32_t generation, int32_t code);
uint32_t world_hear(struct world *w, enum kernel_frame_type type);  /* answers its generation */
void world_close_cell(struct world *w);                             /* the streams it was given */
void world_kernel_dies(struct world *w, int exit_code, int signal); /* init tells how */
