/* events.h - the events of an execution as server-sent events */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"

/* Answers the call with the events of an execution, behind the one that Last-Event-ID names. One
 * that has ended longer ago has only its last event; one that is not there is refused. */
void events_stream(struct api_call *call, const char *execution);

/* The number of the event that a Last-Event-ID (NULL: none) names, where ids of this process begin
 * behind `first`; 0: the stream begins with its first event. */
uint64_t events_find_start(const char *last_event_id, uint64_t first);
