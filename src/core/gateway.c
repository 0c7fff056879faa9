/* gateway.c - one link, and a list of those who want to go through it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/gateway.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "runtime/outbox.h"
#include "runtime/sandbox_socket.h"

#define OUTBOX_MAX   (16u * 1024 * 1024)
#define PAUSE_MIN_MS 20 /* before the proxy is started again; doubled each time */
#define PAUSE_MAX_MS 5000
#define WELL_NS      10000000000ll /* one that lived so long did not fail at its start */
#define WHO_BYTES    64

struct gateway {
    struct gateway_order order;
    int fd;        /* -1: no link */
    int trust_fd;  /* see gateway_give_trust(); -1: none */
    bool is_ready; /* it has said so */
    struct loop_watch *watch;
    struct outbox outbox;
    struct asking *asking;    /* the spawner owes us a proxy */
    struct loop_timer *timer; /* for the next try */
    uint64_t pause_ms;
    int64_t linked_ns;
    struct passage *passages;
};

struct passage {
    struct passage *next;
    struct gateway *gateway;
    uint64_t sandbox;
    char who[WHO_BYTES];
    struct network_rules rules;
    struct vault *vault;   /* NULL: no secrets */
    struct asking *asking; /* the spawner owes us its door */
    bool is_open;
    passage_fn fn; /* NULL: told */
    void *ctx;
    bool has_denied, has_failed;
    struct egress_denied denied, failed; /* the last of each */
};

/* An answer may come when nobody wants it any more. */
struct asking {
    struct gateway *gateway; /* one of them, or neither */
    struct passage *passage;
};

static void start(struct gateway *g);

static void drop_asking(struct asking **asking)
{
    if (*asking)
        **asking = (struct asking){0};
    *asking = NULL;
}

static void tell(struct passage *p, const struct error *err)
{
    passage_fn fn = take_ptr(&p->fn);
    if (fn)
        fn(p->ctx, err);
}

/* --- the link --------------------------------------------------------------------------------- */

static void on_retry(void *ctx)
{
    struct gateway *g = ctx;
    loop_timer_free(take_ptr(&g->timer));
    start(g);
}

static void retry_later(struct gateway *g)
{
    g->pause_ms = g->pause_ms ? MIN(2 * g->pause_ms, (uint64_t)PAUSE_MAX_MS) : PAUSE_MIN_MS;
    if (!g->timer)
        g->timer = loop_timer_new(g->order.loop, g->pause_ms, on_retry, g);
}

/* Whoever waits for the first time is told that there is none; others wait for the next. */
static void tell_waiting(struct gateway *g, const struct error *err)
{
    for (struct passage *p = g->passages, *next; p; p = next) {
        next = p->next;
        if (!p->is_open && !p->asking)
            tell(p, err);
    }
}

static void lose_link(struct gateway *g)
{
    struct error err;
    if (g->fd < 0)
        return;
    bool was_ready = g->is_ready;
    g->is_ready = false;
    loop_watch_free(take_ptr(&g->watch));
    outbox_release(&g->outbox);
    sandbox_socket_close(g->order.loop, &g->fd);
    if (clock_now_ns() - g->linked_ns >= WELL_NS)
        g->pause_ms = 0;
    for (struct passage *p = g->passages; p; p = p->next) {
        p->is_open = false;
        drop_asking(&p->asking);
    }
    if (!g->passages)
        return;
    log_warn(g->order.log, "the egress proxy is gone; it is started again");
    retry_later(g);
    if (was_ready)
        return;
    error_set(&err, ERROR_UNAVAILABLE, "the egress proxy could not be started");
    error_hint(&err, "its own words are in the log; its user must be able to read the program");
    tell_waiting(g, &err);
}

static struct passage *find(const struct gateway *g, uint64_t sandbox)
{
    struct passage *p = g->passages;
    while (p && p->sandbox != sandbox)
        p = p->next;
    return p;
}

static void on_denied(struct gateway *g, struct egress_message *m)
{
    struct passage *p = find(g, m->sandbox);
    bool is_failure = m->verb == EGRESS_FAILED;
    if (!p)
        return;
    m->denied.host[sizeof(m->denied.host) - 1] = '\0';
    m->denied.rule[sizeof(m->denied.rule) - 1] = '\0';
    *(is_failure ? &p->failed : &p->denied) = m->denied;
    *(is_failure ? &p->has_failed : &p->has_denied) = true;
    log_info(g->order.log, is_failure ? "egress failed" : "egress denied",
             LOG_STR("sandbox", p->who), LOG_STR("host", m->denied.host),
             LOG_U64("port", m->denied.port), LOG_STR(is_failure ? "why" : "rule", m->denied.rule));
}

static int send_message(struct gateway *g, const struct egress_message *m, const int *fd,
                        struct error *err)
{
    return outbox_send(&g->outbox, m, egress_size(m->verb), fd, fd ? 1 : 0, err);
}

static void on_authority(struct gateway *g, const struct egress_message *m)
{
    struct passage *p = find(g, m->sandbox);
    if (!p)
        return; /* closed meanwhile */
    if (p->vault && vault_set_authority(p->vault, &m->authority))
        tell(p, NULL);
    else
        lose_link(g);
}

/* Without it the proxy trusts fewer, and says so. */
static void send_trust(struct gateway *g)
{
    const struct egress_message m = {.verb = EGRESS_TRUST};
    struct error ignored;
    if (g->trust_fd >= 0)
        (void)!send_message(g, &m, &g->trust_fd, &ignored);
}

static void ask_doors(struct gateway *g);

static void on_message(struct gateway *g, struct egress_message *m, size_t len)
{
    bool is_news = m->verb == EGRESS_DENIED || m->verb == EGRESS_FAILED;
    if (is_news && len == egress_size(m->verb) && g->is_ready) {
        on_denied(g, m);
    } else if (m->verb == EGRESS_AUTHORITY && len == egress_size(m->verb) && g->is_ready) {
        on_authority(g, m);
    } else if (m->verb == EGRESS_READY && len == egress_size(m->verb) && !g->is_ready) {
        g->is_ready = true;
        send_trust(g);
        ask_doors(g);
    } else {
        lose_link(g);
    }
}

static void read_link(struct gateway *g)
{
    while (g->fd >= 0) {
        struct egress_message m = {0};
        ssize_t n = sandbox_socket_recv(g->order.loop, g->fd, &m, sizeof(m));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n > 0)
            on_message(g, &m, (size_t)n);
        else
            lose_link(g);
        explicit_bzero(&m, sizeof(m)); /* it may have been a key */
    }
}

static void on_link(void *ctx, unsigned events)
{
    (void)events;
    read_link(ctx);
}

/* --- passages --------------------------------------------------------------------------------- */

static int send_rules(struct passage *p, enum egress_verb verb, const struct egress_rule *rules,
                      size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct egress_message m = {.verb = verb, .sandbox = p->sandbox, .rule = rules[i]};
        if (send_message(p->gateway, &m, NULL, err) < 0)
            return -1;
    }
    return 0;
}

static int send_secret(struct passage *p, size_t index, struct error *err)
{
    size_t count;
    const struct egress_rule *hosts = vault_hosts(p->vault, index, &count);
    struct egress_message m = {.verb = EGRESS_SECRET, .sandbox = p->sandbox};
    m.secret = *vault_secret(p->vault, index);
    int status = send_message(p->gateway, &m, NULL, err);
    explicit_bzero(&m, sizeof(m));
    return status < 0 ? -1 : send_rules(p, EGRESS_SECRET_HOST, hosts, count, err);
}

static int send_vault(struct passage *p, struct error *err)
{
    for (size_t i = 0; i < vault_count(p->vault); i++) {
        if (send_secret(p, i, err) < 0)
            return -1;
    }
    const struct egress_authority *authority = p->vault ? vault_authority(p->vault) : NULL;
    if (!authority)
        return 0;
    struct egress_message m = {.verb = EGRESS_AUTHORITY, .sandbox = p->sandbox};
    m.authority = *authority;
    int status = send_message(p->gateway, &m, NULL, err);
    explicit_bzero(&m, sizeof(m));
    return status;
}

static int send_passage(struct passage *p, int door, struct error *err)
{
    struct gateway *g = p->gateway;
    if (send_rules(p, EGRESS_RULE, p->rules.items, p->rules.count, err) < 0 ||
        send_vault(p, err) < 0)
        return -1;
    struct egress_message m = {.verb = EGRESS_OPEN, .sandbox = p->sandbox};
    m.open = (struct egress_open){.bytes_max = g->order.bytes_max,
                                  .connections_max = g->order.connections_max};
    return send_message(g, &m, &door, err);
}

static void on_door(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    scoped_free struct asking *asking = ctx;
    struct passage *p = asking->passage;
    struct error local;
    if (!p)
        return;
    p->asking = NULL;
    if (!m) {
        tell(p, err);
        return;
    }
    if (send_passage(p, fds[0], &local) < 0) {
        lose_link(p->gateway); /* what it knows of it is not all */
        tell(p, &local);
        return;
    }
    p->is_open = true;
    if (!p->vault || vault_authority(p->vault))
        tell(p, NULL); /* else when the proxy has made one */
}

static void ask_door(struct passage *p)
{
    struct spawn_message m = {.verb = SPAWN_EGRESS, .sandbox = p->sandbox};
    p->asking = xcalloc(1, sizeof(*p->asking));
    p->asking->passage = p;
    spawner_client_ask(p->gateway->order.spawner, &m, on_door, p->asking);
}

static void ask_doors(struct gateway *g)
{
    for (struct passage *p = g->passages; p; p = p->next)
        ask_door(p);
}

static int take_link(struct gateway *g, int fd, struct error *err)
{
    g->fd = fd;
    g->linked_ns = clock_now_ns();
    outbox_init(&g->outbox, g->order.loop, fd, OUTBOX_MAX);
    if (loop_watch_new(&g->watch, g->order.loop, fd, LOOP_READ, on_link, g, err) == 0)
        return 0;
    outbox_release(&g->outbox);
    sandbox_socket_close(g->order.loop, &g->fd);
    return -1;
}

static void on_proxy(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    scoped_free struct asking *asking = ctx;
    struct gateway *g = asking->gateway;
    struct error local;
    if (!g)
        return;
    g->asking = NULL;
    if (!m && err->sys_errno == EBUSY) { /* an earlier one is about to end */
        retry_later(g);
        return;
    }
    if (!m || take_link(g, take_fd(&fds[0]), &local) < 0) {
        tell_waiting(g, m ? &local : err);
        if (g->passages)
            retry_later(g);
    }
}

static void start(struct gateway *g)
{
    struct spawn_message m = {.verb = SPAWN_PROXY};
    if (g->fd >= 0 || g->asking || g->timer || !g->passages)
        return;
    g->asking = xcalloc(1, sizeof(*g->asking));
    g->asking->gateway = g;
    spawner_client_ask(g->order.spawner, &m, on_proxy, g->asking);
}

struct passage *passage_open(struct gateway *g, const struct passage_order *order, passage_fn fn,
                             void *ctx)
{
    const struct network_rules *rules = order->rules;
    struct passage *p = xcalloc(1, sizeof(*p));
    *p = (struct passage){
        .next = g->passages, .gateway = g, .sandbox = order->sandbox, .fn = fn, .ctx = ctx};
    snprintf(p->who, sizeof(p->who), "%s", order->who);
    p->vault = vault_copy(order->vault);
    p->rules.items = xcalloc(rules->count + 1, sizeof(*p->rules.items));
    memcpy(p->rules.items, rules->items, rules->count * sizeof(*rules->items));
    p->rules.count = rules->count;
    g->passages = p;
    if (g->is_ready)
        ask_door(p);
    else
        start(g);
    return p;
}

void passage_free(struct passage *p)
{
    struct egress_message m = {.verb = EGRESS_CLOSE};
    struct error ignored;
    if (!p)
        return;
    struct gateway *g = p->gateway;
    struct passage **at = &g->passages;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    drop_asking(&p->asking);
    m.sandbox = p->sandbox;
    if (p->is_open && g->fd >= 0 && send_message(g, &m, NULL, &ignored) < 0)
        lose_link(g);
    network_rules_release(&p->rules);
    vault_free(p->vault);
    free(p);
}

const struct vault *passage_vault(const struct passage *p)
{
    return p->vault;
}

const struct egress_denied *passage_denied(struct passage *p)
{
    read_link(p->gateway);
    return p->has_denied ? &p->denied : NULL;
}

const struct egress_denied *passage_failed(struct passage *p)
{
    read_link(p->gateway);
    return p->has_failed ? &p->failed : NULL;
}

void passage_clear(struct passage *p)
{
    p->has_denied = p->has_failed = false;
}

struct gateway *gateway_new(const struct gateway_order *order)
{
    struct gateway *g = xcalloc(1, sizeof(*g));
    *g = (struct gateway){.order = *order, .fd = -1, .trust_fd = -1};
    return g;
}

void gateway_give_trust(struct gateway *g, int fd)
{
    BUG_ON(g->trust_fd >= 0);
    g->trust_fd = fd;
}

void gateway_free(struct gateway *g)
{
    if (!g)
        return;
    BUG_ON(g->passages);
    drop_asking(&g->asking);
    loop_timer_free(g->timer);
    lose_link(g);
    scoped_close_fd(&g->trust_fd);
    free(g);
}
