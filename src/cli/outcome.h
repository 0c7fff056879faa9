/* outcome.h - how a command ends and what it says after an execution */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/execution.h"

#define OUTCOME_TIMEOUT 124
#define OUTCOME_KILLED  137

/* The program's own status, where it had one. */
int outcome_status(const struct execution *e);

/* Says on standard error why it ended, with a hint; nothing when that speaks for itself. */
void outcome_tell(const struct execution *e);
