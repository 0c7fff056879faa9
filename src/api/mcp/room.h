/* room.h - the session that a tool is called with: found, or made when its name is new
 *
 * Several calls may name the same new session at once: one makes it, the others wait for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/mcp/toolbox.h"

/* Borrowed until `fn` has come. */
struct room_wish {
    const char *session;
    const char *language;                     /* of a new one; NULL: python */
    const struct param_strings *requirements; /* that it must have from its beginning; NULL: any */
};

/* `fn` once, maybe from inside: NULL when the session is there. */
typedef void (*room_fn)(void *ctx, const struct error *err);
void room_enter(struct mcp_call *call, const struct room_wish *wish, room_fn fn, void *ctx);
