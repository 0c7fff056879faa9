/* init.h - what the parts of cove-init share
 *
 * cove-init is pid 1 of a sandbox: it starts programs, reaps, forwards signals and moves files. It
 * runs sealed, with the tenant's uid but non-dumpable, so that no process inside can look into it
 * or trace it; the kernel keeps signals from inside away from a pid 1 that handles none. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/macros.h"
#include "wire/guest.h"

/* Forks and runs the program of a GUEST_START, and with GUEST_START_PLAIN the shim beside it, which
 * ends by itself. Answers the program's pid, or -1 with errno (of fork, or of the exec that failed
 * in the child). `fds` become 0, 1, 2, ... of the program; borrowed. */
pid_t init_start_program(const struct guest_message *m, char *strings, const int *fds,
                         size_t fd_count);

/* What a child takes over from init and a program must not have: signals that are ignored or
 * blocked. Before the exec. */
void init_settle_child(void);

/* Forks the keeper of a terminal, for a GUEST_TERMINAL: its pid, or -1 with errno. Whatever happens
 * later is told on the channel, which is borrowed. */
pid_t init_start_terminal(const struct guest_message *m, char *strings, int channel);
void init_refuse_terminal(int channel, int error);

/* Forks the porter of an errand with files, for a GUEST_PORTER; the same. */
pid_t init_start_porter(int channel);
void init_refuse_porter(int channel, int error);
NORETURN void init_run_porter(int channel); /* what it then is */

/* Kills every process but init and those of `keep`, which are its children; with an empty list, or
 * when that cannot be had, every one but init. `reap` is called for children that have ended.
 * `program` alone may still be dying afterwards; who is reaped is to be forgotten. */
void init_kill_others(const int32_t *keep, size_t count, pid_t program, void (*reap)(void *ctx),
                      void *ctx);
void init_wait_for_dying(void);
void init_forget_dying(pid_t pid);

/* Kills all that is below this process, which is the reaper of it. */
void init_kill_children(void (*reap)(void *ctx), void *ctx);

/* Whether init has children beside those of `keep`. */
bool init_has_others(const int32_t *keep, size_t count);

/* Copies of the workspace `root`: save, restore, forget. Part of the files worker. */
int init_snapshot(const struct guest_message *m, int root);

/* The whole workspace `root` into a pipe, and out of one into an empty workspace; the same. */
int init_pack(int root, int out);
int init_unpack(int root, int in);

/* The files worker: runs in a fork of init (but for a ..._NOW) and answers 0 or an errno. */
int init_files(const struct guest_message *m, int in_fd, int out_fd);
