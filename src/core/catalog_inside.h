/* catalog_inside.h - what the files of the catalog share */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/id.h"
#include "base/map.h"
#include "core/catalog.h"

#define CATALOG_WARM_LANGUAGE "python" /* whose interpreter can be forked */
#define CATALOG_KEPT_MAX      8

/* The runners of one look; recipes point into it. */
struct runner_book {
    unsigned refs;
    struct runner_list list;
};

struct catalog_kind {
    unsigned refs;
    struct catalog *catalog;
    struct map_node by_id;
    struct catalog_kind *next; /* of all that live */
    struct catalog_kind *base; /* with whose warm interpreter it is made; NULL: its own */
    char id[ID_BYTES];
    struct template_spec spec;
    struct runner_book *book;
    struct packages packages; /* none: count is 0 */
    struct recipe *recipe;
    struct pool *pool; /* NULL: not wanted yet, or has gone */
    int64_t used_ns;   /* of one that is kept: when somebody asked for it last */
    bool is_closing;
};

/* Kinds with packages of a request's own, for the next who asks for the same. */
struct catalog_kept {
    struct catalog_kind *kinds[CATALOG_KEPT_MAX];
    size_t count;
    struct loop_timer *timer; /* NULL: there is none */
};

struct catalog {
    struct catalog_order order;
    struct runner_book *book;
    struct map by_id;
    struct catalog_kind *all;
    struct catalog_kept kept;
    void (*closed)(void *ctx);
    void *closed_ctx;
    bool is_started, is_closing;
};

void catalog_drop_book(struct runner_book *book); /* NULL is fine */
void catalog_tell_closed(struct catalog *c);      /* if that is so, and somebody waits for it */

/* --- catalog_kind.c --------------------------------------------------------------------------- */

struct catalog_kind *kind_hold(struct catalog_kind *k);

/* Takes nothing of `spec`; the answer has one holder. */
MUST_CHECK int kind_make(struct catalog_kind **out, struct catalog *c, struct runner_book *book,
                         const char *id, const struct template_spec *spec,
                         const struct resource_spec *over, struct error *err);

/* Which runner it is for. NULL with *err: there is none. */
const struct runner *kind_find_runner(const struct runner_book *book,
                                      const struct template_spec *spec, struct error *err);

/* Whether one can be made of it. */
MUST_CHECK int kind_try(const struct catalog *c, const struct runner *runner,
                        const struct template_spec *spec, struct error *err);

/* Whose pools were still closing. */
void kind_free_unheld(struct catalog *c);

bool kind_can_be_warm(const struct catalog_kind *k);

/* A warm interpreter for sessions of `own`, which differs from its base; 0: there is none. */
uint64_t kind_find_zygote(const struct catalog_kind *own);

MUST_CHECK int kind_need_pool(struct catalog_kind *k, struct error *err);
MUST_CHECK int kind_stock(struct catalog_kind *k, struct error *err); /* if its template says so */
void kind_close_pool(struct catalog_kind *k);

/* --- catalog_kept.c --------------------------------------------------------------------------- */

/* That of `base` with these packages; NULL: none is kept. Borrowed. */
struct catalog_kind *kept_find(struct catalog *c, const struct catalog_kind *base,
                               const struct param_strings *requirements);

/* The same by its layer: `k` itself, or the one that was kept before, which then has its holder. */
struct catalog_kind *kept_add(struct catalog *c, struct catalog_kind *k);

void kept_drop_of(struct catalog *c, const struct catalog_kind *base); /* NULL: all */
