/* fuzz_mcp.c - messages of a stranger, one in each line, to a conversation of both eras
 *
 * Every request is answered exactly once, and nothing is left when the client goes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"
#include "mcp/mcp_meta.h"
#include "mcp/mcp_peer.h"
#include "mcp/mcp_task.h"

static size_t ends, tasks;

static void on_send(void *ctx, const json_t *message)
{
    (void)ctx;
    BUG_ON(!json_is_object(message));
}

static void on_end(void *ctx, const json_t *message, int status)
{
    (void)ctx;
    BUG_ON(message && !json_object_get(message, "result") && !json_object_get(message, "error"));
    BUG_ON(status != 200 && status != 400 && status != 404);
    ends++;
}

static const struct mcp_outlet outlet = {.send = on_send, .end = on_end};

static void run_ask(struct mcp_call *call)
{
    if (mcp_input(call, "name"))
        mcp_answer_text(call, "thanks");
    else
        mcp_need_input(
            call, json_pack("{s:{s:s, s:{}}}", "name", "method", "elicitation/create", "params"),
            json_pack("{s:i}", "step", 1));
}

/* The same in a task, whose id can be guessed. */
static void run_task(struct mcp_call *call)
{
    char id[32];
    snprintf(id, sizeof(id), "t%zu", tasks++);
    mcp_task_begin(call, &(struct mcp_task_order){.id = id});
    run_ask(call);
}

static const struct mcp_tool ask = {
    .name = "ask",
    .description = "d",
    .schema = "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\", "
              "\"x-mcp-header\": \"A\"}}}",
    .run = run_ask};
static const struct mcp_tool task = {.name = "task", .description = "d", .run = run_task};
static const struct mcp_tool *const tools[] = {&ask, &task, NULL};
static const struct mcp_service service = {.name = "fuzz",
                                           .version = "1",
                                           .tools = tools,
                                           .features = MCP_TELLS_TOOLS | MCP_TELLS_UPDATES |
                                                       MCP_LOGS | MCP_TASKS};

static const char *header(void *ctx, const char *name)
{
    (void)name;
    return ctx; /* the whole input's first line, whatever is asked for */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 64 * KIB)
        return 0;
    scoped_free char *text = xstrndup((const char *)data, size);
    size_t requests = 0;
    struct mcp_server *server = mcp_server_new(&service);
    struct mcp_peer *peer = mcp_peer_new(&(struct mcp_peer_order){
        .server = server, .user = {.owner = ""}, .send = on_send, .is_lasting = true});
    char *first = text, *rest = text;
    ends = tasks = 0;
    for (char *line; (line = strsep(&rest, "\n"));) {
        struct rpc_message m;
        struct rpc_fault fault;
        const struct mcp_delivery delivery = {
            .outlet = &outlet, .ctx = first, .header = requests % 2 ? header : NULL};
        if (rpc_parse(&m, line, strlen(line), 64 * KIB, &fault) < 0) {
            rpc_fault_release(&fault);
            continue;
        }
        requests += m.kind == RPC_REQUEST;
        mcp_receive(peer, &m, &delivery);
        BUG_ON(ends > requests);
    }
    mcp_peer_close(peer);
    BUG_ON(ends != requests);
    mcp_server_free(server);
    return 0;
}
