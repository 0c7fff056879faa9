/* exchange_host.c - the name, the addresses that it may have, a connection, and TLS where that is
 * ours to do */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/scoped.h"
#include "egress/exchange_inside.h"
#include "egress/trust.h"
#include "http/tls.h"

#define CONNECT_NS (20 * EXCHANGE_SECOND_NS) /* finding the host and reaching it */

static void on_host(void *ctx, unsigned events)
{
    (void)events;
    exchange_turn(ctx);
}

/* 0: under way; else an errno. */
static int connect_one(struct exchange *e, union names_address *to)
{
    struct error err;
    int yes = 1;
    in_port_t port = htons(e->request.to.port);
    bool is_v6 = to->any.sa_family == AF_INET6;
    if (is_v6)
        to->v6.sin6_port = port;
    else
        to->v4.sin_port = port;
    scoped_fd int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    if (connect(fd, &to->any, is_v6 ? sizeof(to->v6) : sizeof(to->v4)) < 0 && errno != EINPROGRESS)
        return errno;
    if (channel_open(&e->host, e->tenant->world->loop, take_fd(&fd), on_host, e, &err) < 0)
        return ENOMEM;
    loop_watch_set(e->host.watch, LOOP_WRITE);
    e->host.events = LOOP_WRITE;
    return 0;
}

/* The next address, or the end of them. */
static void connect_next(struct exchange *e, int error)
{
    channel_close(&e->host);
    e->host.t.fd = -1;
    e->stage = STAGE_CONNECT;
    while (e->address_next < e->address_count) {
        error = connect_one(e, &e->addresses[e->address_next++]);
        if (error == 0)
            return;
    }
    exchange_fail(e, 502, strerror(error));
}

/* Only what is public, unless the operator says that it may be otherwise. */
static void keep_allowed(struct exchange *e, const union names_address *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (e->is_private || policy_is_public(&list[i].any))
            e->addresses[e->address_count++] = list[i];
    }
}

static void deny_address(struct exchange *e, const union names_address *address)
{
    char text[INET6_ADDRSTRLEN] = "", words[EXCHANGE_WORDS_BYTES];
    const void *bytes = address->any.sa_family == AF_INET6 ? (const void *)&address->v6.sin6_addr
                                                           : (const void *)&address->v4.sin_addr;
    inet_ntop(address->any.sa_family, bytes, text, sizeof(text));
    snprintf(words, sizeof(words), "%s has the address %s, which is not a public one",
             e->request.to.name, text);
    exchange_deny(e, 403, words);
}

static void begin_connect(struct exchange *e, const union names_address *list, size_t count)
{
    keep_allowed(e, list, count);
    if (e->address_count == 0)
        deny_address(e, &list[0]);
    else
        connect_next(e, 0);
}

static void on_name(void *ctx, const union names_address *list, size_t count, const char *why)
{
    struct exchange *e = ctx;
    if (count == 0)
        exchange_fail(e, 502, why);
    else
        begin_connect(e, list, count);
    if (!e->is_asking)
        exchange_turn(e);
}

static bool read_address(const struct authority *to, union names_address *out)
{
    *out = (union names_address){0};
    if (inet_pton(AF_INET, to->name, &out->v4.sin_addr) == 1)
        out->v4.sin_family = AF_INET;
    else if (inet_pton(AF_INET6, to->name, &out->v6.sin6_addr) == 1)
        out->v6.sin6_family = AF_INET6;
    return out->any.sa_family != 0;
}

void exchange_find_host(struct exchange *e)
{
    union names_address address;
    e->stage = STAGE_NAME;
    exchange_give_time(e, CONNECT_NS);
    if (e->request.to.is_address && read_address(&e->request.to, &address)) {
        begin_connect(e, &address, 1);
        return;
    }
    e->is_asking = true;
    names_ask(e->tenant->world->names, e->request.to.name, &e->waiter, on_name, e);
    e->is_asking = false;
}

/* --- TLS, where a secret is going there --------------------------------------------------------
 */

static void begin_to_shake(struct exchange *e)
{
    struct error err;
    struct tls *tls = trust_client(e->tenant->world->trust, &err);
    const struct authority *to = &e->request.to;
    if (!tls) {
        exchange_fail(e, 502, err.msg);
        return;
    }
    transport_secure(&e->host.t, tls_connect(tls, &e->host.t.fd, to->name, to->is_address));
    e->stage = STAGE_SHAKE;
}

/* Nothing of a request goes to a host that has not shown who it is. */
static bool has_shaken(struct exchange *e)
{
    char words[EXCHANGE_WORDS_BYTES];
    switch (transport_shake_hands(&e->host.t)) {
    case 0:
        return true;
    case TRANSPORT_AGAIN:
        return false;
    default:
        snprintf(words, sizeof(words), "no secret goes there, since TLS with it fails: %.128s",
                 transport_trouble(&e->host.t));
        exchange_fail(e, 502, words);
        return false;
    }
}

static bool is_connected(struct exchange *e)
{
    int error = 0;
    socklen_t len = sizeof(error);
    struct sockaddr_storage peer;
    socklen_t peer_len = sizeof(peer);
    if (getsockopt(e->host.t.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error == 0 && getpeername(e->host.t.fd, (struct sockaddr *)&peer, &peer_len) < 0) {
        if (errno == ENOTCONN) /* not yet */
            return false;
        error = errno;
    }
    if (error)
        connect_next(e, error);
    return !error;
}

bool exchange_is_reached(struct exchange *e)
{
    if (e->stage == STAGE_CONNECT) {
        if (!is_connected(e))
            return false;
        if (!e->is_ended_here)
            return true;
        begin_to_shake(e);
    }
    return e->stage == STAGE_SHAKE && has_shaken(e);
}
