/* keeper.h - what a client has its spawner hold for the client after it
 *
 * Only a spawner that starts its clients itself does that; any other refuses, and nothing of this
 * matters. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "runtime/spawner_client.h"

/* What each slot of a sandbox holds. */
enum keeper_slot {
    KEEPER_CHANNEL, /* our end of the kernel's channel */
    KEEPER_OUTPUT,  /* while an execution runs: its pipes and files, see core/stdio.h */
    KEEPER_SECRETS, /* a memory file, see core/vault.h */
};
_Static_assert(KEEPER_SECRETS < SPAWN_KEEP_SLOTS, "each has its slot");

/* Holds copies of the fds, which stay the caller's, in place of those before; count 0: none. Not
 * answered: when it fails, the next client finds less. What is sent later, on whichever socket,
 * happens after it, also should the caller die in between. */
void keeper_put(struct spawner_client *client, uint64_t sandbox,
                const uint8_t label[SPAWN_LABEL_BYTES], enum keeper_slot slot, const int *fds,
                size_t count);

/* The same, with up to SPAWN_NOTE_BYTES that the next client is told in the list. */
void keeper_put_noted(struct spawner_client *client, uint64_t sandbox,
                      const uint8_t label[SPAWN_LABEL_BYTES], enum keeper_slot slot, const int *fds,
                      size_t count, const void *note, size_t note_len);

/* Calls `fn` for each sandbox and zygote that is there, then once with `entry` NULL; *err tells
 * whether that is the end (NULL) or a failure. */
typedef void (*keeper_list_fn)(void *ctx, uint64_t id, const struct spawn_entry *entry,
                               const struct error *err);
void keeper_list(struct spawner_client *client, keeper_list_fn fn, void *ctx);

/* The one fd in a slot of a sandbox, which `fn` may take; -1: there is none. Once, later. */
typedef void (*keeper_fd_fn)(void *ctx, int *fd);
void keeper_get(struct spawner_client *client, uint64_t sandbox, enum keeper_slot slot,
                keeper_fd_fn fn, void *ctx);
