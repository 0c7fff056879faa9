/* crew.h - the warm interpreters of a template: one, and more while many sessions are made
 *
 * An interpreter makes one session after the other, and while it does one processor is busy. With
 * several of them all processors are. Those that a rush has called end with it. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/warm.h"

struct crew;

/* `order` is that of each; its `changed` tells that crew_find() may have another answer. At most
 * `max` of them; 0: one for each processor that we may use, within reason. */
MUST_CHECK int crew_open(struct crew **out, struct loop *loop, struct spawner_client *spawner,
                         const struct warm_order *order, size_t max, struct error *err);
void crew_stop(struct crew *crew); /* ends them; sessions that they made live on */
void crew_free(struct crew *crew); /* after a stop, or when the spawner answers no more */
SCOPED_DEFINE(crew)

/* To be told each tenth of a second: how many sessions were asked for meanwhile. */
void crew_tick(struct crew *crew, unsigned asked);

uint64_t crew_find(const struct crew *crew); /* any that is warm; 0: there is none now */
const struct error *crew_error(const struct crew *crew); /* why; msg "" = the first one starts */
uint64_t crew_next(struct crew *crew); /* the same, by turns: who makes the next session */

void crew_on_event(struct crew *crew, const struct spawn_message *m);
