/* response.h - what a host answers, passed on with two changes: the connection ends behind it, and
 * the host's secrets are covered up
 *
 * Each connection has one request, so the head of its answer must not promise another. Everything
 * else is content for the sandbox. Pure. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "egress/secrets.h"

#define RESPONSE_HEAD_MAX_BYTES (64 * KIB)

struct response {
    struct strbuf head;  /* that is not complete */
    bool has_head;       /* what follows is the body */
    struct strbuf begun; /* the last bytes of the body, which may be those of a secret */
    size_t covered;      /* of them, see secrets_cover() */
    const struct secrets_view *view;
};

void response_init(struct response *r, const struct secrets_view *view); /* borrowed */
void response_release(struct response *r);

/* Adds to `out` what is to be passed on. False: this is no answer of HTTP/1, or its head is too
 * large; nothing was added then. */
bool response_feed(struct response *r, const char *data, size_t len, struct strbuf *out);

/* Nothing more comes: adds what was held back. */
void response_end(struct response *r, struct strbuf *out);
