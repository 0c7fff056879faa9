/* exchange_inside.h - what the files of an exchange share */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "egress/channel.h"
#include "egress/exchange.h"
#include "egress/request.h"
#include "egress/response.h"
#include "http/framing.h"

#define EXCHANGE_SECOND_NS   1000000000ll
#define EXCHANGE_HEAD_NS     (20 * EXCHANGE_SECOND_NS)
#define EXCHANGE_WORDS_BYTES (EGRESS_WORDS_BYTES + EGRESS_NAME_BYTES)

/* SHAKE, WELCOME and INNER are those of a tunnel that is ended here: TLS with the host, the answer
 * to CONNECT, and TLS with the client and the head of its request. */
enum stage {
    STAGE_HEAD,
    STAGE_NAME,
    STAGE_CONNECT,
    STAGE_SHAKE,
    STAGE_WELCOME,
    STAGE_INNER,
    STAGE_OPEN,
    STAGE_LAST,
};

struct exchange {
    struct exchange *next;
    struct tenant *tenant;
    enum stage stage;
    struct channel client, host;
    struct framing framing;
    struct request request;
    struct secrets_view view; /* secrets that belong where it goes */
    bool is_ended_here;       /* a tunnel to a host with secrets */
    struct tls *tls;          /* of its client's side, where the tenant does not keep it */
    struct response response;
    struct strbuf rest; /* came behind the head, and waits for the host */
    struct names_waiter waiter;
    union names_address addresses[NAMES_ADDRESSES_MAX]; /* that it may connect to */
    size_t address_count, address_next;
    bool is_asking;    /* an answer about the name comes within the call */
    bool is_private;   /* the operator vouches for its address */
    bool has_request;  /* all of it was passed on */
    bool has_answered; /* something went to the client */
    bool is_lingering; /* all was said */
    int64_t born_ns, deadline_ns;
};

/* exchange.c */
void exchange_turn(struct exchange *e); /* may free it */
void exchange_give_time(struct exchange *e, int64_t ns);

/* exchange_answer.c: answers of our own, and the end. */
void exchange_answer(struct exchange *e, int status, const char *code, const char *words);
void exchange_deny(struct exchange *e, int status, const char *words); /* and tells so */
void exchange_fail(struct exchange *e, int status, const char *words); /* names the host */

/* exchange_host.c: finding it and reaching it. */
void exchange_find_host(struct exchange *e);
/* While it is being reached: whether it is now; or false: not yet, or an answer was given. */
bool exchange_is_reached(struct exchange *e);

/* exchange_tunnel.c: a tunnel that is ended here, once its host is reached. */
void exchange_welcome(struct exchange *e);
void exchange_begin_inner(struct exchange *e); /* when that has been sent */
/* The head came. Whether it may be passed on; else an answer was given. */
bool exchange_judge_inner(struct exchange *e);
