/* mcp_service.h - what a server of MCP offers: tables of tools, prompts and resources
 *
 * Plain data, borrowed as long as the server lives. Lists end with NULL and are told in their
 * order, the same to everybody. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "codec/params.h"

struct mcp_call;

enum mcp_hints {
    MCP_READ_ONLY = 1 << 0,
    MCP_DESTRUCTIVE = 1 << 1,
    MCP_IDEMPOTENT = 1 << 2,
    MCP_OPEN_WORLD = 1 << 3,
};

struct mcp_tool {
    const char *name, *title;
    const char *description; /* with an example: it is all that a model knows */
    const char *example;     /* of arguments, as JSON: told with every complaint about them */
    unsigned hints;
    const struct param_table *params; /* read before `run`, see mcp_arguments(); NULL: `schema` */
    const char *schema; /* JSON Schema as text; the tool reads its arguments itself. NULL: none */
    const char *output; /* JSON Schema of structuredContent; NULL: it has none */
    unsigned scope;     /* for mcp_service.may */
    bool needs_task;    /* not for modern clients that do not know tasks */
    void (*run)(struct mcp_call *call);
};

struct mcp_prompt_argument {
    const char *name; /* NULL ends a list */
    const char *description;
    bool is_required;
};

struct mcp_prompt {
    const char *name, *title, *description;
    const struct mcp_prompt_argument *arguments; /* NULL: none */
    void (*get)(struct mcp_call *call);
};

struct mcp_resource {
    const char *uri; /* of a template: with {names} */
    const char *name, *title, *description, *mime;
};

enum mcp_features {
    MCP_TELLS_TOOLS = 1 << 0, /* its list may change, and mcp_tell_changed() says so */
    MCP_TELLS_PROMPTS = 1 << 1,
    MCP_TELLS_RESOURCES = 1 << 2,
    MCP_TELLS_UPDATES = 1 << 3, /* of single resources: mcp_tell_updated() */
    MCP_LOGS = 1 << 4,
    MCP_TASKS = 1 << 5, /* its tools may make tasks, see mcp_task.h */
};

struct mcp_service {
    const char *name, *title, *version, *description;
    unsigned features; /* enum mcp_features */
    const struct mcp_tool *const *tools;
    const struct mcp_prompt *const *prompts; /* NULL: none at all, as of those below */
    const struct mcp_resource *const *resources;
    const struct mcp_resource *const *templates;
    /* Instead of the table: answers with {"resources": [...]} and maybe nextCursor. */
    void (*list_resources)(struct mcp_call *call);
    /* Answers with mcp_answer_contents() or mcp_not_found(). */
    void (*read_resource)(struct mcp_call *call, const char *uri);
    /* Answers with {"completion": {"values": [...]}}; NULL: there are no completions. */
    void (*complete)(struct mcp_call *call);
    /* A task that is not remembered, or whose result the service keeps: see
     * mcp_task_tell() and mcp_task_unknown(). `is_cancelled`: it is to be ended. NULL: there is no
     * such task. */
    void (*find_task)(struct mcp_call *call, const char *id, bool is_cancelled);
    /* Whether who asks may use the tool; false with *err. NULL: everybody may. */
    bool (*may)(const struct mcp_call *call, const struct mcp_tool *tool, struct error *err);
    /* New text for models that use it; NULL: none. */
    char *(*instructions)(void *ctx);
    uint32_t list_ttl_ms; /* how long its lists hold, for clients of the modern era */
    bool is_public;       /* resources are the same for everybody */
    void *ctx;
};
