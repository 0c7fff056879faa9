/* names.h - addresses of names, remembered for a while and asked for once
 *
 * Whoever waits is told within the deadline. What came of a name is used by all who ask for it
 * until it is forgotten, so what is checked is what is connected to. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "event/loop.h"

#define NAMES_ADDRESSES_MAX 8

union names_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct names;

struct names *names_new(struct loop *loop);
void names_free(struct names *names); /* nobody waits any more */

/* `count` is 0 with words in `why` when there are none. Borrowed for the call. */
typedef void (*names_fn)(void *ctx, const union names_address *list, size_t count, const char *why);

/* One who waits; owned by the caller, who may not move it. */
struct names_waiter {
    struct names_entry *entry; /* NULL: waits for nothing */
    struct names_waiter *next;
    names_fn fn;
    void *ctx;
};

/* `fn` is called once, now or later. */
void names_ask(struct names *names, const char *name, struct names_waiter *waiter, names_fn fn,
               void *ctx);
void names_leave(struct names_waiter *waiter); /* does not wait any more; not waiting is fine */
