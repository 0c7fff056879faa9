/* mcp_task.h - calls that go on after they were answered: MCP's extension for tasks
 *
 * A handler of a tool may turn its call into a task when it takes long and the client knows tasks.
 * The client is answered with the id of the task and may go; the call stays the handler's, and what
 * it is answered with is kept for whoever asks for the task. It belongs to who called: for all
 * others it does not exist.
 *
 * A task is kept for a time after its end. What a service keeps itself (mcp_task_set_kept) is told
 * by the service (mcp_service.find_task), also by one that was started later. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "mcp/mcp.h"

#define MCP_TASKS_EXTENSION  "io.modelcontextprotocol/tasks"
#define MCP_TASKS_MAX        1024               /* of all... */
#define MCP_TASKS_OWNER_MAX  128                /* ...and of one owner, that are remembered */
#define MCP_TASKS_KEPT_BYTES (32 * 1024 * 1024) /* of results that only we have */
#define MCP_TASK_TTL_MS      (60 * 60 * 1000)   /* from its beginning, and... */
#define MCP_TASK_KEPT_MS     (10 * 60 * 1000)   /* ...from its end, at least */
#define MCP_TASK_POLL_MS     1000               /* how often a client is to ask */

enum mcp_task_status {
    MCP_TASK_WORKING,
    MCP_TASK_INPUT_REQUIRED,
    MCP_TASK_COMPLETED,
    MCP_TASK_FAILED,
    MCP_TASK_CANCELLED,
};

/* --- for handlers of tools -------------------------------------------------------------------- */

/* Whether the client knows tasks, and this is a call that may become one. */
bool mcp_can_be_task(const struct mcp_call *call);

/* Borrowed for the call. */
struct mcp_task_order {
    const char *id;     /* that nobody can guess; NULL: a new one */
    int64_t created_ns; /* wall clock; 0: now */
};

/* The client is answered with a task; the handler goes on. False: it stays a call like any other,
 * which is always right: the client does not know tasks, or there are too many. */
bool mcp_task_begin(struct mcp_call *call, const struct mcp_task_order *order);

bool mcp_is_task(const struct mcp_call *call);

/* To be called when the server is freed before the call was answered; then nobody will. NULL: no
 * more. Nothing happens to a call that is no task. */
void mcp_task_on_drop(struct mcp_call *call, void (*fn)(void *ctx), void *ctx);

/* What it is answered with next is kept by the service, and need not be remembered here. */
void mcp_task_set_kept(struct mcp_call *call);

/* Answers a call that is a task: somebody else has ended what it was about. */
void mcp_task_end_cancelled(struct mcp_call *call);

/* --- for mcp_service.find_task ---------------------------------------------------------------- */

struct mcp_task_view {
    enum mcp_task_status status; /* not MCP_TASK_INPUT_REQUIRED, nor MCP_TASK_FAILED */
    int64_t created_ns;          /* wall clock */
    int64_t ended_ns;            /* 0: it has not */
};
/* True: the call is to be answered once more as the tool would have been, by mcp_answer() and the
 * like; that is told as the result. False: it is answered. */
bool mcp_task_tell(struct mcp_call *call, const struct mcp_task_view *view);
void mcp_task_unknown(struct mcp_call *call); /* answers that there is none */

/* --- for whoever has a clock ------------------------------------------------------------------ */

void mcp_tasks_sweep(struct mcp_server *server); /* forgets those whose time is over */
size_t mcp_tasks_count(const struct mcp_server *server);
