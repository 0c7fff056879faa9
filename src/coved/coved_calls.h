/* coved_calls.h - the list of system calls that coved makes once it has started */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "confine/confine.h"

extern const struct confine_call coved_calls[];
extern const size_t coved_call_count;

/* The same and those for one that has a bucket; owned by the caller. */
struct confine_call *coved_calls_with_network(size_t *count);
