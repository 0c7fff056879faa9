/* mcp_log.h - what a private server logs, in a file that does not grow for ever
 *
 * Several servers write to one file: whole lines, so that they do not mix, and the file is set
 * aside by one of them when it is full. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"
#include "base/strbuf.h"

struct mcp_log {
    char *path;         /* owned */
    int fd;             /* -1: there is no file */
    int in_fd;          /* what the server writes to; owned. -1: it has ended */
    struct strbuf tail; /* the last of it, for people when the server did not start */
    struct log_loss loss;
    bool is_torn; /* the file ends within a line */
};

/* `path` NULL: the usual place, and when it cannot be written there, nowhere. `in_fd` is taken.
 * Lines that find no room there are counted, and told of afterwards. */
MUST_CHECK int mcp_log_open(struct mcp_log *log, const char *path, int in_fd, struct error *err);
void mcp_log_close(struct mcp_log *log);

void mcp_log_take(struct mcp_log *log);  /* one read of what is there */
void mcp_log_drain(struct mcp_log *log); /* all that is there, without waiting */

/* What the server said last: its words for what is wrong. */
void mcp_log_explain(const struct mcp_log *log, struct error *err);
