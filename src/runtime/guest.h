/* guest.h - the host's end of the control socket to cove-init in one sandbox */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "event/loop.h"
#include "wire/guest.h"

struct guest;

/* `m` is NULL when the channel is closed or spoke nonsense: the sandbox is of no use any more. */
typedef void (*guest_message_fn)(void *ctx, const struct guest_message *m);

/* Takes `fd`, even when it fails. */
MUST_CHECK int guest_open(struct guest **out, struct loop *loop, int fd, guest_message_fn fn,
                          void *ctx, struct error *err);
void guest_free(struct guest *guest);
SCOPED_DEFINE(guest)

/* What to run; NULL-terminated lists, all borrowed. argv[0] is a path inside the sandbox. */
struct guest_program {
    const char *directory;
    const char *const *argv;
    const char *const *env;
    bool is_plain; /* a kernel that speaks the plain form: see kernel.h */
};

/* Sends a GUEST_START; `fds` become the program's 0, 1, 2, ... (3 to GUEST_START_FDS of them) and
 * stay the caller's. */
MUST_CHECK int guest_start(struct guest *guest, const struct guest_program *program, const int *fds,
                           size_t fd_count, struct error *err);

/* Sends a GUEST_TERMINAL: each argument is a shell to try, in this order, and `channel`, which
 * stays the caller's, is its end of a SOCK_SEQPACKET pair. */
MUST_CHECK int guest_terminal(struct guest *guest, const struct guest_program *program,
                              unsigned columns, unsigned rows, int channel, struct error *err);

/* Sends a GUEST_PORTER; `channel` as of a terminal. */
MUST_CHECK int guest_porter(struct guest *guest, int channel, struct error *err);

/* `since_ns`: for a list, 0 = all. */
MUST_CHECK int guest_files(struct guest *guest, enum guest_files_op op, int in_fd, int out_fd,
                           int64_t since_ns, struct error *err);

/* Nobody is told any more of what was asked about files so far, by this host or one before. */
void guest_forget_files(struct guest *guest);

/* These cannot fail in a way that matters: a dead channel is told by the callback. */
void guest_signal(struct guest *guest, int signal);
void guest_kill(struct guest *guest); /* every process but init, terminals with what runs in them,
                                       * porters and those of the last guest_keep() */

/* The pids (inside) that no guest_kill() ends from now on; at most GUEST_KEEP_MAX. */
void guest_keep(struct guest *guest, const int32_t *pids, size_t count);

/* Those pids, borrowed until the next guest_keep(). */
const int32_t *guest_kept(const struct guest *guest, size_t *count);

/* A kill that is answered, GUEST_KILLED, and ends terminals, too. */
void guest_kill_and_tell(struct guest *guest);

/* GUEST_FILES_SAVE or _RESTORE of the copy `number`; GUEST_FILES_DONE follows. */
void guest_snapshot(struct guest *guest, enum guest_files_op op, uint32_t number, uint32_t base);

/* GUEST_FILES_PACK or _UNPACK through that fd, which stays the caller's; GUEST_FILES_DONE follows.
 */
void guest_pack(struct guest *guest, enum guest_files_op op, int fd);

/* GUEST_FILES_FORGET, and the end of two processes that belong to it; 0: none. */
void guest_forget(struct guest *guest, uint32_t number, int32_t pid, int32_t other);

/* Makes a child of init's the program; GUEST_ADOPTED follows. */
void guest_adopt(struct guest *guest, int32_t pid);

/* What another host may have missed: GUEST_TOLD follows. */
void guest_ask(struct guest *guest);
