/* output_file.h - one stream of an execution in a memory file, so that it outlives who reads it
 *
 * Bytes go from the pipe into the file without passing through this process, and are read back from
 * there. The file's size says how many there are: whoever holds pipe and file goes on where another
 * was stopped, at any instant. Beyond `max_bytes` only head and tail stay, as in struct output: the
 * second half of the file is then a ring, and behind it stands the true size; of that tail, what
 * was written last may be out of place when its writer was killed just then. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "core/output.h"

struct output_file {
    int fd; /* -1: there is none */
    size_t max_bytes;
    uint64_t total; /* bytes that came */
};

MUST_CHECK int output_file_open(struct output_file *file, size_t max_bytes, struct error *err);

/* Takes `fd`, which another process has filled. Never fails: of a file that makes no sense nothing
 * is used. */
void output_file_adopt(struct output_file *file, int fd, size_t max_bytes);
void output_file_close(struct output_file *file);

/* Puts bytes that were read elsewhere behind the others. False when memory is short. */
bool output_file_add(struct output_file *file, const void *data, size_t len);

/* Moves what is in `pipe_fd` into the file and reads it back: answers how many bytes are in
 * `buffer`, 0 at the end of the pipe, -1 with errno (EAGAIN: nothing now). */
ssize_t output_file_fill(struct output_file *file, int pipe_fd, void *buffer, size_t size);

/* Calls `fn` for all that is there from byte `offset` on, and rebuilds `out` from the first. */
typedef void (*output_file_fn)(void *ctx, const void *data, size_t len);
void output_file_replay(const struct output_file *file, struct output *out, uint64_t offset,
                        output_file_fn fn, void *ctx);
