/* reading.h - bytes of a file for a model: as an execution left it, or as it is in a session now
 *
 * Also what an execution printed. Collected up to a bound, and answered as what they are: text, a
 * picture, or bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/mcp/toolbox.h"

#define READING_TEXT_BYTES  (64 * 1024) /* told at once, unless less is asked for */
#define READING_TEXT_MAX    (1024 * 1024)
#define READING_WHOLE_BYTES (3 * 1024 * 1024) /* of a picture or a resource, told whole or not */

/* Borrowed for the call. */
struct reading_order {
    const char *execution; /* one of these */
    const char *session;
    const char *path; /* NULL: `stream` */
    const char *stream;
    uint64_t offset, limit; /* limit 0: the usual */
    const char *uri;        /* answers resources/read; NULL: a tool */
};

/* Answers the call. */
void reading_begin(struct mcp_call *call, const struct reading_order *order);
