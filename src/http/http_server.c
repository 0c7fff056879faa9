/* http_server.c - the list of connections, and what they share: buffer, clock, caps, the sweep
 *
 * Deadlines are looked at by one timer that walks all connections; a timer for each would be set
 * twice in every request. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "event/loop.h"
#include "http/conn.h"
#include "http/listen.h"
#include "http/tls.h"

#define LISTENER_MAX      8
#define ACCEPTS_IN_A_TURN 64
#define SWEEP_MAX_MS      250
#define SWEEP_MIN_MS      10
#define DATE_BYTES        32

struct listener {
    struct http_server *server;
    struct loop_watch *watch;
    int fd;
    struct tls *tls;
    char *path; /* of a unix socket; owned */
    dev_t device;
    ino_t inode; /* of that path, so that nobody else's is removed */
};

struct http_server {
    struct loop *loop;
    struct http_server_config config;
    struct route_table routes;
    struct listener listeners[LISTENER_MAX];
    size_t listener_count;
    uint16_t port;
    struct http_conn *conns; /* newest first */
    struct http_conn *oldest;
    struct http_conn *cursor;  /* where a walk over all connections goes on */
    struct http_conn *kicked;  /* waiting for the kick */
    struct http_conn *in_turn; /* of them, those of the kick that is going on */
    struct loop_timer *kick;
    struct loop_timer *sweep;
    uint32_t sweep_ms;
    struct peers peers;
    struct http_server_counts counts;
    int spare_fd; /* closed to accept, and refuse, when there are no fds left */
    time_t date_s;
    char date[DATE_BYTES];
    bool is_draining, is_freeing;
    struct loop_timer *drain;
    http_server_done_fn done;
    void *done_ctx;
    char buffer[CONN_READ_BYTES];
};

/* --- what connections ask for --------------------------------------------------------------- */

const struct http_server_config *http_server_config(const struct http_server *s)
{
    return &s->config;
}

const struct route_table *http_server_routes(const struct http_server *s)
{
    return &s->routes;
}

struct loop *http_server_loop(const struct http_server *s)
{
    return s->loop;
}

char *http_server_buffer(struct http_server *s)
{
    return s->buffer;
}

bool http_server_is_draining(const struct http_server *s)
{
    return s->is_draining;
}

void http_server_count_request(struct http_server *s)
{
    s->counts.requests++;
}

struct http_server_counts http_server_counts(const struct http_server *s)
{
    return s->counts;
}

const char *http_server_date(struct http_server *s)
{
    time_t now = time(NULL);
    struct tm parts;
    if (now != s->date_s) {
        s->date_s = now;
        gmtime_r(&now, &parts);
        strftime(s->date, sizeof(s->date), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    }
    return s->date;
}

/* --- kicks ---------------------------------------------------------------------------------- */

static void on_kick(void *ctx)
{
    struct http_server *s = ctx;
    loop_timer_free(s->kick);
    s->kick = NULL;
    s->in_turn = s->kicked;
    s->kicked = NULL;
    /* Who is kicked anew while these are served comes in the next turn, so that sockets have one.
     */
    while (s->in_turn) {
        struct http_conn *conn = s->in_turn;
        s->in_turn = conn->kick_next;
        conn->is_kicked = false;
        conn_kicked(conn);
    }
}

void http_server_kick(struct http_server *s, struct http_conn *conn)
{
    if (conn->is_kicked)
        return;
    conn->is_kicked = true;
    conn->kick_next = s->kicked;
    s->kicked = conn;
    if (!s->kick)
        s->kick = loop_timer_new(s->loop, 0, on_kick, s);
}

static void unlink_kick(struct http_conn **list, const struct http_conn *conn)
{
    while (*list && *list != conn)
        list = &(*list)->kick_next;
    if (*list)
        *list = conn->kick_next;
}

void http_server_unkick(struct http_server *s, struct http_conn *conn)
{
    if (!conn->is_kicked)
        return;
    unlink_kick(&s->kicked, conn);
    unlink_kick(&s->in_turn, conn);
    conn->is_kicked = false;
}

/* --- the list and the sweep ----------------------------------------------------------------- */

static void arm_sweep(struct http_server *s);

static void on_sweep(void *ctx)
{
    struct http_server *s = ctx;
    int64_t now = clock_now_ns();
    loop_timer_free(s->sweep);
    s->sweep = NULL;
    s->cursor = s->conns;
    while (s->cursor) {
        struct http_conn *conn = s->cursor;
        s->cursor = conn->next; /* moved on when a callback removes that one */
        conn_check_deadlines(conn, now);
    }
    arm_sweep(s);
}

static void arm_sweep(struct http_server *s)
{
    if (s->conns && !s->sweep && !s->is_freeing)
        s->sweep = loop_timer_new(s->loop, s->sweep_ms, on_sweep, s);
}

void http_server_add(struct http_server *s, struct http_conn *conn)
{
    conn->next = s->conns;
    if (s->conns)
        s->conns->prev = conn;
    else
        s->oldest = conn;
    s->conns = conn;
    s->counts.connections++;
    s->counts.accepted++;
    arm_sweep(s);
}

static void drop_all(struct http_server *s)
{
    s->cursor = s->conns;
    while (s->cursor) {
        struct http_conn *conn = s->cursor;
        s->cursor = conn->next;
        conn_drop(conn);
    }
}

static void finish_drain(void *ctx)
{
    struct http_server *s = ctx;
    http_server_done_fn done = s->done;
    loop_timer_free(s->drain);
    s->drain = NULL;
    s->done = NULL;
    drop_all(s);
    if (done)
        done(s->done_ctx);
}

void http_server_remove(struct http_server *s, struct http_conn *conn)
{
    if (s->cursor == conn)
        s->cursor = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    else
        s->oldest = conn->prev;
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        s->conns = conn->next;
    peers_remove(&s->peers, &conn->peer);
    s->counts.connections--;
    if (!s->conns && s->is_draining && s->done) {
        loop_timer_free(s->drain);
        s->drain = loop_timer_new(s->loop, 0, finish_drain, s); /* from the loop, not from here */
    }
}

/* --- accepting ------------------------------------------------------------------------------ */

/* A refusal for who is not even let in: written once, and not waited for. */
static void refuse_fd(int fd, const struct listener *listener, enum refusal refusal)
{
    const struct refusal_info *info = refusal_info(refusal);
    char id[ID_BYTES] = "", head[512];
    struct error err;
    scoped_strbuf struct strbuf body;
    strbuf_init(&body, 1024);
    if (listener->tls || id_make(ID_REQUEST, id, &err) < 0)
        return;
    refusal_add_json(&body, &(struct refusal_text){info->code, info->message, NULL, id});
    int len = snprintf(head, sizeof(head),
                       "HTTP/1.1 %d %s\r\nX-Request-Id: %s\r\nContent-Type: application/json\r\n"
                       "Content-Length: %zu\r\nRetry-After: 1\r\nConnection: close\r\n\r\n",
                       info->status, refusal_reason(info->status), id, body.len);
    struct iovec pieces[] = {{head, (size_t)len}, {body.data, body.len}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = ARRAY_LEN(pieces)};
    (void)!sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Who is idle makes room for who has something to say. */
static bool make_room(struct http_server *s)
{
    if (s->counts.connections < s->config.connection_max)
        return true;
    for (struct http_conn *conn = s->oldest; conn; conn = conn->prev) {
        if (conn_is_idle(conn) && conn->request_count > 0) {
            conn_drop(conn);
            return true;
        }
    }
    return false;
}

static void take_in(struct listener *listener, int fd, const struct sockaddr *address)
{
    struct http_server *s = listener->server;
    struct peers_key key = peers_key(address);
    bool is_counted = address->sa_family != AF_UNIX;
    enum refusal refusal = REFUSAL_NONE;
    if (!make_room(s))
        refusal = REFUSAL_TOO_MANY;
    else if (!peers_add(&s->peers, &key, is_counted ? s->config.connection_peer_max : UINT32_MAX))
        refusal = REFUSAL_TOO_MANY_OF_PEER;
    if (refusal) {
        s->counts.refused++;
        refuse_fd(fd, listener, refusal);
        close(fd);
        return;
    }
    conn_open(s, fd, address, listener->tls);
}

/* No fd is left: without this, the connection would stay in the queue and wake us for ever. */
static void shed_one(struct listener *listener)
{
    struct http_server *s = listener->server;
    close(s->spare_fd);
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        s->counts.refused++;
        refuse_fd(fd, listener, REFUSAL_TOO_MANY);
        close(fd);
    }
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_accept(void *ctx, unsigned events)
{
    struct listener *listener = ctx;
    (void)events;
    for (int i = 0; i < ACCEPTS_IN_A_TURN; i++) {
        struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
        socklen_t len = sizeof(address);
        int fd =
            accept4(listener->fd, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                shed_one(listener);
            return;
        }
        take_in(listener, fd, (struct sockaddr *)&address);
    }
}

/* --- listening ------------------------------------------------------------------------------ */

int http_server_bind(int *out, const struct http_listen *where, struct error *err)
{
    return listen_open(out, where, err);
}

int http_server_take(struct http_server *s, int taken, const struct http_listen *where,
                     struct error *err)
{
    scoped_fd int fd = taken;
    if (s->listener_count == LISTENER_MAX)
        return error_set(err, ERROR_LIMIT, "a server listens at %d places at most", LISTENER_MAX);
    struct listener *listener = &s->listeners[s->listener_count];
    *listener = (struct listener){.server = s, .tls = where->tls, .fd = -1};
    if (loop_watch_new(&listener->watch, s->loop, fd, LOOP_READ, on_accept, listener, err) < 0)
        return -1;
    struct stat st;
    if (where->path && lstat(where->path, &st) == 0) {
        listener->path = xstrdup(where->path);
        listener->device = st.st_dev;
        listener->inode = st.st_ino;
    }
    listener->fd = take_fd(&fd);
    s->listener_count++;
    s->port = listen_port(listener->fd);
    return 0;
}

int http_server_listen(struct http_server *s, const struct http_listen *where, struct error *err)
{
    int fd = -1;
    return http_server_bind(&fd, where, err) < 0 ? -1 : http_server_take(s, fd, where, err);
}

uint16_t http_server_port(const struct http_server *s)
{
    return s->port;
}

static void close_listeners(struct http_server *s)
{
    for (size_t i = 0; i < s->listener_count; i++) {
        struct listener *listener = &s->listeners[i];
        struct stat st;
        loop_watch_free(listener->watch);
        close(listener->fd);
        if (listener->path && lstat(listener->path, &st) == 0 && st.st_dev == listener->device &&
            st.st_ino == listener->inode)
            unlink(listener->path);
        free(listener->path);
    }
    s->listener_count = 0;
}

/* --- life ----------------------------------------------------------------------------------- */

struct preset {
    size_t offset;
    uint32_t value;
};

#define PRESET(field, value)                                                                       \
    {                                                                                              \
        offsetof(struct http_server_config, field), value                                          \
    }
static const struct preset presets[] = {
    PRESET(connection_max, 4096), PRESET(connection_peer_max, 256), PRESET(head_ms, 10000),
    PRESET(body_ms, 30000),       PRESET(body_rate, 16384),         PRESET(idle_ms, 75000),
    PRESET(stall_ms, 30000),      PRESET(linger_ms, 1000),
};
#undef PRESET

static void apply_presets(struct http_server_config *config)
{
    for (size_t i = 0; i < ARRAY_LEN(presets); i++) {
        uint32_t *field = (uint32_t *)((char *)config + presets[i].offset);
        *field = *field ? *field : presets[i].value;
    }
}

/* A deadline is noticed at most a quarter of the shortest one late. */
static uint32_t sweep_interval(const struct http_server_config *c)
{
    uint32_t shortest = MIN(MIN(c->head_ms, c->body_ms), MIN(c->idle_ms, c->stall_ms));
    return MAX(MIN(MIN(shortest, c->linger_ms) / 4, SWEEP_MAX_MS), SWEEP_MIN_MS);
}

int http_server_open(struct http_server **out, struct loop *loop,
                     const struct http_server_config *config, struct error *err)
{
    const char *wrong = route_check(config->routes, config->route_count);
    uint64_t seed;
    if (wrong)
        return error_set(err, ERROR_INTERNAL, "the route '%s' cannot be", wrong);
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        return error_sys(err, "getrandom");
    struct http_server *s = xcalloc(1, sizeof(*s));
    s->loop = loop;
    s->config = *config;
    apply_presets(&s->config);
    s->sweep_ms = sweep_interval(&s->config);
    route_table_init(&s->routes, config->routes, config->route_count);
    peers_init(&s->peers, seed);
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    *out = s;
    return 0;
}

void http_server_drain(struct http_server *s, uint32_t deadline_ms, http_server_done_fn done,
                       void *ctx)
{
    if (s->is_draining)
        return;
    s->is_draining = true;
    s->done = done;
    s->done_ctx = ctx;
    close_listeners(s);
    s->drain = loop_timer_new(s->loop, s->conns ? deadline_ms : 0, finish_drain, s);
    s->cursor = s->conns;
    while (s->cursor) {
        struct http_conn *conn = s->cursor;
        s->cursor = conn->next;
        conn_drain(conn);
    }
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    s->is_draining = s->is_freeing = true;
    s->done = NULL;
    close_listeners(s);
    drop_all(s);
    BUG_ON(s->conns); /* a handler still holds a request for which it asked no on_gone */
    loop_timer_free(s->sweep);
    loop_timer_free(s->kick);
    loop_timer_free(s->drain);
    peers_release(&s->peers);
    route_table_release(&s->routes);
    if (s->spare_fd >= 0)
        close(s->spare_fd);
    free(s);
}
