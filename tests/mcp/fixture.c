/* fixture.c - a server for the conformance suite: prints its port, serves until SIGTERM
 *
 * It has the suite's tools in place of ours; everything below them is what coved has. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <signal.h>
#include <stdio.h>

#include "base/memory.h"
#include "http/http.h"
#include "http/http_server.h"
#include "mcp/mcp_http.h"

static struct fixture me;
static struct mcp_http *mcp;
static const struct mcp_user somebody = {.owner = ""};

static void on_post(struct http_request *r, void *ctx)
{
    (void)ctx;
    mcp_http_post(mcp, r, &somebody);
}

static void on_get(struct http_request *r, void *ctx)
{
    (void)ctx;
    mcp_http_get(mcp, r, &somebody);
}

static void on_delete(struct http_request *r, void *ctx)
{
    (void)ctx;
    mcp_http_delete(mcp, r, &somebody);
}

static const struct route routes[] = {
    {.method = METHOD_POST,
     .pattern = "/mcp",
     .body_max = MCP_MESSAGE_MAX_BYTES,
     .handler = on_post},
    {.method = METHOD_GET, .pattern = "/mcp", .handler = on_get},
    {.method = METHOD_DELETE, .pattern = "/mcp", .handler = on_delete},
};

static const struct mcp_service service = {
    .name = "cove-fixture",
    .title = "Cove's core with the suite's tools",
    .version = COVE_VERSION,
    .features = MCP_TELLS_TOOLS | MCP_TELLS_PROMPTS | MCP_TELLS_RESOURCES | MCP_TELLS_UPDATES |
                MCP_LOGS | MCP_TASKS,
    .tools = fixture_tools,
    .prompts = fixture_prompts,
    .resources = fixture_resources,
    .templates = fixture_templates,
    .read_resource = fixture_read,
    .complete = fixture_complete,
    .list_ttl_ms = 60000,
    .is_public = true,
    .ctx = &me,
};

static void on_term(void *ctx, int signal)
{
    (void)ctx, (void)signal;
    loop_stop(me.loop);
}

static int open_server(struct http_server **out, struct error *err)
{
    const struct http_server_config config = {.routes = routes, .route_count = ARRAY_LEN(routes)};
    const struct http_listen where = {.address = "127.0.0.1"};
    return http_server_open(out, me.loop, &config, err) < 0 ||
                   http_server_listen(*out, &where, err) < 0
               ? -1
               : 0;
}

int main(void)
{
    struct error err;
    struct http_server *server = NULL;
    struct loop_signal *term = NULL;
    json_set_alloc_funcs(xmalloc, free);
    if (loop_open(&me.loop, &err) < 0 || open_server(&server, &err) < 0 ||
        loop_signal_new(&term, me.loop, SIGTERM, on_term, NULL, &err) < 0) {
        fprintf(stderr, "mcp_fixture: %s\n", err.msg);
        return 1;
    }
    me.server = mcp_server_new(&service);
    mcp = mcp_http_new(&(struct mcp_http_order){.server = me.server, .loop = me.loop});
    printf("%u\n", http_server_port(server));
    fflush(stdout);
    loop_run(me.loop);
    mcp_http_stop(mcp);
    http_server_free(server);
    mcp_http_free(mcp);
    mcp_server_free(me.server);
    loop_signal_free(term);
    loop_free(me.loop);
    return 0;
}
