/* executors.h - executions elsewhere whose executor is not heard of any more
 *
 * Whoever runs something outside of this process says so again and again (report.h). One that falls
 * silent may have died in the middle: what it ran is queued once more when it was asked for as
 * idempotent, for the next executor that reports it as running; everything else is lost, and says
 * so. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/log.h"
#include "event/loop.h"
#include "store/store.h"

#define EXECUTORS_SILENT_MS 30000  /* after which what runs has lost its executor... */
#define EXECUTORS_TAKE_MS   300000 /* ...and what is queued again has found none */

struct executors;

struct executors_order {
    struct loop *loop;
    struct store *store;
    const struct log *log;
};

struct executors *executors_new(const struct executors_order *order);
void executors_stop(struct executors *executors); /* before the store is freed; NULL is fine */
void executors_free(struct executors *executors); /* after it; NULL is fine */
