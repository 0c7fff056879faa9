/* serve.h - the client that the spawner starts itself, and starts again when it dies
 *
 * Sandboxes outlive such a client. Its end is seen on its process, not on its socket: a copy of
 * that could be anywhere. Status 0 is a goodbye, and ends everything; so does its death of SIGTERM
 * or SIGINT, which ask for that. With SPAWN_REFUSAL it says that it cannot begin; that is believed
 * unless a sandbox is kept for the next one. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/log.h"
#include "spawner/client_group.h"
#include "spawner/starter.h"
#include "spawner/watchdog.h"

/* From the command line. */
struct serve_options {
    char *program; /* NULL: there is one client, on an inherited socket, and no second */
    uint64_t uid;  /* whom it runs as */
    uint64_t gid;
    uint64_t grace_ms; /* how long sandboxes live without a client that has said hello */
    uint64_t watch_ms; /* how long its loop may stand still; 0: for ever */
};

struct serve {
    bool is_on;
    const struct log *log; /* borrowed */
    const struct serve_options *options;
    char **argv;
    pid_t pid; /* 0: none runs */
    int pid_fd;
    int64_t start_ns; /* when the next one is due */
    int64_t alone_ns; /* since when nobody has said hello; 0: somebody has */
    int64_t hello_ns;
    int64_t kill_ns;    /* when one that was asked to go is killed; 0: it was not asked */
    int64_t refused_ns; /* since when every one has refused to serve; 0: the last one has not */
    unsigned failures;
    bool is_last; /* there shall be no other */
    struct watchdog watchdog;
    bool is_watched; /* it has told of its loop, and must go on doing so */
};

/* *program is what the starter needs to know of the client, if there is to be one. `arguments` are
 * those of the program, NULL-terminated; all is borrowed. */
MUST_CHECK int serve_open(struct serve *serve, const struct serve_options *options,
                          const struct log *log, char **arguments, struct starter_program *program,
                          struct error *err);
void serve_close(struct serve *serve); /* kills it, and waits for that */

/* Starts one when that is due; *socket is then our end of a fresh pair, owned by the caller, else
 * untouched. True: a client was started. */
bool serve_start(struct serve *serve, struct starter *starter, struct client_group *group,
                 int *socket);

void serve_on_hello(struct serve *serve);
void serve_on_pulse(struct serve *serve); /* its loop has turned */

/* It has hung up, so it is about to end; one that lingers is killed, one that must is at once. */
void serve_on_lost(struct serve *serve, bool must_die);

/* It shall end: there is no other after it. False when none runs. */
bool serve_ask_to_stop(struct serve *serve);

enum serve_news { SERVE_NO_NEWS, SERVE_HAS_ENDED, SERVE_HAS_REFUSED, SERVE_IS_OVER };

/* Its process has something to tell (the poll of pid_fd). SERVE_IS_OVER: by its own will, or as it
 * was asked to. */
enum serve_news serve_on_poll(struct serve *serve);

/* Every client of the whole grace time has refused, so the next ones will. */
bool serve_is_hopeless(const struct serve *serve);

/* What time brings; one whose loop stands still is killed. True when sandboxes have been without a
 * client for too long. */
bool serve_on_time(struct serve *serve);
int64_t serve_due_ns(const struct serve *serve); /* when to call that again */
