/* shelve.h - the templates of the store on their way into the catalog, at the start */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/log.h"
#include "core/catalog.h"
#include "store/store.h"

/* Puts all of them into the catalog; into a store that has none, one for each language is written
 * first. `done` comes once, later; everything is borrowed until then. */
void shelve_templates(struct store *store, struct catalog *catalog, const struct log *log,
                      void (*done)(void *ctx, const struct error *err), void *ctx);
