/* starter.h - the process that starts programs for the spawner, with nothing of its power or files
 *
 * The spawner changes its namespaces when it starts, and an ordinary user's has no way back. So a
 * process that was forked before makes them: as children of the spawner, in the namespaces that it
 * came from. It knows which programs there are, and takes one kind of order.
 *
 * It also watches the loop of the spawner, which nobody else could: one that stands still in a call
 * is interrupted, and told of, first; one that goes on standing is killed, which ends all sessions
 * but lets a service manager begin anew. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/log.h"

#define STARTER_NUDGE   SIGUSR1 /* does nothing but end a wait in the kernel */
#define STARTER_TURN_MS 2000    /* the spawner's loop turns so often, whatever it waits for */

enum starter_kind { STARTER_CLIENT, STARTER_PROXY, STARTER_KINDS };

struct starter_program {
    char *path;  /* absolute; NULL: there is none; all borrowed */
    char **argv; /* NULL-terminated */
    uint64_t uid, gid;
    bool is_bare; /* gets nothing of our environment but what sanitizers are told */
};

struct starter {
    struct starter_program programs[STARTER_KINDS];
    int fd; /* -1: there is none */
    pid_t pid;
    const struct log *log; /* borrowed */
    uint64_t watch_ms;     /* how long that loop may stand before it is interrupted; 0: for ever */
    _Atomic uint32_t *turns; /* of the spawner's loop, in memory that both have */
    bool is_gone;            /* it died, and nobody can start anything any more */
};

/* To be called before anything is changed that a program must not inherit; `log` and `watch_ms` are
 * set. */
MUST_CHECK int starter_open(struct starter *s, const struct starter_program *programs,
                            struct error *err);
void starter_close(struct starter *s);

void starter_on_turn(struct starter *s); /* once a turn of our loop */

/* The program finds with[0], a socket, as its fd 3, and its end on death of the spawner. It stands
 * in the groups whose doors the others are (client_group.h). Answers its pid, a child of ours, or
 * -1. The fds stay the caller's. */
pid_t starter_start(struct starter *s, enum starter_kind kind, const int *with, size_t with_count);
