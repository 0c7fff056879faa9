/* main.c - cove-egress: the only way out of sandboxes that may have one
 *
 * Started by cove-spawner, as a user that nobody else is, with one socket: to who hosts the
 * sandboxes. It parses what code inside sends and what hosts answer, so it is confined before it
 * hears of any of them, and dies with its host: without one, there is no way out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/macros.h"
#include "egress/control.h"
#include "egress/egress_calls.h"
#include "egress/trust.h"
#include "wire/egress.h"

#define EXIT_MISUSE   64
#define EXIT_INTERNAL 70
#define RESOLVERS     "16" /* names that are asked for at a time */

static void on_ended(void *ctx)
{
    loop_stop(ctx);
}

static int run(struct error *err)
{
    scoped(loop) struct loop *loop = NULL;
    scoped(control) struct control *control = NULL;
    scoped(trust) struct trust *trust = trust_new(); /* opens what it could not open later */
    if (egress_confine(err) < 0 || loop_open(&loop, err) < 0 ||
        control_open(&control, loop, EGRESS_LINK_FD, trust, on_ended, loop, err) < 0)
        return -1;
    loop_run(loop);
    /* Threads may still wait for a name server, for longer than anybody waits for us. */
    _exit(0);
}

int main(void)
{
    struct error err;
    signal(SIGPIPE, SIG_IGN);
    if (isatty(EGRESS_LINK_FD) || setenv("UV_THREADPOOL_SIZE", RESOLVERS, 1) < 0) {
        fprintf(stderr, "cove-egress: is started by cove-spawner\n");
        return EXIT_MISUSE;
    }
    if (run(&err) == 0)
        return 0;
    fprintf(stderr, "cove-egress: %s\n", err.msg);
    return EXIT_INTERNAL;
}
