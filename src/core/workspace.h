/* workspace.h - the files of a session at rest: saved from one session, restored into another
 *
 *   workspaces/<session>/<sha256>   chunks of a tar stream, see codec/chunk.h
 *   workspaces/<session>/list       which of them make it up; written last
 *
 * The tar is made and unpacked inside of sandboxes only. A save that fails, or whose server dies,
 * leaves the one before: its list, and the chunks of it, are touched by nobody until the new list
 * is written. Then what no list names is removed. What did not change is not sent again.
 *
 * The store has a row of each, from before its first byte until after its last one: it knows whose
 * they are and how old, and what a save that was cut off may have left. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "base/log.h"
#include "blob/blob.h"
#include "core/session.h"
#include "event/loop.h"
#include "store/store.h"

struct workspaces; /* all that are on their way */

/* Borrowed as long as they live. */
struct workspaces_order {
    struct loop *loop;
    struct blob *blob;
    struct store *store;
    const struct log *log;
    uint64_t retention_ms; /* after the last save; 0: until somebody removes it */
};

struct workspaces *workspaces_new(const struct workspaces_order *order);
/* Before the sessions and the blobs go. Who waits is told that it was cut off. What the store is
 * asked meanwhile is answered to nobody; workspaces_free() is for after the store. */
void workspaces_stop(struct workspaces *all);
void workspaces_free(struct workspaces *all);
SCOPED_DEFINE(workspaces)

/* Plain data. */
struct workspace_info {
    const char *id;      /* of the session that it was saved from */
    uint64_t bytes;      /* of the tar stream */
    uint64_t chunks;     /* of it */
    uint64_t new_chunks; /* save: that were not there yet */
    int64_t saved_ns;    /* wall time */
};

typedef void (*workspace_fn)(void *ctx, const struct workspace_info *info, const struct error *err);

struct workspace_order {
    struct session *session;
    const char *id;    /* of the session that it is saved from; borrowed for the call */
    const char *owner; /* save: whose it is. restore: who asks, NULL: somebody who may see all */
    workspace_fn fn;   /* not from inside the call */
    void *ctx;
};

/* ERROR_CONFLICT: it is being saved or restored already. ERROR_NOT_FOUND comes to `fn`: there is
 * none, or it is somebody else's. A restore replaces files of the same names and leaves others. */
MUST_CHECK int workspaces_save(struct workspaces *all, const struct workspace_order *order,
                               struct error *err);
/* Removes what was saved; `session` is none of its business. The rules are those of a restore. */
MUST_CHECK int workspaces_remove(struct workspaces *all, const struct workspace_order *order,
                                 struct error *err);
MUST_CHECK int workspaces_restore(struct workspaces *all, const struct workspace_order *order,
                                  struct error *err);
