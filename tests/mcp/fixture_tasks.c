/* fixture_tasks.c - the suite's tools that become tasks: slow ones, failing ones, asking ones */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "fixture.h"
#include "mcp/mcp_task.h"

#define MS_PER_S 1000

static const struct mcp_task_order any = {0};

static const char *argument(const struct mcp_call *call, const char *name)
{
    const char *text = json_string_value(json_object_get(mcp_raw_arguments(call), name));
    return text ? text : "";
}

static void answer(struct mcp_call *call, const char *before, const char *name, const char *after)
{
    scoped_free char *text = xasprintf("%s%s%s", before, name, after);
    mcp_answer_text(call, text);
}

static void run_greet(struct mcp_call *call)
{
    answer(call, "Hello, ", argument(call, "name"), "!");
}

/* --- after a while ---------------------------------------------------------------------------- */

struct nap {
    struct mcp_call *call;
    struct loop_timer *timer;
    void (*then)(struct mcp_call *call);
};

static void free_nap(struct nap *nap)
{
    loop_timer_free(nap->timer);
    free(nap);
}

static void on_time(void *ctx)
{
    struct nap *nap = ctx;
    nap->then(nap->call);
    free_nap(nap);
}

static void on_cancel(void *ctx)
{
    struct nap *nap = ctx;
    mcp_answer_text(nap->call, "");
    free_nap(nap);
}

/* Where the client knows tasks, he gets one at once. */
static void wait_for(struct mcp_call *call, uint64_t ms, void (*then)(struct mcp_call *call))
{
    const struct fixture *f = mcp_ctx(call);
    struct nap *nap = xcalloc(1, sizeof(*nap));
    nap->call = call;
    nap->then = then;
    nap->timer = loop_timer_new(f->loop, ms, on_time, nap);
    mcp_on_cancel(call, on_cancel, nap);
    mcp_task_begin(call, &any);
}

static void tell_computed(struct mcp_call *call)
{
    answer(call, "Computed ", argument(call, "label"), ".");
}

static void run_slow(struct mcp_call *call)
{
    double seconds = json_number_value(json_object_get(mcp_raw_arguments(call), "seconds"));
    if (seconds > 0)
        wait_for(call, (uint64_t)(seconds * MS_PER_S), tell_computed);
    else
        tell_computed(call);
}

static void tell_failure(struct mcp_call *call)
{
    mcp_answer_error(call, "This job always fails.");
}

static void run_failing(struct mcp_call *call)
{
    wait_for(call, MS_PER_S, tell_failure);
}

static void fail(struct mcp_call *call)
{
    mcp_fail(call, RPC_INTERNAL, NULL, "This job breaks the server.");
}

static void run_breaking(struct mcp_call *call)
{
    wait_for(call, MS_PER_S / 10, fail);
}

/* --- after a question ------------------------------------------------------------------------- */

#define FORM(words, property, type)                                                                \
    "{\"message\": \"" words "\", \"requestedSchema\": {\"type\": \"object\", \"properties\": "    \
    "{\"" property "\": {\"type\": \"" type "\"}}, \"required\": [\"" property "\"]}}"

static void run_confirm(struct mcp_call *call)
{
    mcp_task_begin(call, &any);
    if (mcp_input(call, "confirm"))
        answer(call, "Deleted ", argument(call, "filename"), ".");
    else
        mcp_need_input(
            call,
            fixture_ask("confirm", "elicitation/create", FORM("Delete it?", "confirm", "boolean")),
            NULL);
}

static void run_multi(struct mcp_call *call)
{
    mcp_task_begin(call, &any);
    if (mcp_input(call, "first")) {
        mcp_answer_text(call, "Both are answered.");
        return;
    }
    json_t *both =
        fixture_ask("first", "elicitation/create", FORM("Who is first?", "name", "string"));
    scoped_json json_t *second =
        fixture_ask("second", "elicitation/create", FORM("Who is second?", "name", "string"));
    json_object_update(both, second);
    mcp_need_input(call, both, NULL);
}

static void greet_again(struct mcp_call *call)
{
    const json_t *content = json_object_get(mcp_input(call, "user_name"), "content");
    const char *name = json_string_value(json_object_get(content, "name"));
    answer(call, "Hello again, ", name ? name : "", "!");
}

/* The question comes before there is a task. */
static void run_asking_task(struct mcp_call *call)
{
    if (mcp_input(call, "user_name"))
        wait_for(call, MS_PER_S / 10, greet_again);
    else
        mcp_need_input(call,
                       fixture_ask("user_name", "elicitation/create",
                                   FORM("What is your name?", "name", "string")),
                       NULL);
}

/* --- the table -------------------------------------------------------------------------------- */

#define SCHEMA(properties) "{\"type\": \"object\", \"properties\": {" properties "}}"
#define TEXT(name)         "\"" name "\": {\"type\": \"string\", \"description\": \"Words\"}"
#define SECONDS            "\"seconds\": {\"type\": \"number\", \"description\": \"How long\"}"

#define TOOL(id, ...)                                                                              \
    const struct mcp_tool id = {.name = #id, .description = "For the suite: " #id, __VA_ARGS__}
TOOL(greet, .run = run_greet, .schema = SCHEMA(TEXT("name")));
TOOL(slow_compute, .run = run_slow, .schema = SCHEMA(SECONDS ", " TEXT("label")));
TOOL(failing_job, .run = run_failing, .needs_task = true);
TOOL(protocol_error_job, .run = run_breaking);
TOOL(confirm_delete, .run = run_confirm, .schema = SCHEMA(TEXT("filename")));
TOOL(multi_input, .run = run_multi);
TOOL(test_tool_with_task, .run = run_asking_task, .needs_task = true);
