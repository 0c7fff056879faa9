/* egress_calls.h - what cove-egress gives up, and the list of system calls that it keeps */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "confine/confine.h"

extern const struct confine_call egress_calls[];
extern const size_t egress_call_count;

/* For this thread and those that it begins later; for good. */
MUST_CHECK int egress_confine(struct error *err);
