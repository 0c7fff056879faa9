/* control.c - messages of one size for each verb, and a list of tenants */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/control.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "egress/tenant.h"

#define LOOK_MS         500
#define NS_PER_S        1000000000ll
#define CONNECTIONS_MAX 1024 /* of one tenant, whatever is asked for */

struct control {
    struct loop *loop;
    int fd;
    struct loop_watch *watch;
    struct loop_timer *timer;
    struct tenant_world world;
    struct tenant *tenants;
    void (*ended)(void *ctx);
    void *ctx;
};

static struct tenant **find(struct control *c, uint64_t sandbox)
{
    struct tenant **at = &c->tenants;
    while (*at && (*at)->sandbox != sandbox)
        at = &(*at)->next;
    return at;
}

static struct tenant *get(struct control *c, uint64_t sandbox)
{
    struct tenant **at = find(c, sandbox);
    if (!*at)
        *at = tenant_new(&c->world, sandbox);
    return *at;
}

/* --- verbs: false ends the link --------------------------------------------------------------- */

static bool on_rule(struct control *c, const struct egress_message *m, int *fd)
{
    struct tenant *t = get(c, m->sandbox);
    (void)fd;
    return t->listen_fd < 0 && policy_add(&t->policy, &m->rule);
}

static bool on_secret(struct control *c, const struct egress_message *m, int *fd)
{
    struct tenant *t = get(c, m->sandbox);
    (void)fd;
    return t->listen_fd < 0 && secrets_add(&t->secrets, &m->secret);
}

static bool on_secret_host(struct control *c, const struct egress_message *m, int *fd)
{
    struct tenant *t = get(c, m->sandbox);
    (void)fd;
    return t->listen_fd < 0 && secrets_add_host(&t->secrets, &m->rule);
}

_Static_assert(CERTIFICATE_MAX_BYTES == EGRESS_CERTIFICATE_BYTES &&
                   CERTIFICATE_KEY_MAX_BYTES == EGRESS_KEY_BYTES,
               "an authority is the same in a message");

static bool on_authority(struct control *c, const struct egress_message *m, int *fd)
{
    struct error err;
    struct tenant *t = get(c, m->sandbox);
    struct certificate_authority a = {.certificate_len = m->authority.certificate_len,
                                      .key_len = m->authority.key_len};
    (void)fd;
    memcpy(a.certificate, m->authority.certificate, sizeof(a.certificate));
    memcpy(a.key, m->authority.key, sizeof(a.key));
    bool is_good =
        t->listen_fd < 0 && !t->signer && certificate_signer_open(&t->signer, &a, &err) == 0;
    certificate_authority_clear(&a);
    return is_good;
}

/* The host has to know it: for the sandbox, and for the proxy after this one. */
static bool make_authority(struct control *c, struct tenant *t)
{
    struct error err;
    struct certificate_authority a;
    struct egress_message m = {.verb = EGRESS_AUTHORITY, .sandbox = t->sandbox};
    if (certificate_authority_make(&a, clock_wall_ns() / NS_PER_S, &err) < 0)
        return false;
    m.authority.certificate_len = a.certificate_len;
    m.authority.key_len = a.key_len;
    memcpy(m.authority.certificate, a.certificate, sizeof(a.certificate));
    memcpy(m.authority.key, a.key, sizeof(a.key));
    bool is_good = certificate_signer_open(&t->signer, &a, &err) == 0 &&
                   fd_send(c->fd, &m, egress_size(m.verb), NULL, 0) == 0;
    certificate_authority_clear(&a);
    OPENSSL_cleanse(&m, sizeof(m));
    return is_good;
}

static bool on_trust(struct control *c, const struct egress_message *m, int *fd)
{
    (void)m;
    return trust_add(c->world.trust, take_fd(fd));
}

static bool on_open(struct control *c, const struct egress_message *m, int *fd)
{
    struct error err;
    struct tenant *t = get(c, m->sandbox);
    return t->listen_fd < 0 && (t->secrets.count == 0 || t->signer || make_authority(c, t)) &&
           m->open.connections_max > 0 && m->open.connections_max <= CONNECTIONS_MAX &&
           !m->open.reserved && tenant_open(t, take_fd(fd), &m->open, &err) == 0;
}

static bool on_close(struct control *c, const struct egress_message *m, int *fd)
{
    struct tenant **at = find(c, m->sandbox), *t = *at;
    (void)fd;
    if (t) {
        *at = t->next;
        tenant_free(t);
    }
    return true;
}

static const struct {
    size_t fd_count;
    bool (*run)(struct control *c, const struct egress_message *m, int *fd);
} verbs[EGRESS_VERB_COUNT] = {
    [EGRESS_RULE] = {0, on_rule},
    [EGRESS_SECRET] = {0, on_secret},
    [EGRESS_SECRET_HOST] = {0, on_secret_host},
    [EGRESS_AUTHORITY] = {0, on_authority},
    [EGRESS_TRUST] = {1, on_trust},
    [EGRESS_OPEN] = {1, on_open},
    [EGRESS_CLOSE] = {0, on_close},
};

static bool serve(struct control *c, const struct egress_message *m, size_t len, int *fds,
                  size_t fd_count)
{
    return m->verb < EGRESS_VERB_COUNT && verbs[m->verb].run && len == egress_size(m->verb) &&
           (m->sandbox != 0) == (m->verb != EGRESS_TRUST) && !m->reserved &&
           fd_count == verbs[m->verb].fd_count && verbs[m->verb].run(c, m, fds);
}

static void on_link(void *ctx, unsigned events)
{
    struct control *c = ctx;
    (void)events;
    for (;;) {
        struct egress_message m = {0};
        int fds[FD_PASS_MAX];
        size_t count;
        ssize_t n = fd_recv(c->fd, &m, sizeof(m), fds, &count);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        bool is_good = n > 0 && serve(c, &m, (size_t)n, fds, count);
        OPENSSL_cleanse(&m, sizeof(m)); /* it may have been a secret */
        while (n > 0 && count > 0)
            scoped_close_fd(&fds[--count]);
        if (!is_good) {
            c->ended(c->ctx);
            return;
        }
    }
}

/* A host that does not read loses the news, and nothing else. */
static void on_news(void *ctx, const struct egress_message *m)
{
    struct control *c = ctx;
    (void)!fd_send(c->fd, m, egress_size(m->verb), NULL, 0);
}

static void on_time(void *ctx)
{
    struct control *c = ctx;
    int64_t now = clock_now_ns();
    for (struct tenant *t = c->tenants; t; t = t->next)
        tenant_on_time(t, now);
    loop_timer_free(c->timer);
    c->timer = loop_timer_new(c->loop, LOOK_MS, on_time, c);
}

int control_open(struct control **out, struct loop *loop, int fd, struct trust *trust,
                 void (*ended)(void *), void *ctx, struct error *err)
{
    struct control *c = xcalloc(1, sizeof(*c));
    *c = (struct control){.loop = loop, .fd = fd, .ended = ended, .ctx = ctx};
    c->world = (struct tenant_world){
        .loop = loop, .names = names_new(loop), .trust = trust, .tell = on_news, .ctx = c};
    if (loop_watch_new(&c->watch, loop, fd, LOOP_READ, on_link, c, err) < 0) {
        control_free(c);
        return -1;
    }
    c->timer = loop_timer_new(loop, LOOK_MS, on_time, c);
    const struct egress_message ready = {.verb = EGRESS_READY};
    (void)!fd_send(fd, &ready, egress_size(ready.verb), NULL, 0); /* who is not there is seen */
    *out = c;
    return 0;
}

void control_free(struct control *c)
{
    while (c->tenants) {
        struct tenant *t = c->tenants;
        c->tenants = t->next;
        tenant_free(t);
    }
    loop_timer_free(c->timer);
    loop_watch_free(c->watch);
    names_free(c->world.names);
    close(c->fd);
    free(c);
}
