/* starter.h - the process that starts programs for the spawner, with nothing of its power or files
 *
 * The spawner changes its namespaces when it starts, and an ordinary user's has no way back. So a
 * process that was forked before makes them: as children of the spawner, in the namespaces that it
 * came from. It knows which programs there are, takes one kind of order and opens nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

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
    bool is_gone; /* it died, and nobody can start anything any more */
};

/* To be called before anything is changed that a program must not inherit. */
MUST_CHECK int starter_open(struct starter *s, const struct starter_program *programs,
                            struct error *err);
void starter_close(struct starter *s);

/* The program finds `socket` as its fd 3, and its end on death of the spawner. Answers its pid, a
 * child of ours, or -1. */
pid_t starter_start(struct starter *s, enum starter_kind kind, int socket);
