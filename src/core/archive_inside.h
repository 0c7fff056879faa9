/* archive_inside.h - what the files of the archive share */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/id.h"
#include "base/map.h"
#include "core/archive.h"

struct finding;
struct load;

/* Files of one load, one after the other. */
struct lane {
    struct load *load;
    bool is_left; /* those that have to be read yet; else those whose bytes came with the end */
    bool is_done;
    bool is_going, is_waiting; /* of lane_go_on(): in its loop, and for the item that it began */
    size_t next;
    unsigned tries;
    struct blob_put *put;
    struct loop_timer *timer;
    struct carry *carry; /* left ones: the reading of one */
};

enum { LANE_HELD, LANE_LEFT, LANES };

/* What one execution left. */
struct load {
    struct archive *archive;
    struct map_node by_id;
    char id[ID_BYTES];
    char session[ID_BYTES]; /* "": it had none */
    struct haul haul;
    struct loop_timer *hold; /* until then its session waits */
    struct lane lanes[LANES];
    struct finding *waiting;
};

struct archive {
    struct archive_order order;
    const struct archive_source *source;
    void *source_ctx;
    struct map loads;    /* by execution */
    size_t held_bytes;   /* of their contents */
    uint64_t kept_bytes; /* at rest, or about to be */

    struct loop_timer *timer;
    bool is_sweeping;
    bool is_crowded;                /* it is not age that they go for */
    struct store_artifact **doomed; /* copies */
    size_t doomed_count, doomed_next, removed;
};

#define ARCHIVE_KEY_BYTES 128
void archive_key(const char *execution, const struct haul_item *item, char out[ARCHIVE_KEY_BYTES]);
/* `place` may be NULL. It borrows all. */
struct store_artifact archive_row(const char *execution, const struct haul_item *item,
                                  const char *place);

/* archive_load.c */
void load_begin(struct load *load);
void load_free(struct load *load); /* without a word to anybody */
void load_write_row(struct load *load, const struct haul_item *item, bool has_place, store_fn fn,
                    void *ctx);
/* The item of a lane is where it is to be, or err. May end the load. */
void lane_on_item(struct lane *lane, const struct error *err, bool can_retry);

/* archive_carry.c */
void carry_begin(struct lane *lane, struct haul_item *item); /* lane_on_item() follows */
void carry_free(struct carry *carry);                        /* NULL is fine */

/* archive_find.c */
void finding_begin(struct finding *finding);
void finding_fail(struct finding *finding, const struct error *err);
struct finding *finding_next(struct finding *finding);
void finding_look(struct finding *finding); /* begins it, or has it wait again */

/* archive_sweep.c */
void archive_sweep_start(struct archive *a);
void archive_sweep_now(struct archive *a);
void archive_sweep_release(struct archive *a);
