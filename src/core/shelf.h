/* shelf.h - templates: what the store keeps and what sessions are made from, in step
 *
 * A template is checked before it is written, and sessions are made from it when the write is
 * committed and not before; whoever asked is told last. A template of which no session can be made
 * any more, since its image is gone or the operator allows less, stays in the store: its document
 * says what the problem is.
 *
 * One thread. Callbacks come exactly once, from the loop or from inside the call. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/id.h"
#include "base/log.h"
#include "core/catalog.h"
#include "store/store.h"

#define SHELF_MAX 256 /* templates: each holds files open */

struct shelf;

/* Borrowed as long as the shelf lives. */
struct shelf_order {
    struct store *store;
    struct catalog *catalog;
    const struct log *log;
};

struct shelf *shelf_new(const struct shelf_order *order);
void shelf_free(struct shelf *shelf); /* after the store, which answers what is under way */
SCOPED_DEFINE(shelf)

/* Once, at the start: puts all templates of the store into the catalog, and seeds one for each
 * language that there is, unless that was done before. What cannot be used or seeded is logged; an
 * error is one of the store's, which could not be read. */
typedef void (*shelf_loaded_fn)(void *ctx, const struct error *err);
void shelf_load(struct shelf *shelf, shelf_loaded_fn fn, void *ctx);

/* Whether images have come or changed since the last look: then templates are loaded again, so that
 * they have the new ones, and new languages get theirs. To be called now and then. */
void shelf_look(struct shelf *shelf);

/* `document` is borrowed for the call:
 *   {"id", the fields of template_table, "problem", "version", "created_at", "updated_at"}
 * of a list: {"templates": [...], "next_cursor"}; NULL of one that was removed. */
typedef void (*shelf_fn)(void *ctx, json_t *document, const struct error *err);

/* `id` is the one that it is to have; NULL: any. */
void shelf_add(struct shelf *shelf, const char *id, const struct template_spec *spec, shelf_fn fn,
               void *ctx);

/* `word` is an id or a name. Sessions that were made from what it was go on. */
void shelf_change(struct shelf *shelf, const char *word, const struct template_change *change,
                  shelf_fn fn, void *ctx);

/* ERROR_CONFLICT while live sessions use it, or when it has another version; 0: any. */
void shelf_remove(struct shelf *shelf, const char *word, uint64_t version, shelf_fn fn, void *ctx);

void shelf_get(struct shelf *shelf, const char *word, shelf_fn fn, void *ctx);
void shelf_list(struct shelf *shelf, const char *cursor, uint64_t limit, shelf_fn fn, void *ctx);
