/* upkeep.h - what a server does now and then: forgetting what is over for long, looking for new
 * images, and giving back memory that a busy minute left */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/log.h"
#include "base/scoped.h"
#include "core/shelf.h"
#include "event/loop.h"
#include "store/store.h"

struct upkeep;

/* Borrowed as long as it lives, but for the order itself. */
struct upkeep_order {
    struct loop *loop;
    struct store *store;
    const struct log *log;
    struct shelf *shelf;
    uint64_t retention_ms;
};

struct upkeep *upkeep_new(const struct upkeep_order *order);
void upkeep_stop(struct upkeep *upkeep); /* asks the store for nothing any more */
void upkeep_free(struct upkeep *upkeep); /* after the store, which answers what is under way */
SCOPED_DEFINE(upkeep)
