/* follow.h - an execution of a server as people see it: its output as it comes, and how it ended */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/client/client.h"

enum follow_style {
    FOLLOW_SHOW,   /* output to where it belongs */
    FOLLOW_QUIET,  /* nothing is printed */
    FOLLOW_EVENTS, /* one line of JSON for each event */
};

enum follow_end { FOLLOW_ENDED, FOLLOW_LEFT, FOLLOW_FAILED };

/* Readable when SIGINT, SIGTERM or SIGHUP came, which do nothing else from then on. */
MUST_CHECK int follow_open_signals(int *out, struct error *err);

/* Until it has ended: then *document is the whole of it, a new value. A connection that breaks is
 * taken up again. A signal, or a reader of our output who leaves, cancels the execution if
 * `may_cancel`, else it ends the following; so does the second signal. */
struct follow_order {
    const char *execution;
    enum follow_style style;
    int signal_fd;
    bool may_cancel;
};
enum follow_end follow_run(struct client *c, const struct follow_order *order, json_t **document,
                           struct error *err);

/* Everything that the document of an execution has to show, as if it had been followed. */
void follow_show(const json_t *execution);

/* The exit status that belongs to it, as `cove run` has it. */
int follow_status(const json_t *execution);
