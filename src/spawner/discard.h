/* discard.h - closes what others have given us, in a process that is about to end
 *
 * The last close() of a socket that lingers, or of one in whose queue such a socket lies, waits for
 * as long as its maker likes; of a file on a remote file system, for as long as that does. A
 * process that exits does not linger. So a helper has copies of what is to be closed, and exits
 * when ours are closed: it is the last. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fd.h"

struct discard {
    int *fds; /* to be closed */
    size_t count, cap;
    pid_t pid;    /* of the helper that is under way; 0: none */
    int pid_fd;   /* the same; -1: none */
    bool is_late; /* no helper could be had just now */
};

/* Whether this is a pipe or a file in memory, whose close waits for nobody. Neither question
 * reaches a file system, as fstat() would: a remote one may not answer. */
bool discard_is_harmless(int fd);

void discard_init(struct discard *d);
void discard_release(struct discard *d); /* at our own end: the exit closes the rest */

/* Takes one that came from a client. Pipes and files in memory wait for nobody, and are closed at
 * once. -1 is fine, and is there afterwards. */
void discard_add(struct discard *d, int *fd);

void discard_bag(struct discard *d, struct fd_bag *bag); /* all of them; it is empty afterwards */

/* The same for a socket of our own making, whose other end is inside of a sandbox. */
void discard_channel(struct discard *d, int *fd);

void discard_begin(struct discard *d);   /* once a turn: starts a helper if there is work for one */
void discard_on_poll(struct discard *d); /* of pid_fd */
int64_t discard_wait_ms(const struct discard *d); /* until discard_begin() should try again; -1 */
