/* sessions.h - a list of sessions as a table, for `cove session list` and `cove top` */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "cli/client/table.h"

/* Of documents of the server; owned by the caller. */
struct table *sessions_table(const json_t *sessions);
