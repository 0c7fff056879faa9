/* run_task.h - a run that takes long becomes a task, where the client knows tasks
 *
 * Its id is that of the execution, so what came of it is told from there: to a client that comes
 * back later, and by a later coved as well. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/mcp/toolbox.h"

/* A client that polls each second learns of the end half a second late on average: little compared
 * with what it has waited by then, and what is quicker stays a plain answer. */
#define RUN_TASK_AFTER_MS 2000

struct run_task;

/* Borrowed until it is freed. */
struct run_task_order {
    struct mcp_call *call;
    char *id;                   /* of the execution, ID_BYTES; "": filled in when it is needed */
    void (*begun)(void *ctx);   /* it is a task now */
    void (*dropped)(void *ctx); /* ...and nobody will answer it: the server ends */
    void *ctx;
};

/* NULL: the client does not know tasks. */
struct run_task *run_task_new(const struct run_task_order *order);
/* Before the call is answered. NULL is fine. */
void run_task_free(struct run_task *task);

/* Answers the call of a run that has ended, be it a task or not; after run_task_free(). */
void run_task_answer(struct mcp_call *call, json_t *document);

/* For mcp_service. */
void run_task_find(struct mcp_call *call, const char *id, bool is_cancelled);
