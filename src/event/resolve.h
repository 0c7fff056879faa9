/* resolve.h - the addresses of a name, asked for on the loop's pool of threads
 *
 * getaddrinfo() takes as long as it likes and cannot be called off: who does not want to wait any
 * longer drops the question, and its thread comes back when it comes back. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netdb.h>

#include "event/loop.h"

struct resolve;

/* `list` is borrowed for the call; NULL with *why: there are none. */
typedef void (*resolve_fn)(void *ctx, const struct addrinfo *list, const char *why);

/* TCP addresses, without a port. `fn` is called once, later. NULL: it cannot be asked for now. */
struct resolve *resolve_begin(struct loop *loop, const char *name, resolve_fn fn, void *ctx);
void resolve_drop(struct resolve *resolve); /* fn is not called any more; NULL is fine */
