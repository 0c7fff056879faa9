/* stdio.h - the three pipes of a program: feeds its input, keeps its output
 *
 * No file of the host's goes into a sandbox as a stream: each end that goes inside is one of a
 * fresh pipe. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "core/output.h"
#include "event/loop.h"

enum execution_stream { EXECUTION_STDOUT, EXECUTION_STDERR };

struct pipes;
struct stdio;

/* Borrowed until the free. */
struct stdio_order {
    int stdin_fd;              /* taken, even on failure; -1: an empty input */
    bool wants_throughput;     /* larger pipes */
    struct pipes *pipes;       /* of a lazy one without input: a stock; NULL: none */
    bool is_lazy;              /* read only by stdio_read_now(), until stdio_watch() */
    struct output *outputs[2]; /* by enum execution_stream: filled */
    void (*output)(void *ctx, enum execution_stream stream, const void *data, size_t len);
    void (*ended)(void *ctx); /* both outputs are at their end; may free */
    void *ctx;
};

/* `theirs` are the ends for the program: stdin, stdout, stderr; the caller's to close. */
MUST_CHECK int stdio_new(struct stdio **out, struct loop *loop, const struct stdio_order *order,
                         int theirs[3], struct error *err);
void stdio_free(struct stdio *stdio);

#define STDIO_KEPT_FDS 4 /* pipe and file of stdout, pipe and file of stderr */

/* From now on output goes through memory files (output_file.h) of `max_bytes` each; before anything
 * was read. `fds` (borrowed, until the free) are what another process needs to go on. */
MUST_CHECK int stdio_keep(struct stdio *stdio, size_t max_bytes, int fds[STDIO_KEPT_FDS],
                          struct error *err);

/* Goes on where another process was stopped. Fills the outputs from their first byte, and tells by
 * `output` what comes from byte `offsets` on. The fds are taken, even on failure. */
MUST_CHECK int stdio_adopt(struct stdio **out, struct loop *loop, const struct stdio_order *order,
                           size_t max_bytes, const int fds[STDIO_KEPT_FDS],
                           const uint64_t offsets[2], struct error *err);

bool stdio_has_ended(const struct stdio *stdio);

/* Begins to read as it comes, for a lazy one. Watching costs more than a short execution. */
MUST_CHECK int stdio_watch(struct stdio *stdio, struct error *err);

/* Reads what is in the pipes at this moment, without waiting; `ended` is not called from here. */
void stdio_read_now(struct stdio *stdio);

/* From now on what comes is dropped, into no output and no `output` call; `ctx` is the new one for
 * `ended`. The input ends. */
void stdio_discard(struct stdio *stdio, void *ctx, void (*ended)(void *ctx));
