/* mcp_lines.c - bytes to lines, lines to messages, and back
 *
 * A line that is too long is dropped up to its end, so that its sender goes on with the next. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"

/* A request that is under way. */
struct line_call {
    struct line_call *next, **link; /* link: what points to it */
    struct mcp_lines *lines;        /* NULL: nobody waits for it any more */
    size_t bytes;
};

struct mcp_lines {
    struct mcp_lines_order order;
    struct mcp_peer *peer;
    struct strbuf line; /* what has come of one */
    bool is_too_long;
    struct line_call *calls;
    size_t held_bytes;
};

/* --- what is said ----------------------------------------------------------------------------- */

static void say(const struct mcp_lines *l, const json_t *message)
{
    size_t len;
    scoped_free char *text = rpc_text(message, MCP_MESSAGE_MAX_BYTES, &len);
    text[len] = '\n'; /* in place of its NUL */
    l->order.send(l->order.ctx, text, len + 1);
}

static void refuse(const struct mcp_lines *l, json_t *id, enum rpc_code code, const char *text)
{
    scoped_json json_t *message = rpc_error(id, code, text, NULL);
    say(l, message);
}

static bool is_full(const struct mcp_lines *l)
{
    return l->order.waiting && l->order.waiting(l->order.ctx) > MCP_LINES_FULL;
}

/* What nobody has asked for is left out while the client does not read; questions are not. */
static void say_beside(const struct mcp_lines *l, const json_t *message)
{
    if (json_object_get(message, "id") || !is_full(l))
        say(l, message);
}

static void on_beside(void *ctx, const json_t *message)
{
    say_beside(ctx, message);
}

/* --- requests --------------------------------------------------------------------------------- */

static void unlink_call(struct line_call *call)
{
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
}

static struct line_call *new_call(struct mcp_lines *l, size_t bytes)
{
    struct line_call *call = xcalloc(1, sizeof(*call));
    *call = (struct line_call){.lines = l, .bytes = bytes, .next = l->calls, .link = &l->calls};
    if (l->calls)
        l->calls->link = &call->next;
    l->calls = call;
    l->held_bytes += bytes;
    return call;
}

static void on_send(void *ctx, const json_t *message)
{
    const struct line_call *call = ctx;
    if (call->lines)
        say_beside(call->lines, message);
}

static void on_end(void *ctx, const json_t *message, int status)
{
    struct line_call *call = ctx;
    struct mcp_lines *l = call->lines;
    (void)status;
    if (l) {
        unlink_call(call);
        l->held_bytes -= call->bytes;
    }
    free(call);
    if (l && message)
        say(l, message);
    if (l && !l->calls && l->order.idle)
        l->order.idle(l->order.ctx);
}

static const struct mcp_outlet outlet = {.send = on_send, .end = on_end};

/* A word beside requests costs nothing, and must get through: it may be what makes room. */
static bool may_begin(const struct mcp_lines *l, const struct rpc_message *m, size_t len)
{
    struct error err;
    if (m->kind != RPC_REQUEST)
        return true;
    if (l->held_bytes + len > MCP_LINES_HELD_MAX) {
        refuse(l, m->id, RPC_INVALID_REQUEST,
               "the requests that are under way are too large together: wait for an answer");
        return false;
    }
    if (!l->order.admit || l->order.admit(l->order.ctx, &l->order.user, &err))
        return true;
    refuse(l, m->id, RPC_INTERNAL, err.msg);
    return false;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void take_line(struct mcp_lines *l, const char *text, size_t len)
{
    struct rpc_message m;
    struct rpc_fault fault;
    if (rpc_parse(&m, text, len, MCP_MESSAGE_MAX_BYTES, &fault) < 0) {
        refuse(l, fault.id, fault.code, fault.text);
        rpc_fault_release(&fault);
    } else if (!may_begin(l, &m, len)) {
        rpc_release(&m);
    } else {
        struct mcp_delivery delivery = {.outlet = &outlet};
        if (m.kind == RPC_REQUEST)
            delivery.ctx = new_call(l, len);
        mcp_receive(l->peer, &m, &delivery);
    }
}

static size_t without_blanks(const char **text, size_t len)
{
    static const char blanks[] = " \t\r";
    while (len > 0 && memchr(blanks, (*text)[len - 1], strlen(blanks)))
        len--;
    while (len > 0 && memchr(blanks, **text, strlen(blanks)))
        ++*text, len--;
    return len;
}

/* What is there is a line; from here on the next one begins. */
static void finish_line(struct mcp_lines *l)
{
    struct strbuf line = l->line;
    bool is_too_long = l->is_too_long;
    strbuf_init(&l->line, l->order.line_max);
    l->is_too_long = false;
    const char *text = line.data;
    size_t len = without_blanks(&text, line.len);
    if (is_too_long)
        refuse(l, NULL, RPC_INVALID_REQUEST, "the message is too long, and was not read");
    else if (len > 0)
        take_line(l, text, len);
    strbuf_release(&line);
}

static void add(struct mcp_lines *l, const char *data, size_t len)
{
    if (l->is_too_long)
        return;
    if (l->line.len + len > l->order.line_max) {
        l->is_too_long = true;
        strbuf_release(&l->line);
        strbuf_init(&l->line, l->order.line_max);
        return;
    }
    strbuf_add(&l->line, data, len);
}

void mcp_lines_take(struct mcp_lines *l, const char *data, size_t len)
{
    for (const char *end; (end = memchr(data, '\n', len));) {
        size_t part = (size_t)(end - data);
        add(l, data, part);
        finish_line(l);
        data += part + 1;
        len -= part + 1;
    }
    add(l, data, len);
}

void mcp_lines_end(struct mcp_lines *l)
{
    finish_line(l);
    mcp_peer_unlisten(l->peer);
}

/* --- its life --------------------------------------------------------------------------------- */

struct mcp_lines *mcp_lines_new(const struct mcp_lines_order *order)
{
    struct mcp_lines *l = xcalloc(1, sizeof(*l));
    l->order = *order;
    if (!l->order.line_max)
        l->order.line_max = MCP_MESSAGE_MAX_BYTES;
    strbuf_init(&l->line, l->order.line_max);
    l->peer = mcp_peer_new(&(struct mcp_peer_order){.server = order->server,
                                                    .user = order->user,
                                                    .send = on_beside,
                                                    .ctx = l,
                                                    .is_lasting = true});
    return l;
}

void mcp_lines_free(struct mcp_lines *l)
{
    if (!l)
        return;
    for (struct line_call *call = l->calls; call; call = call->next)
        call->lines = NULL;
    mcp_peer_close(l->peer);
    strbuf_release(&l->line);
    free(l);
}

bool mcp_lines_is_busy(const struct mcp_lines *l)
{
    return l->calls;
}
