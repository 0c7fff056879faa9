/* mcp_inside.h - what the files of the core share */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/map.h"
#include "mcp/mcp_peer.h"
#include "mcp/mcp_state.h"
#include "mcp/mcp_task.h"

#define MCP_META             "_meta"
#define MCP_KEY(name)        "io.modelcontextprotocol/" name
#define MCP_KEY_VERSION      MCP_KEY("protocolVersion")
#define MCP_KEY_CAPABILITIES MCP_KEY("clientCapabilities")
#define MCP_KEY_LEVEL        MCP_KEY("logLevel")
#define MCP_KEY_SERVER       MCP_KEY("serverInfo")
#define MCP_KEY_SUBSCRIPTION MCP_KEY("subscriptionId")

#define MCP_STATUS_OK          200
#define MCP_STATUS_BAD_REQUEST 400
#define MCP_STATUS_NOT_FOUND   404

struct mcp_watch;

struct mcp_server {
    const struct mcp_service *service;
    struct mcp_state_key key;
    json_t *tools; /* the list, which is always the same */
    struct mcp_watch *watches;
    unsigned offers; /* enum mcp_needs */
    struct map tasks;
    size_t task_bytes; /* of what came of them, as far as only we have it */
};

struct mcp_peer {
    struct mcp_server *server;
    struct mcp_user user;
    char *owner;
    void (*send)(void *ctx, const json_t *message);
    void *ctx;
    bool is_lasting, is_closed;
    unsigned holders;
    const struct mcp_version *version; /* of initialize; NULL: it has not come */
    json_t *capabilities;              /* the client's, of initialize */
    enum mcp_level level;
    struct map calls, asks;
    uint64_t ask_count;
    struct mcp_watch *watch; /* of what belongs to no request; NULL: none */
};

/* --- methods ---------------------------------------------------------------------------------- */

enum mcp_needs { /* what a service must offer for a method to be there */
                 MCP_NEEDS_TOOLS = 1 << 0,
                 MCP_NEEDS_PROMPTS = 1 << 1,
                 MCP_NEEDS_RESOURCES = 1 << 2,
                 MCP_NEEDS_COMPLETIONS = 1 << 3,
                 MCP_NEEDS_LOGS = 1 << 4,
                 MCP_NEEDS_UPDATES = 1 << 5,
                 MCP_NEEDS_CHANGES = 1 << 6, /* anything that is told */
                 MCP_NEEDS_TASKS = 1 << 7,
};
unsigned mcp_offers(const struct mcp_service *service);

enum mcp_caching { MCP_UNCACHED, MCP_CACHED_LIST, MCP_CACHED_RESOURCE };

struct mcp_method {
    const char *name;
    unsigned eras;
    unsigned needs;
    enum mcp_caching caching;
    const char *named_by; /* the parameter that Mcp-Name repeats; NULL: none */
    void (*handle)(struct mcp_call *call);
};

const struct mcp_method *mcp_method_find(const struct mcp_server *server, const char *name,
                                         enum mcp_era era); /* NULL: there is none */

/* Handlers of several files. */
void mcp_handle_initialize(struct mcp_call *call);
void mcp_handle_discover(struct mcp_call *call);
void mcp_handle_tools_list(struct mcp_call *call);
void mcp_handle_tools_call(struct mcp_call *call);
void mcp_handle_prompts_list(struct mcp_call *call);
void mcp_handle_prompts_get(struct mcp_call *call);
void mcp_handle_resources_list(struct mcp_call *call);
void mcp_handle_templates_list(struct mcp_call *call);
void mcp_handle_resources_read(struct mcp_call *call);
void mcp_handle_subscribe(struct mcp_call *call);
void mcp_handle_unsubscribe(struct mcp_call *call);
void mcp_handle_listen(struct mcp_call *call);
void mcp_handle_task_get(struct mcp_call *call);
void mcp_handle_task_update(struct mcp_call *call);
void mcp_handle_task_cancel(struct mcp_call *call);

json_t *mcp_make_tools(const struct mcp_service *service); /* new: the list */
const struct mcp_tool *mcp_find_tool(const struct mcp_service *service, const char *name);

/* --- a call ----------------------------------------------------------------------------------- */

struct mcp_call {
    struct map_node by_id;
    char *key; /* of its id */
    struct mcp_peer *peer;
    const struct mcp_method *method;
    const struct mcp_version *version;
    struct mcp_task *task; /* that it has become; NULL: none */
    json_t *telling;       /* a task, as whose result the answer is told; NULL: none */
    const struct mcp_outlet *outlet;
    void *outlet_ctx;
    struct mcp_call **slot;
    json_t *id, *params, *empty;
    json_t *capabilities; /* the client's */
    int level;            /* from which on it wants to hear; -1: nothing */
    const json_t *token;  /* of its progress; NULL: not wanted */
    double progress;
    bool has_progress, is_cancelled;
    const struct mcp_tool *tool;
    void *arguments; /* of the tool's table */
    json_t *inputs;  /* answers of the client by key; NULL: none yet */
    json_t *state;
    size_t open_asks;
    void (*on_cancel)(void *ctx);
    void *cancel_ctx, *data;
};

/* Ends it with this message (taken; NULL: nothing is said). */
void mcp_call_end(struct mcp_call *call, json_t *message, int status);
void mcp_call_send(struct mcp_call *call, json_t *message); /* taken */
/* Adds what the modern era has in every result. */
void mcp_call_complete(const struct mcp_call *call, json_t *result);
void mcp_call_fail(struct mcp_call *call, int code, int status, const char *text, json_t *data);

/* --- input.c: what the client was asked
 * ---------------------------------------------------------*/

/* Reads inputResponses and requestState of a request; false: it has answered. */
bool mcp_input_read(struct mcp_call *call);
/* A response of the client. */
void mcp_input_take(struct mcp_peer *peer, const struct rpc_message *message);
void mcp_input_drop(struct mcp_call *call); /* it ends: answers that come later are for nobody */

/* --- task.c ----------------------------------------------------------------------------------- */

struct mcp_task {
    struct map_node by_id;
    struct mcp_server *server;
    char *id, *owner;
    enum mcp_task_status status;
    struct mcp_call *call;          /* NULL: it has ended */
    struct mcp_peer *peer;          /* the call's */
    json_t *open;                   /* questions by key; NULL: none */
    json_t *outcome;                /* the result, or the error; NULL: none, or not with us */
    size_t outcome_bytes;           /* that count */
    char *message;                  /* for people; NULL: none */
    int64_t created_ns, updated_ns; /* wall clock */
    int64_t began_ns, stopped_ns;   /* monotonic */
    bool is_kept;                   /* by the service: the outcome */
    void (*on_drop)(void *ctx);
    void *drop_ctx;
};

/* NULL: none of this owner's. */
struct mcp_task *mcp_task_find(struct mcp_server *server, const char *owner, const char *id);
void mcp_tasks_free(struct mcp_server *server);

/* What a client sees of one; new. */
struct mcp_task_face {
    const char *id, *message;
    enum mcp_task_status status;
    int64_t created_ns, updated_ns, ttl_ms;
};
json_t *mcp_task_json(const struct mcp_task_face *face);
json_t *mcp_task_detail(const struct mcp_task *task);                          /* all of it; new */
int64_t mcp_task_ttl_ms(int64_t created_ns, int64_t ended_ns, int64_t now_ns); /* on one clock */

void mcp_task_say(struct mcp_task *task, const char *text); /* how far it is */
/* What mcp_need_input() does in a task. A key is never used twice. */
void mcp_task_ask(struct mcp_call *call, json_t *requests, json_t *state);
/* True: there are all answers now, and the handler is to run again. */
bool mcp_task_take(struct mcp_task *task, json_t *answers);
void mcp_task_cancel(struct mcp_task *task); /* one that has ended is fine */

void mcp_fail_extension(struct mcp_call *call, const char *name);

/* --- watch.c ---------------------------------------------------------------------------------- */

void mcp_watch_free(struct mcp_watch *watch);
void mcp_watch_tell_task(const struct mcp_task *task); /* it has become another */

int mcp_level_find(const char *name); /* -1: there is none */
