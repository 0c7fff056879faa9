/* pipes.h - the pipes of standard streams, some of them made before anybody waits for them
 *
 * A pipe is used once: who ran with it could have kept an end of it, also one to read. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define PIPES_STOCK 4 /* sets that wait, each of five fds */

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
};

void pipes_release(struct pipes *pipes);

/* False: there is none in stock. The fds are the caller's then. */
bool pipes_take(struct pipes *pipes, struct pipes_set *out);

/* Makes one in advance, unless there are enough; without fds for it there is none. */
void pipes_restock(struct pipes *pipes);
