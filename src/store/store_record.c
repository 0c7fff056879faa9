/* store_record.c - the words for states, and the two tables of what may follow what */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_record.h"

#include <string.h>

const char *const store_session_names[STORE_SESSION_STATES + 1] = {
    [STORE_SESSION_CREATING] = "creating",
    [STORE_SESSION_READY] = "ready",
    [STORE_SESSION_BUSY] = "busy",
    [STORE_SESSION_FAILED] = "failed",
    [STORE_SESSION_TERMINATING] = "terminating",
    [STORE_SESSION_TERMINATED] = "terminated",
};

const char *const store_execution_names[STORE_EXECUTION_STATES + 1] = {
    [STORE_EXECUTION_QUEUED] = "queued",       [STORE_EXECUTION_RUNNING] = "running",
    [STORE_EXECUTION_COMPLETED] = "completed", [STORE_EXECUTION_FAILED] = "failed",
    [STORE_EXECUTION_TIMEOUT] = "timeout",     [STORE_EXECUTION_CANCELLED] = "cancelled",
    [STORE_EXECUTION_LOST] = "lost",
};

const char *const store_attempt_names[STORE_ATTEMPT_STATES + 1] = {
    [STORE_ATTEMPT_UNDER_WAY] = "under_way",
    [STORE_ATTEMPT_DONE] = "done",
};

enum ending { ALIVE, OVER, EITHER };

struct state_rule {
    unsigned next; /* bit set of states */
    enum ending ending;
};

#define CREATING    STORE_BIT(STORE_SESSION_CREATING)
#define READY       STORE_BIT(STORE_SESSION_READY)
#define BUSY        STORE_BIT(STORE_SESSION_BUSY)
#define FAILED      STORE_BIT(STORE_SESSION_FAILED)
#define TERMINATING STORE_BIT(STORE_SESSION_TERMINATING)
#define TERMINATED  STORE_BIT(STORE_SESSION_TERMINATED)

/* Busy and ready go back to creating by a reset; any live one may be found dead. */
static const struct state_rule session_rules[STORE_SESSION_STATES] = {
    [STORE_SESSION_CREATING] = {CREATING | READY | FAILED | TERMINATING | TERMINATED, ALIVE},
    [STORE_SESSION_READY] = {READY | BUSY | CREATING | FAILED | TERMINATING | TERMINATED, ALIVE},
    [STORE_SESSION_BUSY] = {BUSY | READY | CREATING | FAILED | TERMINATING | TERMINATED, ALIVE},
    [STORE_SESSION_FAILED] = {FAILED | CREATING | READY | TERMINATING | TERMINATED, EITHER},
    [STORE_SESSION_TERMINATING] = {TERMINATING | TERMINATED, ALIVE},
    [STORE_SESSION_TERMINATED] = {0, OVER},
};

#define QUEUED  STORE_BIT(STORE_EXECUTION_QUEUED)
#define RUNNING STORE_BIT(STORE_EXECUTION_RUNNING)
#define ENDED                                                                                      \
    (STORE_BIT(STORE_EXECUTION_COMPLETED) | STORE_BIT(STORE_EXECUTION_FAILED) |                    \
     STORE_BIT(STORE_EXECUTION_TIMEOUT) | STORE_BIT(STORE_EXECUTION_CANCELLED) |                   \
     STORE_BIT(STORE_EXECUTION_LOST))

/* One that lost its executor is queued again when it may be. An ending is for good. */
static const struct state_rule execution_rules[STORE_EXECUTION_STATES] = {
    [STORE_EXECUTION_QUEUED] = {QUEUED | RUNNING | ENDED, ALIVE},
    [STORE_EXECUTION_RUNNING] = {RUNNING | QUEUED | ENDED, ALIVE},
    [STORE_EXECUTION_COMPLETED] = {0, OVER},
    [STORE_EXECUTION_FAILED] = {0, OVER},
    [STORE_EXECUTION_TIMEOUT] = {0, OVER},
    [STORE_EXECUTION_CANCELLED] = {0, OVER},
    [STORE_EXECUTION_LOST] = {0, OVER},
};

static bool fits(const struct state_rule *rule, int64_t ended_ns)
{
    return rule->ending == EITHER || (rule->ending == OVER) == (ended_ns != 0);
}

bool store_session_may(enum store_session_state from, enum store_session_state to)
{
    return session_rules[from].next & STORE_BIT(to);
}

bool store_execution_may(enum store_execution_state from, enum store_execution_state to)
{
    return execution_rules[from].next & STORE_BIT(to);
}

bool store_session_fits(enum store_session_state state, int64_t ended_ns)
{
    return fits(&session_rules[state], ended_ns);
}

bool store_execution_fits(enum store_execution_state state, int64_t ended_ns)
{
    return fits(&execution_rules[state], ended_ns);
}

int store_state_find(const char *const *names, const char *word)
{
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], word) == 0)
            return i;
    }
    return -1;
}
