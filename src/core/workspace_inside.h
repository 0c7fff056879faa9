/* workspace_inside.h - what workspace.c, which begins and ends, shares with the two ways */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/id.h"
#include "base/strbuf.h"
#include "codec/chunk.h"
#include "core/errand.h"
#include "core/workspace.h"

#define WORKSPACE_KEY_BYTES 160

struct workspace;
typedef void (*workspace_list_fn)(struct workspace *w, const struct error *err);

/* One save or restore. Whatever is under way of it is one of the members below. */
struct workspace {
    struct workspaces *all;
    struct workspace *next, **at;
    char id[ID_BYTES];
    char owner[CHUNK_OWNER_MAX_BYTES + 1];
    bool sees_all;
    workspace_fn fn;
    void *ctx;

    struct errand *errand;
    struct blob_put *put;
    struct blob_get *get;
    bool is_working; /* a thread has chunk, raw and packed, or the store is asked */
    bool is_dropped; /* and nobody waits for it any more */

    struct strbuf raw, packed;
    struct chunk_entry chunk; /* the one that is worked on */
    struct chunk_list list;   /* of this save; or what is restored */
    struct chunk_list before; /* save: what is there already */
    struct chunk_list *into;  /* one of the two, which is being read */
    workspace_list_fn on_list;
    bool has_list;
    uint64_t new_chunks;
    size_t at_chunk, fed;           /* restore: which one, and how much of it the sandbox has */
    bool is_known, has_ended;       /* save: the chunk is there; the sandbox has sent all */
    bool is_removal;                /* all of it is to go */
    struct workspace_info gone;     /* removal: what was there */
    char last[WORKSPACE_KEY_BYTES]; /* the last key that was looked at for removal */
    char **stale;                   /* keys that nobody needs any more */
    size_t stale_count;
    struct error err; /* of a thread */
    bool has_failed;
};

struct workspaces {
    struct workspaces_order order;
    struct workspace *first;
    struct loop_timer
        *timer; /* for a look at what is old; NULL: one is under way, or none is due */
    char (*doomed)[ID_BYTES];
    size_t doomed_count;
    bool is_stopped;
};

struct loop *workspace_loop(const struct workspace *w);
struct store *workspace_store(const struct workspace *w);
struct blob *workspace_blob(const struct workspace *w);
void workspace_key(const struct workspace *w, const uint8_t *name, char out[WORKSPACE_KEY_BYTES]);

/* Ends it and tells; `w` is gone. */
void workspace_fail(struct workspace *w, const struct error *err);
void workspace_finish(struct workspace *w);
/* After a thread has worked: false, `w` is gone, when nobody waits any more. */
bool workspace_is_wanted(struct workspace *w);

/* Reads the list into `into`; that there is none is no error: see has_list. */
void workspace_read_list(struct workspace *w, struct chunk_list *into, workspace_list_fn fn);

/* Makes one, which nothing is under way of yet; ERROR_CONFLICT: its workspace is busy. */
MUST_CHECK int workspace_new(struct workspace **out, struct workspaces *all,
                             const struct workspace_order *order, struct error *err);
void workspace_drop(struct workspace *w); /* without a word */

/* Removes the chunks that its list does not name, then goes on by is_removal. */
void workspace_clear(struct workspace *w);
void workspace_forget(struct workspace *w); /* a removal: the row, at last */

/* workspace_remove.c */
void workspace_remove_begin(struct workspace *w); /* its owner was looked at */
void workspaces_sweep_begin(struct workspaces *all);
void workspaces_sweep_stop(struct workspaces *all);

extern const struct errand_events workspace_save_events, workspace_restore_events;
void workspace_save_begin(struct workspace *w);
void workspace_restore_begin(struct workspace *w);
