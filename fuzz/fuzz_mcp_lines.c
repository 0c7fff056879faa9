/* fuzz_mcp_lines.c - bytes of a stranger, cut anywhere, to a conversation in lines
 *
 * The first byte says how long the pieces are. Whatever comes, each line that is said is one
 * message, and the same bytes in one piece are answered by as many. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "fuzz.h"
#include "mcp/mcp_lines.h"

#define LINE_MAX_FUZZ 2048

static size_t said;

static void on_send(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    BUG_ON(len < 3 || text[len - 1] != '\n' || memchr(text, '\n', len - 1));
    BUG_ON(text[0] != '{' || text[len - 2] != '}');
    said++;
}

static struct mcp_call *held;

static void on_cancel(void *ctx)
{
    held = NULL;
    mcp_answer_text(ctx, "cancelled");
}

static void run_hold(struct mcp_call *call)
{
    if (held)
        return mcp_answer_text(call, "one at a time");
    held = call;
    mcp_on_cancel(call, on_cancel, call);
}

static const struct mcp_tool hold = {.name = "hold", .description = "d", .run = run_hold};
static const struct mcp_tool *const tools[] = {&hold, NULL};
static const struct mcp_service service = {
    .name = "fuzz", .version = "1", .tools = tools, .features = MCP_TELLS_TOOLS | MCP_LOGS};

static size_t converse(const char *data, size_t size, size_t piece)
{
    struct mcp_server *server = mcp_server_new(&service);
    struct mcp_lines *lines = mcp_lines_new(&(struct mcp_lines_order){
        .server = server, .user = {.owner = ""}, .send = on_send, .line_max = LINE_MAX_FUZZ});
    said = 0;
    while (size > 0) {
        size_t len = MIN(piece, size);
        mcp_lines_take(lines, data, len);
        data += len;
        size -= len;
    }
    mcp_lines_end(lines);
    mcp_lines_free(lines); /* what is held is cancelled, or the server would still have it */
    BUG_ON(held);
    mcp_server_free(server);
    return said;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 16 * KIB)
        return 0;
    const char *text = (const char *)data + 1;
    size_t whole = converse(text, size - 1, size);
    BUG_ON(converse(text, size - 1, data[0] + 1u) != whole);
    return 0;
}
