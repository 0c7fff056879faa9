/* exchange_answer.c - what the proxy says itself, and the end that follows */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "egress/exchange_inside.h"

#define LINGER_NS                                                                                  \
    (2 * EXCHANGE_SECOND_NS) /* for an answer to arrive before the connection goes                 \
                              */
#define ANSWER_BYTES 4096

static void end_with(struct exchange *e, const char *text, size_t len)
{
    outqueue_add(&e->client.out, text, len);
    e->client.is_finishing = true;
    channel_close(&e->host);
    e->host.t.fd = -1;
    e->stage = STAGE_LAST;
    e->has_answered = true;
    exchange_give_time(e, LINGER_NS);
}

/* The words stand in the first line, too: for a refused CONNECT most programs show nothing else.
 * They are ours, and names that were parsed: nothing in them needs to be escaped. */
void exchange_answer(struct exchange *e, int status, const char *code, const char *words)
{
    char body[ANSWER_BYTES], text[2 * ANSWER_BYTES];
    const struct authority *to = &e->request.to;
    int body_len = snprintf(body, sizeof(body),
                            "{\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"host\":\"%s\","
                            "\"port\":%u}}\n",
                            code, words, to->name, to->port);
    int len = snprintf(text, sizeof(text),
                       "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                       "X-Cove-Egress: %s; host=\"%s\"; port=%u; rule=\"%s\"\r\n"
                       "Connection: close\r\n\r\n%s",
                       status, words, body_len, code, to->name, to->port, words, body);
    end_with(e, text, (size_t)len);
}

void exchange_deny(struct exchange *e, int status, const char *words)
{
    tenant_tell(e->tenant, EGRESS_DENIED, &e->request.to, words);
    exchange_answer(e, status, "egress_denied", words);
}

void exchange_fail(struct exchange *e, int status, const char *words)
{
    char text[EXCHANGE_WORDS_BYTES];
    snprintf(text, sizeof(text), "%s:%u: %s", e->request.to.name, e->request.to.port, words);
    if (status >= 500) /* else it is the program's own doing */
        tenant_tell(e->tenant, EGRESS_FAILED, &e->request.to, words);
    exchange_answer(e, status, "egress_failed", text);
}
