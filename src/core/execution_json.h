/* execution_json.h - the execution object, the same at every door */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/json.h"
#include "core/execution.h"

struct execution_names {
    const char *id; /* NULL: its own */
    const char *session_id, *language;
    int64_t created_ns; /* 0: its own */
};

/* The object as compact text; `out` is initialised, and the caller's to release. */
void execution_text(struct strbuf *out, const struct execution *e,
                    const struct execution_names *names);

json_t *execution_json(const struct execution *e, const char *language); /* new */
json_t *result_json(const struct result *r);                             /* new */

/* In its object: keeps less of each stream, head and tail, and says so. */
void execution_json_cut(json_t *object, const struct execution *e, size_t max_bytes);
