/* spool_inside.h - what spool.c shares with spool_move.c */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "blob/blob_ops.h"
#include "blob/spool.h"

#define SPOOL_PAGE 100 /* keys that are known at a time */

struct spool_question;

/* The one move that is under way; its steps are in spool_move.c. */
struct spool_move {
    char *keys[SPOOL_PAGE]; /* that wait, and those that have their turn */
    size_t count, next;
    char after[BLOB_KEY_MAX_BYTES + 1]; /* the last one of the page before */
    bool has_more;                      /* there are others behind the page */
    bool is_busy;                       /* a call comes: from a list, a get, a put or a removal */
    bool is_asked;                      /* something came while it was busy */
    const char *key;                    /* of the blob that is at both places; NULL: none */
    struct blob_get *get;
    struct blob_put *put;
    struct loop_timer *timer;
    unsigned failures; /* one after the other */
};

struct spool {
    struct blob blob;
    struct spool_order order;
    char *prefix;
    struct spool_move move;
    struct spool_question *questions; /* that are open */
    struct spool_put *writers;
    struct spool_get *readers;
};

void spool_move_begin(struct spool *spool);   /* something waits, or may */
void spool_move_release(struct spool *spool); /* what is under way ends without a word */

/* A move has ended: removals of its key may go on. */
void spool_on_moved(struct spool *spool);
