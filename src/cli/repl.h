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
    struct session *forks[SESSION_FORKS_MAX + 1]; /* NULL-terminated; also those that are over */
    const struct repl_front *front;
    void *front_state; /* owned by the front */
    const char *out;   /* --out; NULL: none */
    bool has_history;
    bool is_rootless;
    int status;         /* of the process */
    struct error error; /* that ends it; msg "": none */
};

struct repl_front {
    /* Once, when the session is asked for; it may take long to be ready. */
    int (*open)(struct repl *repl, struct error *err);
    void (*close)(struct repl *repl); /* also of one that did not open, if it has a state */
    /* The state of the session has changed. */
    void (*changed)(struct repl *repl, const struct session_info *info);
    void (*signal)(struct repl *repl, int signal); /* SIGINT, SIGTERM, SIGHUP */
};

extern const struct repl_front
    repl_script; /* --json: a request per line in, an answer per line out */
extern const struct repl_front repl_terminal; /* for people */
extern const struct repl_front repl_pipe; /* no terminal: the whole of standard input is one cell */

/* A fork is over; the process ends with the last session. */
void repl_on_over(struct repl *repl);
/* Ends the session and its forks; the process ends when they are gone. */
void repl_quit(struct repl *repl, int status);
/* The same; the error is told, and its status is the process's. */
void repl_fail(struct repl *repl, const struct error *err);
