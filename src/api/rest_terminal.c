/* rest_terminal.c - /sessions/{id}/terminal: a WebSocket whose binary messages are the bytes of a
 * terminal, and whose text messages are orders and news in JSON
 *
 *   to it:    {"type": "resize", "columns": 80, "rows": 24}
 *   from it:  {"type": "exit", "exit_code": 0, "signal": null, "error": null}, and the close
 *
 * Each side waits for the other: while the peer takes nothing the terminal is not read, and while
 * the programs in it read nothing the peer is not. The shell runs before the request is answered,
 * so that a refusal is told like any other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/auth.h"
#include "api/routes.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "core/terminal.h"
#include "http/websocket.h"

#define PROTOCOL    "cove.terminal"
#define MESSAGE_MAX (256 * KIB)
#define ORDER_MAX   4096
#define NEWS_MAX    4096
#define PING_MS     30000
#define IDLE_MS     (30 * 60 * 1000)

struct open_wish {
    int64_t columns, rows;
    char *kind;
};

struct order_wish {
    int type;
    int64_t columns, rows;
};

static const char *const order_types[] = {"resize", NULL};

/* clang-format off */
#define AT(field) offsetof(struct open_wish, field)
static const struct param open_rows[] = {
    {.name = "columns", .type = PARAM_INTEGER, .offset = AT(columns), .min = 1, .max = TERMINAL_SIDE_MAX, .preset = "80",
     .help = "Its width at first."},
    {.name = "rows", .type = PARAM_INTEGER, .offset = AT(rows), .min = 1, .max = TERMINAL_SIDE_MAX, .preset = "24",
     .help = "Its height at first."},
    {.name = "term", .type = PARAM_STRING, .offset = AT(kind), .max_len = TERMINAL_NAME_MAX, .check = terminal_kind_is_valid,
     .pattern = "^[A-Za-z0-9._+-]+$", .preset = "\"xterm-256color\"", .help = "Its kind, as the variable TERM has it."},
};
#undef AT
static const struct param_table open_table = PARAM_TABLE(struct open_wish, "OpenTerminal", open_rows);

#define AT(field) offsetof(struct order_wish, field)
static const struct param order_rows[] = {
    {.name = "type", .type = PARAM_CHOICE, .offset = AT(type), .choices = order_types, .is_required = true,
     .help = "What to do."},
    {.name = "columns", .type = PARAM_INTEGER, .offset = AT(columns), .min = 1, .max = TERMINAL_SIDE_MAX, .is_required = true,
     .help = "The new width."},
    {.name = "rows", .type = PARAM_INTEGER, .offset = AT(rows), .min = 1, .max = TERMINAL_SIDE_MAX, .is_required = true,
     .help = "The new height."},
};
#undef AT
static const struct param_table order_table = PARAM_TABLE(struct order_wish, "TerminalOrder", order_rows);
/* clang-format on */

/* A peer and its terminal. */
struct link {
    struct api_call *call;     /* until the shell runs */
    struct websocket *ws;      /* from then on */
    struct terminal *terminal; /* NULL: it has ended */
    struct auth_watch *watch;  /* of who is at it, from then on */
    struct loop *loop;
};

static void free_link(struct link *l)
{
    auth_watch_free(l->watch);
    free(l);
}

/* --- from the peer ---------------------------------------------------------------------------- */

static int obey(struct link *l, const void *data, size_t len, struct error *err)
{
    struct order_wish order;
    const struct json_limits limits = {.max_bytes = ORDER_MAX};
    scoped_json json_t *value = NULL;
    if (json_parse(&value, data, len, &limits, err) < 0 ||
        params_read(&order, &order_table, value, err) < 0)
        return -1;
    terminal_resize(l->terminal, (unsigned)order.columns, (unsigned)order.rows);
    params_release(&order, &order_table);
    return 0;
}

static void on_message(void *ctx, bool is_text, const void *data, size_t len)
{
    struct link *l = ctx;
    struct error err;
    if (!l->terminal)
        return;
    if (!is_text && !terminal_write(l->terminal, data, len))
        websocket_pause(l->ws);
    else if (is_text && obey(l, data, len, &err) < 0)
        websocket_close(l->ws, WEBSOCKET_POLICY, "a text message that is no order");
}

static void on_drain(void *ctx)
{
    struct link *l = ctx;
    if (l->terminal)
        terminal_resume(l->terminal);
}

static void on_close(void *ctx, unsigned code)
{
    (void)code;
    struct link *l = ctx;
    if (l->terminal)
        terminal_close(l->terminal);
    free_link(l);
}

/* Nothing that its peer still types is to reach the shell. */
static void on_revoked(void *ctx)
{
    struct link *l = ctx;
    if (l->terminal)
        terminal_close(take_ptr(&l->terminal));
    websocket_close(l->ws, WEBSOCKET_POLICY, "the key has been revoked, or has expired");
}

static void on_gone(void *ctx)
{
    struct link *l = ctx;
    terminal_close(l->terminal);
    api_take(l->call);
    free(l);
}

/* --- from the terminal ------------------------------------------------------------------------ */

static void on_started(void *ctx)
{
    struct link *l = ctx;
    const struct websocket_config config = {
        .message_max = MESSAGE_MAX,
        .ping_ms = PING_MS,
        .protocol = PROTOCOL,
        .on_message = on_message,
        .on_drain = on_drain,
        .on_close = on_close,
        .ctx = l,
    };
    l->watch = auth_watch_new(api_of(l->call)->auth, api_caller(l->call)->owner, on_revoked, l);
    struct http_request *r = api_take(take_ptr(&l->call)); /* who has left is told by on_gone() */
    l->ws = websocket_accept(r, l->loop, &config);
    if (!l->ws) {
        terminal_close(l->terminal);
        free_link(l);
    }
}

static void on_output(void *ctx, const void *data, size_t len)
{
    struct link *l = ctx;
    if (!websocket_send(l->ws, false, data, len))
        terminal_pause(l->terminal);
}

static void on_drained(void *ctx)
{
    struct link *l = ctx;
    websocket_resume(l->ws);
}

static json_t *error_json(const struct error *err)
{
    return json_pack("{s:s, s:s, s:s*}", "code",
                     err->word ? err->word : error_info(err->code)->name, "message",
                     err->code == ERROR_INTERNAL ? "internal error" : err->msg, "hint",
                     err->hint[0] ? err->hint : NULL);
}

static void tell_end(struct link *l, const struct terminal_end *end)
{
    scoped_strbuf struct strbuf text;
    bool has_exited = end->error.msg[0] == '\0';
    scoped_json json_t *news =
        json_pack("{s:s, s:o, s:o, s:o}", "type", "exit", "exit_code",
                  has_exited && !end->signal ? json_integer(end->exit_code) : json_null(), "signal",
                  has_exited && end->signal ? json_integer(end->signal) : json_null(), "error",
                  has_exited ? json_null() : error_json(&end->error));
    strbuf_init(&text, NEWS_MAX);
    json_add(&text, news, JSON_STYLE_COMPACT);
    websocket_send(l->ws, true, text.data, text.len);
    websocket_close(l->ws, WEBSOCKET_NORMAL, has_exited ? "the shell has ended" : "it was ended");
}

static void on_ended(void *ctx, const struct terminal_end *end)
{
    struct link *l = ctx;
    l->terminal = NULL;
    if (l->ws) {
        tell_end(l, end);
        return;
    }
    api_on_gone(l->call, NULL, NULL);
    api_fail(l->call, &end->error);
    free(l);
}

static const struct terminal_events events = {
    .started = on_started,
    .output = on_output,
    .drained = on_drained,
    .ended = on_ended,
};

/* --- the route -------------------------------------------------------------------------------- */

static void on_terminal(struct api_call *call)
{
    const struct open_wish *wish = api_query(call);
    struct error err;
    struct link *l = xcalloc(1, sizeof(*l));
    *l = (struct link){.call = call, .loop = api_of(call)->loop};
    const struct terminal_order order = {.kind = wish->kind,
                                         .columns = (unsigned)wish->columns,
                                         .rows = (unsigned)wish->rows,
                                         .idle_ms = IDLE_MS,
                                         .events = &events,
                                         .ctx = l};
    if (!http_head(api_request(call))->is_upgrade) { /* nothing is begun for such a peer */
        http_refuse(api_take(call), REFUSAL_UPGRADE_REQUIRED);
        free(l);
    } else if (plane_open_terminal(&l->terminal, api_of(call)->plane, api_caller(call),
                                   api_parameter(call, "id"), &order, &err) < 0) {
        api_fail(call, &err);
        free(l);
    } else {
        api_on_gone(call, on_gone, l);
    }
}

static const struct api_reply switch_reply[] = {
    {101, NULL, NULL, "A WebSocket, by RFC 6455, with the protocol `cove.terminal`."}, {0}};
static const int terminal_errors[] = {404, 409, 426, 0};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_GET, .pattern = "/sessions/{id}/terminal", .scope = SCOPE_SESSIONS_WRITE, .query = &open_table,
     .handler = on_terminal, .id = "openTerminal", .tag = "sessions", .summary = "Open a terminal in it",
     .help = "A shell on a pseudo-terminal, as a WebSocket. Binary messages are bytes, both ways; "
             "`{\"type\": \"resize\", \"columns\": 100, \"rows\": 30}` changes its size, and "
             "`{\"type\": \"exit\", \"exit_code\": 0, ...}` tells its end. A browser, which can set no "
             "Authorization, offers the protocols `cove.terminal` and `bearer.TOKEN`. At most four at a time.",
     .replies = switch_reply, .errors = terminal_errors},
};
/* clang-format on */
const struct api_group rest_terminal_group = {rows, ARRAY_LEN(rows)};
