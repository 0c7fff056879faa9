/* pipes.h - the pipes of standard streams, some of them made before anybody waits for them
 *
 * A pipe is used once: who ran with it could have kept an end of it, also one to read. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define PIPES_STOCK 4 /* sets that wait, each of five fds */
#define PIPES_SPENT 8 /* ends that are still to be closed */

/* [0] is read from, [1] is written to. */
MUST_CHECK int pipes_open(int fds[2], struct error *err);
/* One whose [0] is for a loop. */
MUST_CHECK int pipes_open_output(int fds[2], struct error *err);

struct pipes_set {
    int input;         /* at its end: nobody can write to it */
    int outputs[2][2]; /* stdout, stderr */
};

/* Empty, with all bytes 0, to begin with. */
struct pipes {
    size_t count;
    struct pipes_set sets[PIPES_STOCK];
    size_t spent_count;
    int spent[PIPES_SPENT];
};

void pipes_release(struct pipes *pipes);

/* False: there is none in stock. The fds are the caller's then. */
bool pipes_take(struct pipes *pipes, struct pipes_set *out);

/* Takes the end of one that nobody writes to any more. It is closed when nobody waits: somebody
 * does for an answer when its output has just ended. */
void pipes_leave(struct pipes *pipes, int fd);

/* After an answer: closes those, and makes a set in advance, unless there are enough; without fds
 * for it there is none. */
void pipes_restock(struct pipes *pipes);
