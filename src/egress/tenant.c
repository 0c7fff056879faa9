/* tenant.c - accepting, counting, and ending what is too old */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/tenant.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "egress/exchange.h"

#define ACCEPTS_AT_A_TIME 16
#define TELLS_AT_A_TIME   20 /* more of them tell nobody more */

static void stop_listening(struct tenant *t)
{
    loop_watch_free(take_ptr(&t->watch));
    scoped_close_fd(&t->listen_fd);
    t->listen_fd = -1;
}

/* With as many connections as it may have, the next wait in the kernel's queue: its own affair. */
static void watch_door(struct tenant *t)
{
    if (t->watch)
        loop_watch_set(t->watch, t->count < t->limits.connections_max ? LOOP_READ : 0);
}

static void on_door(void *ctx, unsigned events)
{
    struct tenant *t = ctx;
    (void)events;
    for (int i = 0; i < ACCEPTS_AT_A_TIME && t->count < t->limits.connections_max; i++) {
        int fd = accept4(t->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            loop_watch_set(t->watch, 0); /* out of fds: the next look at the clock tries again */
            return;
        }
        if (fd < 0)
            break;
        exchange_begin(t, fd);
    }
    watch_door(t);
}

struct tenant *tenant_new(const struct tenant_world *world, uint64_t sandbox)
{
    struct tenant *t = xcalloc(1, sizeof(*t));
    *t = (struct tenant){.world = world, .sandbox = sandbox, .listen_fd = -1};
    return t;
}

void tenant_free(struct tenant *t)
{
    while (t->exchanges)
        exchange_free(t->exchanges);
    stop_listening(t);
    policy_release(&t->policy);
    secrets_release(&t->secrets);
    leaves_release(&t->leaves);
    certificate_signer_free(t->signer);
    free(t);
}

int tenant_open(struct tenant *t, int fd, const struct egress_open *limits, struct error *err)
{
    stop_listening(t);
    t->listen_fd = fd;
    t->limits = *limits;
    return loop_watch_new(&t->watch, t->world->loop, fd, LOOP_READ, on_door, t, err);
}

void tenant_on_time(struct tenant *t, int64_t now)
{
    t->told = 0;
    for (struct exchange *e = t->exchanges, *next; e; e = next) {
        next = exchange_next(e);
        if (exchange_is_late(e, now))
            exchange_free(e);
    }
    watch_door(t);
}

void tenant_add(struct tenant *t, struct exchange *e)
{
    *exchange_link(e) = t->exchanges;
    t->exchanges = e;
    t->count++;
}

void tenant_remove(struct tenant *t, struct exchange *e)
{
    struct exchange **at = &t->exchanges;
    while (*at != e)
        at = exchange_link(*at);
    *at = *exchange_link(e);
    t->count--;
    watch_door(t);
}

bool tenant_count(struct tenant *t, size_t bytes)
{
    t->bytes += bytes;
    return !t->limits.bytes_max || t->bytes <= t->limits.bytes_max;
}

void tenant_tell(struct tenant *t, enum egress_verb verb, const struct authority *to,
                 const char *words)
{
    struct egress_message m = {.verb = verb, .sandbox = t->sandbox};
    if (t->told++ >= TELLS_AT_A_TIME)
        return;
    memcpy(m.denied.host, to->name, sizeof(m.denied.host));
    m.denied.port = to->port;
    snprintf(m.denied.rule, sizeof(m.denied.rule), "%s", words);
    t->world->tell(t->world->ctx, &m);
}
