/* process.h - runs another program to its end: argv without a shell, output through a callback */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Called with what the program wrote, as it comes; `stream` is STDOUT_FILENO or STDERR_FILENO.
 * Answering -1 with *err filled kills the program, and process_run() fails with that error. */
typedef int (*process_output_fn)(void *ctx, int stream, const char *data, size_t len,
                                 struct error *err);

struct process {
    const char *const *argv;  /* NULL-terminated; argv[0] is looked up in PATH */
    const char *const *envp;  /* NULL: our own environment */
    const char *cwd;          /* NULL: our own */
    const int *stdin_fd;      /* NULL: /dev/null; borrowed */
    process_output_fn output; /* NULL: stdout and stderr go where ours go */
    void *ctx;                /* for output */
    uint64_t timeout_ms;      /* 0: none */
};

struct process_end {
    int exit_status; /* -1 when a signal ended it */
    int signal;      /* 0 when it exited */
    bool timed_out;
};

/* Runs it and waits. -1 only when it could not be started, watched, or `output` failed; a program
 * that fails is a normal end. It gets a process group of its own, default signal handling, and
 * SIGTERM when the calling thread dies; at the timeout the group gets SIGTERM and, 2 s later,
 * SIGKILL. Every fd that is not O_CLOEXEC is inherited. */
MUST_CHECK int process_run(const struct process *process, struct process_end *end,
                           struct error *err);

/* The same, where anything but exit status 0 is an error; with `output` NULL, what it printed on
 * stdout and stderr is captured, and the message holds its last line. */
MUST_CHECK int process_check(const struct process *process, struct error *err);
