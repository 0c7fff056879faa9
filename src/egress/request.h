/* request.h - whom a request to the proxy is for, and how it is passed on
 *
 * Pure. Two forms: `CONNECT host:port`, and `GET http://host/path`. The Host header is not looked
 * at: it is written anew from the target, so the two cannot differ. Inside a tunnel that is ended
 * here there is a third one, `GET /path`, whose Host must be the tunnel's. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/strbuf.h"
#include "codec/authority.h"
#include "egress/secrets.h"
#include "http/framing.h"

struct request {
    bool is_tunnel;
    bool is_secure;      /* came by TLS, and goes on by TLS */
    struct authority to; /* with its port */
    const char *path;    /* of what is no tunnel, borrowed from the head; may be empty */
};

/* NULL, or in words what is wrong. */
const char *request_read(struct request *out, const struct framing_head *head);

/* The one that came through the tunnel which *r was until now. */
const char *request_read_inner(struct request *r, const struct framing_head *head);

/* The head as its host gets it, with its secrets. */
void request_add_head(const struct request *r, const struct framing_head *head,
                      const struct secrets_view *view, struct strbuf *out);
