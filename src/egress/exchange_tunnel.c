/* exchange_tunnel.c - a tunnel to a host of secrets: it is ended here, by the session's authority
 *
 * Its client finds a certificate that only its own sandbox trusts, and says one request in it, for
 * the host of the tunnel and no other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "egress/exchange_inside.h"
#include "http/tls.h"

#define SECOND_NS 1000000000ll

void exchange_welcome(struct exchange *e)
{
    static const char opened[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    if (e->rest.len > 0) {
        exchange_answer(e, 400, "bad_request", "wait for the answer to CONNECT before TLS begins");
        return;
    }
    outqueue_add(&e->client.out, opened, sizeof(opened) - 1);
    e->stage = STAGE_WELCOME;
    exchange_give_time(e, EXCHANGE_HEAD_NS);
}

void exchange_begin_inner(struct exchange *e)
{
    struct tenant *t = e->tenant;
    struct tls *tls =
        leaves_get(&t->leaves, t->signer, e->request.to.name, clock_wall_ns() / SECOND_NS, &e->tls);
    transport_secure(&e->client.t, tls_accept(tls, &e->client.t.fd));
    framing_release(&e->framing);
    framing_init_proxy(&e->framing);
    e->stage = STAGE_INNER;
    e->has_answered = false;
}

static bool is_other_name(const struct exchange *e, const char *name)
{
    struct authority asked;
    return name && (!authority_parse(&asked, name, strlen(name)) ||
                    strcmp(asked.name, e->request.to.name) != 0);
}

bool exchange_judge_inner(struct exchange *e)
{
    if (is_other_name(e, transport_server_name(&e->client.t))) {
        exchange_deny(e, 421,
                      "TLS names another host than the tunnel, which leads to one with a "
                      "secret");
        return false;
    }
    const char *wrong = request_read_inner(&e->request, &e->framing.head);
    if (wrong)
        exchange_deny(e, 421, wrong);
    return !wrong;
}
