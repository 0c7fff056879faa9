/* verdict.h - what the host saw of a run, and what that means
 *
 * Pure: facts in, a state and a reason out. Nothing that the code inside said is a fact. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/spawn.h"

enum execution_state {
    EXECUTION_QUEUED,
    EXECUTION_RUNNING,
    EXECUTION_COMPLETED,
    EXECUTION_FAILED,
    EXECUTION_TIMEOUT,
    EXECUTION_CANCELLED,
    EXECUTION_LOST,
};

enum reason_kind {
    REASON_NONE,
    REASON_TIMEOUT,
    REASON_OOM,
    REASON_PIDS,
    REASON_DISK,
    REASON_CANCELLED,
    REASON_SIGNAL,
    REASON_EXCEPTION,
    REASON_EXIT,
    REASON_EGRESS_DENIED,
    REASON_SYSCALL_DENIED,
    REASON_RUNNER_DIED,
    REASON_INFRASTRUCTURE,
};
#define REASON_KINDS (REASON_INFRASTRUCTURE + 1)

struct facts {
    struct spawn_limits limits;
    uint64_t timeout_ms;
    uint64_t duration_ms;
    bool is_timed_out;
    bool is_cancelled;
    bool has_ended; /* cove-init told the program's end */
    int exit_code;
    int signal;             /* 0: it exited */
    bool has_exception;     /* in a session: the code raised something; so says its kernel */
    char exception[64];     /* its name */
    bool runner_has_exited; /* in a session: its kernel, with exit_code or signal */
    char runner_fault[96];  /* in a session: what its kernel did wrong; "" = nothing */
    char denied_host[96];   /* the last that its way out refused; "": none, as the port, 0 */
    uint32_t denied_port;
    char denied_rule[192]; /* in the proxy's words */
    char unreached[256];   /* "host:port: why" of the last host that did not answer; "": none */
    struct spawn_stats stats;
};

struct verdict {
    enum execution_state state;
    enum reason_kind kind;
    uint64_t limit; /* in the unit of the kind: ms, bytes, processes; 0 = none */
    uint64_t used;
    char message[256];
    char hint[256];
};

struct egress_denied;
void facts_set_denied(struct facts *facts, const struct egress_denied *denied);
void facts_set_unreached(struct facts *facts, const struct egress_denied *failed);

void verdict_reach(struct verdict *out, const struct facts *facts);

const char *execution_state_name(enum execution_state state);
const char *reason_kind_name(enum reason_kind kind); /* NULL for REASON_NONE */
extern const char *const reason_kind_names[];        /* from REASON_TIMEOUT on, up to NULL */
