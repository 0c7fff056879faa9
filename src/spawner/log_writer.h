/* log_writer.h - the process that writes the log of a server, and alone waits for who reads it
 *
 * Where the log goes is not ours to change: it may be a terminal that somebody has stopped, a pipe
 * that nobody empties, a file on a disk that is full, and not to block is a property that it shares
 * with the shell that we were started from. So standard error becomes a pipe of our own that does
 * not block, for us and for every program that we start, and this process carries what comes out
 * of it to where the log goes. While that takes nothing, the pipe fills, and who has a line more
 * drops and counts it (base/log.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define LOG_WRITER_PIPE_BYTES (1 << 20) /* some 3,000 lines; less where the kernel allows less */

struct log_writer {
    pid_t pid;        /* 0: none runs */
    int pid_fd;       /* the same, to be polled; -1 */
    int pipe_fd;      /* what it reads; -1: this spawner has no log of its own */
    int out_fd;       /* where the log goes */
    int64_t start_ns; /* when the next one is due, since the last has died */
};

/* With none: standard error stays what it is. */
void log_writer_init(struct log_writer *w);

/* Standard error is the pipe from here on. */
MUST_CHECK int log_writer_open(struct log_writer *w, struct error *err);

/* Gives standard error back, and waits until all is written, or for a second. When we are killed,
 * it has two. */
void log_writer_close(struct log_writer *w);

void log_writer_on_poll(
    struct log_writer *w); /* of pid_fd: it has died, and another shall follow */
void log_writer_on_time(struct log_writer *w);
int64_t log_writer_due_ns(const struct log_writer *w); /* when to call that; INT64_MAX: never */
