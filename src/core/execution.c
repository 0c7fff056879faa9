/* execution.c - the beginning and the end that all executions have in common */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/execution.h"

#include <stdio.h>

#include "base/clock.h"

void execution_init(struct execution *e, const struct spawn_limits *limits, uint64_t timeout_ms,
                    size_t output_bytes)
{
    *e = (struct execution){
        .created_ns = clock_wall_ns(),
        .facts = {.limits = *limits, .timeout_ms = timeout_ms},
    };
    output_init(&e->out, output_bytes);
    output_init(&e->err, output_bytes);
}

void execution_release(struct execution *e)
{
    result_list_release(&e->results);
    exception_release(&e->exception);
    artifact_list_release(&e->artifacts);
    output_release(&e->out);
    output_release(&e->err);
}

void execution_judge(struct execution *e)
{
    e->ended_ns = clock_wall_ns();
    if (!e->error.msg[0]) {
        verdict_reach(&e->verdict, &e->facts);
        return;
    }
    e->verdict = (struct verdict){.state = EXECUTION_LOST, .kind = REASON_INFRASTRUCTURE};
    snprintf(e->verdict.message, sizeof(e->verdict.message), "%.255s", e->error.msg);
    snprintf(e->verdict.hint, sizeof(e->verdict.hint), "%s", e->error.hint);
}
