/* terminal.h - a shell on a pseudo-terminal in a live session, beside its interpreter
 *
 * It has the seal and the limits of everything in the session's sandbox, and nothing to do with
 * executions: neither an interrupt nor the loss of the interpreter reaches it, and Ctrl-C typed
 * into it reaches nobody else. It ends with its shell, with the session, and with a rollback, and
 * all that was started in it ends then. While one is open the session is not idle, and is neither
 * saved nor forked. It does not outlive its host.
 *
 * What it prints, and how it says that it ended, is content. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/session.h"
#include "wire/terminal.h"

#define TERMINAL_TYPED_MAX (1024 * KIB) /* bytes that wait to be taken */
#define TERMINAL_NAME_MAX  32           /* of a kind, as in TERM */

struct terminal;

/* Plain data. */
struct terminal_end {
    int exit_code;      /* of the shell */
    int signal;         /* 0: it exited */
    struct error error; /* msg "": it ended by itself; else why, and the two above say nothing */
};

struct terminal_events {
    void (*started)(void *ctx);                               /* the shell runs */
    void (*output)(void *ctx, const void *data, size_t len);  /* borrowed */
    void (*drained)(void *ctx);                               /* all that was written is taken */
    void (*ended)(void *ctx, const struct terminal_end *end); /* the last call; it is freed */
};

struct terminal_order {
    const char *kind;       /* TERM; see terminal_kind_is_valid() */
    unsigned columns, rows; /* 1 to TERMINAL_SIDE_MAX */
    char *const *env;       /* NAME=VALUE, beside and before the session's own; NULL: none */
    uint64_t idle_ms;       /* ended when nothing is typed or printed for this long; 0: never */
    const struct terminal_events *events; /* borrowed until the end */
    void *ctx;
};

bool terminal_kind_is_valid(const char *kind);

/* A session that is ready, busy or failed. `started` or `ended` follows, not from inside the call.
 * ERROR_LIMIT: it has GUEST_TERMINALS_MAX already. */
MUST_CHECK int terminal_open(struct terminal **out, struct session *session,
                             const struct terminal_order *order, struct error *err);

/* Ends it, and what runs in it; nobody is told. Also from inside its events. */
void terminal_close(struct terminal *terminal);

/* Copies. False: enough waits, and `drained` follows. Who goes on for TERMINAL_TYPED_MAX all the
 * same has it ended. */
bool terminal_write(struct terminal *terminal, const void *data, size_t len);

void terminal_resize(struct terminal *terminal, unsigned columns, unsigned rows);

/* Whether `output` may come. What is not taken makes the programs inside wait. */
void terminal_pause(struct terminal *terminal);
void terminal_resume(struct terminal *terminal);
