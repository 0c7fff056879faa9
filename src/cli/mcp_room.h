/* mcp_room.h - the folder of a private server: made for it, and gone with it
 *
 * It is locked as long as anybody holds its fd, which the server inherits; what nobody holds any
 * more was left by one that was killed, and is removed by who comes next. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"

struct mcp_room {
    char *path; /* absolute; owned */
    int fd;     /* its lock */
    int all_fd; /* the folder of all of them */
};

/* A new one below `data_dir`, which is made when it is missing; what others left is removed. */
MUST_CHECK int mcp_room_open(struct mcp_room *room, const char *data_dir, struct error *err);

/* Removes it with all that is in it. Nobody must be at work there any more. */
MUST_CHECK int mcp_room_close(struct mcp_room *room, struct error *err);
