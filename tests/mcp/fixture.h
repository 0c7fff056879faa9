/* fixture.h - what the official conformance suite wants to find at a server, on our core */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "event/loop.h"
#include "mcp/mcp.h"

struct fixture {
    struct loop *loop;
    struct mcp_server *server;
};

extern const struct mcp_tool *const fixture_tools[];
extern const struct mcp_tool greet, slow_compute, failing_job, protocol_error_job, confirm_delete,
    multi_input, test_tool_with_task; /* of fixture_tasks.c */
extern const struct mcp_prompt *const fixture_prompts[];
extern const struct mcp_resource *const fixture_resources[];
extern const struct mcp_resource *const fixture_templates[];

void fixture_read(struct mcp_call *call, const char *uri);
void fixture_complete(struct mcp_call *call);

#define FIXTURE_PNG                                                                                \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==" /* one red dot */

/* A question to the client, as mcp_need_input() takes it; new. */
json_t *fixture_ask(const char *key, const char *method, const char *params);
