/* outcome.c - exit statuses, and the reason in one line */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/outcome.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/term.h"

int outcome_status(const struct execution *e)
{
    switch (e->verdict.kind) {
    case REASON_NONE:
        return 0;
    case REASON_TIMEOUT:
        return OUTCOME_TIMEOUT;
    case REASON_CANCELLED:
        return 128 + SIGINT;
    case REASON_INFRASTRUCTURE:
        return error_info(e->error.code)->exit_status;
    case REASON_OOM:
    case REASON_PIDS:
    case REASON_DISK:
    case REASON_SIGNAL:
    case REASON_EXCEPTION:
    case REASON_EXIT:
    case REASON_EGRESS_DENIED:
    case REASON_SYSCALL_DENIED:
    case REASON_RUNNER_DIED:
        break;
    }
    if ((e->facts.has_ended || e->facts.runner_has_exited) && e->facts.signal == 0)
        return e->facts.exit_code;
    return e->facts.signal ? 128 + e->facts.signal : OUTCOME_KILLED;
}

void outcome_tell(const struct execution *e)
{
    const struct verdict *v = &e->verdict;
    if (v->kind == REASON_NONE || v->kind == REASON_EXIT || v->kind == REASON_CANCELLED ||
        v->kind == REASON_EXCEPTION)
        return;
    bool colour = term_has_colour(STDERR_FILENO);
    const char *off = term_style(colour, TERM_PLAIN);
    fprintf(stderr, "%scove: %s:%s %s\n", term_style(colour, TERM_RED), reason_kind_name(v->kind),
            off, v->message);
    if (v->hint[0])
        fprintf(stderr, "%scove: hint:%s %s\n", term_style(colour, TERM_DIM), off, v->hint);
}
