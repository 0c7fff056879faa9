/* spawner_client.h - talks to cove-spawner: starts it, numbers requests, brings the answers back */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "event/loop.h"
#include "wire/spawn.h"

struct spawner_client;

struct spawner_settings {
    const char *program;       /* path of cove-spawner */
    const char *run_dir;       /* NULL: its own default */
    const char *cgroup_parent; /* NULL: below our own group */
    uint64_t cpu_burst_milli;  /* 0: none */
    const char *const *stores; /* NULL-terminated: directories with images */
    const char *layers;        /* directory of package layers; NULL: none */
    const char *egress;        /* path of cove-egress; NULL: nobody will ask for it */
    uint32_t egress_uid, egress_gid;
};

#define SPAWNER_REPLY_FDS SPAWN_TAKE_FDS

/* `m` is the answer, or NULL when the spawner went away or refused: then *err says why. `fds` came
 * with the answer, or are -1; the callee takes those it wants (take_fd()), the others are closed.
 */
typedef void (*spawner_reply_fn)(void *ctx, const struct spawn_message *m,
                                 int fds[SPAWNER_REPLY_FDS], const struct error *err);

/* Something about a sandbox: SPAWN_SEALED, SPAWN_EXITED; or the spawner is gone (m is NULL). */
typedef void (*spawner_event_fn)(void *ctx, const struct spawn_message *m);

/* Starts the spawner and says hello; the answer to that comes as `hello`. Settings are borrowed for
 * the call. */
MUST_CHECK int spawner_client_open(struct spawner_client **out, struct loop *loop,
                                   const struct spawner_settings *settings, spawner_reply_fn hello,
                                   spawner_event_fn event, void *ctx, struct error *err);

/* For a client that the spawner has started: `fd` (taken, even on failure) is our end. */
MUST_CHECK int spawner_client_join(struct spawner_client **out, struct loop *loop, int fd,
                                   spawner_reply_fn hello, spawner_event_fn event, void *ctx,
                                   struct error *err);

/* From now on the spawner is told that the loop turns, and replaces a client of whom it is not: for
 * one that the spawner has started. */
void spawner_client_watch(struct spawner_client *client);

/* Closes the connection: the spawner that we have started removes every sandbox that is left, and
 * ends; waits for that when there is one. Outstanding requests are dropped without a call. */
void spawner_client_free(struct spawner_client *client);
SCOPED_DEFINE(spawner_client)

/* Sends `m` (its serial is filled in here). One answer follows, by `reply`; NULL: whatever it is.
 */
void spawner_client_ask(struct spawner_client *client, struct spawn_message *m,
                        spawner_reply_fn reply, void *ctx);

/* The same with fds, which stay the caller's. */
void spawner_client_ask_with(struct spawner_client *client, struct spawn_message *m, const int *fds,
                             size_t fd_count, spawner_reply_fn reply, void *ctx);

/* Answers that `ctx` waits for come by `reply`, with `other`: to outlive who asked, without
 * anything that would be left behind should no answer come. */
void spawner_client_redirect(struct spawner_client *client, const void *ctx, spawner_reply_fn reply,
                             void *other);

/* In words, for a message with SPAWN_FAILED. */
void spawner_client_explain(const struct spawner_client *client, const struct spawn_message *m,
                            struct error *err);

/* The counters that files of the kernel have: processor time, memory, refusals and kills. Nobody is
 * asked for them; what else a SPAWN_STATS tells stays as it is in *out. False: it has to be asked.
 * `where` is what the sandbox was told to be sealed by. */
bool spawner_client_read_stats(struct spawner_client *client, const struct spawn_sealed *where,
                               struct spawn_stats *out);
void spawner_client_forget_stats(struct spawner_client *client, const struct spawn_sealed *where);
