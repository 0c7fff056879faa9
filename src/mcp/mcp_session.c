/* mcp_session.c - the sessions of the legacy era: few, somebody's own, and not for ever */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/memory.h"
#include "mcp/mcp_http_inside.h"
#include "mcp/mcp_task.h"

#define SWEEP_MS  30000
#define NS_PER_MS 1000000ll

static bool is_in_use(const struct mcp_session *s)
{
    return s->standing || mcp_peer_is_busy(s->peer);
}

/* The one that nobody has used for longest, of one owner or (NULL) of all; NULL: all are in use. */
static struct mcp_session *find_oldest(const struct mcp_http *http, const char *owner,
                                       size_t *count)
{
    struct mcp_session *oldest = NULL;
    *count = 0;
    MAP_EACH(&http->sessions, node)
    {
        struct mcp_session *s = MAP_OF(node, struct mcp_session, by_id);
        if (owner && strcmp(s->owner, owner) != 0)
            continue;
        ++*count;
        if (!is_in_use(s) && (!oldest || s->used_ns < oldest->used_ns))
            oldest = s;
    }
    return oldest;
}

/* Room for one more, if need be in place of one that is forgotten. */
static bool make_room(struct mcp_http *http, const char *owner)
{
    const struct {
        const char *owner;
        size_t max;
    } limits[] = {{owner, MCP_HTTP_SESSIONS_OWNER_MAX}, {NULL, MCP_HTTP_SESSIONS_MAX}};
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        size_t count;
        struct mcp_session *oldest = find_oldest(http, limits[i].owner, &count);
        if (count < limits[i].max)
            continue;
        if (!oldest)
            return false;
        mcp_session_end(oldest);
    }
    return true;
}

/* What belongs to no request goes to the standing stream, if one is open. */
static void on_send(void *ctx, const json_t *message)
{
    const struct mcp_session *s = ctx;
    if (s->standing)
        mcp_stream_send(s->standing, message);
}

struct mcp_session *mcp_session_new(struct mcp_http *http, const struct mcp_user *user)
{
    struct error err;
    if (http->is_stopping || !make_room(http, user->owner))
        return NULL;
    struct mcp_session *s = xcalloc(1, sizeof(*s));
    if (id_random(s->id, MCP_SESSION_ID_BYTES - 1, &err) < 0) {
        free(s);
        return NULL;
    }
    s->http = http;
    s->owner = xstrdup(user->owner);
    s->used_ns = clock_now_ns();
    s->peer = mcp_peer_new(&(struct mcp_peer_order){.server = http->order.server,
                                                    .user = *user,
                                                    .send = on_send,
                                                    .ctx = s,
                                                    .is_lasting = true});
    map_add(&http->sessions, &s->by_id, s->id);
    return s;
}

struct mcp_session *mcp_session_find(struct mcp_http *http, const char *id, const char *owner)
{
    struct map_node *node = map_find(&http->sessions, id);
    struct mcp_session *s = node ? MAP_OF(node, struct mcp_session, by_id) : NULL;
    if (!s || strcmp(s->owner, owner) != 0)
        return NULL;
    s->used_ns = clock_now_ns();
    return s;
}

/* Calls that do not end at once leave their streams behind, which are then nobody's. */
void mcp_session_end(struct mcp_session *s)
{
    map_remove(&s->http->sessions, &s->by_id);
    while (s->streams)
        mcp_stream_orphan(s->streams);
    mcp_peer_close(s->peer);
    free(s->owner);
    free(s);
}

void mcp_session_sweep(void *ctx)
{
    struct mcp_http *http = ctx;
    int64_t before_ns = clock_now_ns() - (int64_t)http->order.session_ms * NS_PER_MS;
    loop_timer_free(http->sweep);
    http->sweep = loop_timer_new(http->order.loop, MIN(SWEEP_MS, http->order.session_ms),
                                 mcp_session_sweep, http);
    mcp_tasks_sweep(http->order.server);
    MAP_EACH(&http->sessions, node)
    {
        struct mcp_session *s = MAP_OF(node, struct mcp_session, by_id);
        if (is_in_use(s))
            s->used_ns = clock_now_ns();
        else if (s->used_ns < before_ns)
            mcp_session_end(s);
    }
}

void mcp_session_trim(struct mcp_session *s)
{
    struct mcp_stream *next;
    size_t count = 0, bytes = 0;
    for (struct mcp_stream *stream = s->streams; stream; stream = next) {
        next = stream->next;
        if (!stream->has_ended)
            continue;
        bytes += stream->kept_bytes;
        if (++count > MCP_STREAMS_KEPT || (count > 1 && bytes > MCP_EVENTS_KEPT_BYTES))
            mcp_stream_close(stream);
    }
}
