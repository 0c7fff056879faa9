/* native.h - a spawner of one's own for a command that needs sandboxes and has no server */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"
#include "runtime/spawner_client.h"

/* Where a spawner of this user keeps its slots; owned by the caller, made. NULL: its own default.
 */
MUST_CHECK int native_run_dir(char **out, const struct cli *cli, struct error *err);

/* Starts cove-spawner with the configured directories; see spawner_client_open(). */
MUST_CHECK int native_open(struct spawner_client **out, const struct cli *cli, struct loop *loop,
                           spawner_reply_fn hello, spawner_event_fn event, void *ctx,
                           struct error *err);

/* The same, where sandboxes may get a way out. */
MUST_CHECK int native_open_with_egress(struct spawner_client **out, const struct cli *cli,
                                       struct loop *loop, spawner_reply_fn hello,
                                       spawner_event_fn event, void *ctx, struct error *err);
