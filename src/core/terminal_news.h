/* terminal_news.h - what the keeper of a terminal says, taken apart
 *
 * It comes from inside a sandbox, so it is content: whatever the bytes are, one of these follows,
 * and nonsense is the end. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "core/terminal.h"

struct terminal_news {
    enum terminal_news_kind {
        TERMINAL_NEWS_START,
        TERMINAL_NEWS_OUTPUT, /* of `bytes`, which are the datagram's */
        TERMINAL_NEWS_END,
    } kind;
    const char *bytes;
    size_t len;
    struct terminal_end end;
};

/* Why it could not be started, by an errno from inside. */
void terminal_explain_start(struct error *err, int error);

/* One datagram of struct terminal_frame; len 0: the channel has ended. */
void terminal_news_read(struct terminal_news *out, const void *data, size_t len);
