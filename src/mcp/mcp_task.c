/* mcp_task.c - a call leaves its client and becomes a row; what comes of it is kept
 *
 * The call gets a peer and an outlet of its own, so whatever happens to the connection it came by
 * is nothing to it. Rows are few: when there is no room for one, the call stays a call. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_task.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/memory.h"
#include "mcp/mcp_inside.h"

#define NS_PER_MS  1000000ll
#define ID_PREFIX  "task_"
#define ID_LETTERS 26 /* 130 bits */

/* --- rows ------------------------------------------------------------------------------------- */

static void free_task(struct mcp_task *t)
{
    map_remove(&t->server->tasks, &t->by_id);
    t->server->task_bytes -= t->outcome_bytes;
    json_decref(t->open);
    json_decref(t->outcome);
    free(t->message);
    free(t->owner);
    free(t->id);
    free(t);
}

/* As long as it works, and for a time after: a client that was told so comes back in time. */
int64_t mcp_task_ttl_ms(int64_t created_ns, int64_t ended_ns, int64_t now_ns)
{
    int64_t lived_ms = ((ended_ns ? ended_ns : now_ns) - created_ns) / NS_PER_MS;
    return MAX(MCP_TASK_TTL_MS, lived_ms + MCP_TASK_KEPT_MS);
}

static bool is_expired(const struct mcp_task *t, int64_t now_ns)
{
    return !t->call &&
           now_ns - t->began_ns > mcp_task_ttl_ms(t->began_ns, t->stopped_ns, now_ns) * NS_PER_MS;
}

void mcp_tasks_sweep(struct mcp_server *server)
{
    int64_t now_ns = clock_now_ns();
    MAP_EACH(&server->tasks, node)
    {
        struct mcp_task *t = MAP_OF(node, struct mcp_task, by_id);
        if (is_expired(t, now_ns))
            free_task(t);
    }
}

size_t mcp_tasks_count(const struct mcp_server *server)
{
    return server->tasks.count;
}

/* Who asked for them is gone with the server; what they do is their service's. */
void mcp_tasks_free(struct mcp_server *server)
{
    MAP_EACH(&server->tasks, node)
    {
        struct mcp_task *t = MAP_OF(node, struct mcp_task, by_id);
        if (t->on_drop && t->call)
            t->on_drop(t->drop_ctx);
        if (t->call)
            mcp_call_end(t->call, NULL, MCP_STATUS_OK);
        free_task(t);
    }
    map_release(&server->tasks);
}

struct mcp_task *mcp_task_find(struct mcp_server *server, const char *owner, const char *id)
{
    mcp_tasks_sweep(server);
    struct map_node *node = map_find(&server->tasks, id);
    struct mcp_task *t = node ? MAP_OF(node, struct mcp_task, by_id) : NULL;
    return t && strcmp(t->owner, owner) == 0 ? t : NULL;
}

/* The service tells of these as well, so nothing is lost with the oldest of them. */
static struct mcp_task *find_spare(const struct mcp_server *server, const char *owner)
{
    struct mcp_task *spare = NULL;
    MAP_EACH(&server->tasks, node)
    {
        struct mcp_task *t = MAP_OF(node, struct mcp_task, by_id);
        if (!t->call && t->is_kept && (!owner || strcmp(t->owner, owner) == 0) &&
            (!spare || t->began_ns < spare->began_ns))
            spare = t;
    }
    return spare;
}

static size_t count_of(const struct mcp_server *server, const char *owner)
{
    size_t count = 0;
    MAP_EACH(&server->tasks, node)
    {
        count += strcmp(MAP_OF(node, struct mcp_task, by_id)->owner, owner) == 0;
    }
    return count;
}

static bool make_room(struct mcp_server *server, const char *owner)
{
    mcp_tasks_sweep(server);
    bool has_many = count_of(server, owner) >= MCP_TASKS_OWNER_MAX;
    if (server->task_bytes >= MCP_TASKS_KEPT_BYTES)
        return false;
    if (!has_many && server->tasks.count < MCP_TASKS_MAX)
        return true;
    struct mcp_task *spare = find_spare(server, has_many ? owner : NULL);
    if (spare)
        free_task(spare);
    return spare;
}

/* --- as clients see it ------------------------------------------------------------------------ */

static const char *const status_names[] = {[MCP_TASK_WORKING] = "working",
                                           [MCP_TASK_INPUT_REQUIRED] = "input_required",
                                           [MCP_TASK_COMPLETED] = "completed",
                                           [MCP_TASK_FAILED] = "failed",
                                           [MCP_TASK_CANCELLED] = "cancelled"};

json_t *mcp_task_json(const struct mcp_task_face *face)
{
    char created[CLOCK_TEXT_BYTES], updated[CLOCK_TEXT_BYTES];
    clock_format(face->created_ns, created);
    clock_format(face->updated_ns, updated);
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:i}", "taskId", face->id, "status",
                  status_names[face->status], "createdAt", created, "lastUpdatedAt", updated,
                  "ttlMs", (json_int_t)face->ttl_ms, "pollIntervalMs", MCP_TASK_POLL_MS);
    if (face->message)
        json_object_set_new(o, "statusMessage", json_text(face->message, strlen(face->message)));
    return o;
}

static json_t *head_of(const struct mcp_task *t)
{
    return mcp_task_json(&(struct mcp_task_face){
        .id = t->id,
        .status = t->status,
        .message = t->message,
        .created_ns = t->created_ns,
        .updated_ns = t->updated_ns,
        .ttl_ms = mcp_task_ttl_ms(t->began_ns, t->stopped_ns, clock_now_ns()),
    });
}

json_t *mcp_task_detail(const struct mcp_task *t)
{
    static const char *const members[] = {
        [MCP_TASK_COMPLETED] = "result", [MCP_TASK_FAILED] = "error", [MCP_TASK_CANCELLED] = NULL};
    json_t *o = head_of(t);
    if (t->status == MCP_TASK_INPUT_REQUIRED)
        json_object_set(o, "inputRequests", t->open);
    else if (t->outcome)
        json_object_set(o, members[t->status], t->outcome);
    return o;
}

static void set_message(struct mcp_task *t, const char *text)
{
    free(t->message);
    t->message = text ? xstrdup(text) : NULL;
}

static void change(struct mcp_task *t, enum mcp_task_status status)
{
    t->status = status;
    t->updated_ns = MAX(clock_wall_ns(), t->updated_ns);
    mcp_watch_tell_task(t);
}

void mcp_task_say(struct mcp_task *t, const char *text)
{
    set_message(t, text);
    change(t, t->status);
}

/* --- its end ---------------------------------------------------------------------------------- */

static void ignore(void *ctx, const json_t *message)
{
    (void)ctx, (void)message; /* progress and logs are not for tasks */
}

static json_t *no_room(void)
{
    return json_pack("{s:i, s:s}", "code", RPC_INTERNAL, "message",
                     "there is no room to keep what came of it: ask for less, or later");
}

/* What only we have takes memory, of which there is so much. */
static void bound(struct mcp_task *t)
{
    size_t bytes = t->outcome ? json_dumpb(t->outcome, NULL, 0, JSON_COMPACT) : 0;
    if (t->server->task_bytes + bytes > MCP_TASKS_KEPT_BYTES) {
        json_decref(t->outcome);
        t->outcome = no_room();
        t->status = MCP_TASK_FAILED;
        return;
    }
    t->outcome_bytes = bytes;
    t->server->task_bytes += bytes;
}

static void on_end(void *ctx, const json_t *message, int status)
{
    struct mcp_task *t = ctx;
    json_t *result = json_object_get(message, "result"), *error = json_object_get(message, "error");
    (void)status;
    t->call = NULL;
    t->stopped_ns = clock_now_ns();
    t->status = result ? MCP_TASK_COMPLETED : error ? MCP_TASK_FAILED : MCP_TASK_CANCELLED;
    t->outcome = json_incref(result ? result : error);
    json_decref(take_ptr(&t->open));
    t->is_kept = t->is_kept && t->status == MCP_TASK_COMPLETED;
    if (!t->is_kept)
        bound(t);
    set_message(t, json_string_value(json_object_get(error, "message")));
    change(t, t->status);
    if (t->is_kept)
        json_decref(take_ptr(&t->outcome));
    mcp_peer_close(take_ptr(&t->peer));
}

static const struct mcp_outlet task_outlet = {.send = ignore, .end = on_end};

bool mcp_is_task(const struct mcp_call *call)
{
    return call->task;
}

void mcp_task_on_drop(struct mcp_call *call, void (*fn)(void *ctx), void *ctx)
{
    if (!call->task)
        return;
    call->task->on_drop = fn;
    call->task->drop_ctx = ctx;
}

void mcp_task_set_kept(struct mcp_call *call)
{
    if (call->task)
        call->task->is_kept = true;
}

void mcp_task_end_cancelled(struct mcp_call *call)
{
    BUG_ON(!call->task);
    mcp_call_end(call, NULL, MCP_STATUS_OK);
}

/* --- its beginning ---------------------------------------------------------------------------- */

bool mcp_has_extension(const struct mcp_call *call, const char *name)
{
    const json_t *all = json_object_get(call->capabilities, "extensions");
    return call->version->era == MCP_MODERN && json_is_object(json_object_get(all, name));
}

bool mcp_can_be_task(const struct mcp_call *call)
{
    return !call->task && !call->is_cancelled && call->tool &&
           call->peer->server->offers & MCP_NEEDS_TASKS &&
           mcp_has_extension(call, MCP_TASKS_EXTENSION);
}

static char *draw_id(void)
{
    struct error err;
    char letters[ID_LETTERS + 1];
    BUG_ON(id_random(letters, ID_LETTERS, &err) < 0);
    return xasprintf(ID_PREFIX "%s", letters);
}

static struct mcp_task *new_task(const struct mcp_call *call, const struct mcp_task_order *order)
{
    struct mcp_server *server = call->peer->server;
    struct mcp_task *t = xcalloc(1, sizeof(*t));
    t->server = server;
    t->id = order->id ? xstrdup(order->id) : draw_id();
    t->owner = xstrdup(call->peer->owner);
    t->updated_ns = clock_wall_ns();
    t->created_ns = order->created_ns ? order->created_ns : t->updated_ns;
    t->began_ns = clock_now_ns();
    t->peer = mcp_peer_new(&(struct mcp_peer_order){.server = server, .user = *mcp_user(call)});
    BUG_ON(map_find(&server->tasks, t->id));
    map_add(&server->tasks, &t->by_id, t->id);
    return t;
}

/* From now on it is the task's; its old peer still counts it. */
static void move_call(struct mcp_call *call, struct mcp_task *t)
{
    map_remove(&call->peer->calls, &call->by_id);
    if (call->slot)
        *call->slot = NULL;
    call->slot = NULL;
    call->peer = t->peer;
    call->peer->holders++;
    map_add(&call->peer->calls, &call->by_id, call->key);
    call->outlet = &task_outlet;
    call->outlet_ctx = t;
    call->token = NULL;
    call->level = -1;
    call->task = t;
    t->call = call;
}

bool mcp_task_begin(struct mcp_call *call, const struct mcp_task_order *order)
{
    struct mcp_peer *old = call->peer;
    const struct mcp_outlet *outlet = call->outlet;
    void *ctx = call->outlet_ctx;
    if (!mcp_can_be_task(call) || !make_room(old->server, old->owner))
        return false;
    struct mcp_task *t = new_task(call, order);
    json_t *result = head_of(t);
    json_object_set_new(result, "resultType", json_string("task"));
    mcp_call_complete(call, result);
    scoped_json json_t *message = rpc_result(call->id, result);
    move_call(call, t);
    outlet->end(ctx, message, MCP_STATUS_OK); /* which may close the old peer */
    old->holders--;
    if (old->is_closed)
        mcp_peer_close(old);
    return true;
}

/* --- questions -------------------------------------------------------------------------------- */

void mcp_task_ask(struct mcp_call *call, json_t *requests, json_t *state)
{
    struct mcp_task *t = call->task;
    json_decref(call->state);
    call->state = json_incref(state);
    json_decref(t->open);
    t->open = json_incref(requests);
    call->open_asks = json_object_size(requests);
    change(t, MCP_TASK_INPUT_REQUIRED);
}

/* Answers to what is not asked, or not any more, are passed over. */
bool mcp_task_take(struct mcp_task *t, json_t *answers)
{
    const char *key;
    json_t *value;
    if (t->status != MCP_TASK_INPUT_REQUIRED)
        return false;
    if (!t->call->inputs)
        t->call->inputs = json_object();
    json_object_foreach(answers, key, value)
    {
        if (json_object_del(t->open, key) == 0)
            json_object_set(t->call->inputs, key, value);
    }
    t->call->open_asks = json_object_size(t->open);
    if (t->call->open_asks > 0)
        return false;
    json_decref(take_ptr(&t->open));
    change(t, MCP_TASK_WORKING);
    return true;
}

void mcp_task_cancel(struct mcp_task *t)
{
    if (!t->call || t->call->is_cancelled)
        return;
    mcp_task_say(t, "it is being cancelled");
    mcp_call_cancel(t->call);
}
