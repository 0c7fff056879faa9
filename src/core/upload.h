/* upload.h - sends files of the host into a sandbox's workspace, as the files worker reads them */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "event/loop.h"

struct execution_input;
struct guest;
struct upload;

/* Starts the files worker of that sandbox and feeds it. The inputs are borrowed and must outlive
 * it. How it went is told by GUEST_FILES_DONE. */
MUST_CHECK int upload_begin(struct upload **out, struct loop *loop, struct guest *guest,
                            const struct execution_input *inputs, size_t count, struct error *err);

/* What the worker's errno means, always -1; `hint` is for a full disk. */
int upload_explain(int error, const char *hint, struct error *err);

/* Takes `sink_fd` (the pipe) even when it fails; the inputs are borrowed and must outlive it. Ends
 * by closing the pipe; the worker tells how it went. */
MUST_CHECK int upload_new(struct upload **out, struct loop *loop,
                          const struct execution_input *inputs, size_t count, int sink_fd,
                          struct error *err);
void upload_free(struct upload *upload);

/* The whole stream in a memory file, for inputs that are small; *out is owned, or -1 when they are
 * too large for that. */
MUST_CHECK int upload_pack(int *out, const struct execution_input *inputs, size_t count,
                           struct error *err);
