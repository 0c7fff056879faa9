/* repl.h - one session of this process, and the ways to talk to it
 *
 * cmd_repl.c opens the session; a *front* reads what is to be done and shows what came of it: the
 * terminal for people, lines of JSON for programs. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"
#include "core/session.h"
#include "image/runner.h"

struct repl {
    struct cli *cli;
    const struct runner *runner;
    struct loop *loop;
    struct session *session;
    const struct repl_front *front;
    void *front_state; /* owned by the front */
    int status;        /* of the process */
};

struct repl_front {
    /* Once, when the session is asked for; it may take long to be ready. */
    int (*open)(struct repl *repl, struct error *err);
    void (*close)(struct repl *repl);
    /* The state of the session has changed. */
    void (*changed)(struct repl *repl, const struct session_info *info);
    void (*signal)(struct repl *repl, int signal); /* SIGINT, SIGTERM, SIGHUP */
};

extern const struct repl_front
    repl_script; /* --json: a request per line in, an answer per line out */
extern const struct repl_front
    repl_terminal; /* people; also a pipe, whose whole text is one cell */

/* Ends the session; the process ends when it is gone. */
void repl_quit(struct repl *repl, int status);
