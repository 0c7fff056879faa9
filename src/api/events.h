/* events.h - the events of an execution as server-sent events */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"

/* Answers the call with the events of an execution, behind the one that Last-Event-ID names. One
 * that has ended longer ago has only its last event; one that is not there is refused. */
void events_stream(struct api_call *call, const char *execution);
