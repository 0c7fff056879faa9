/* terminal_news.c - one datagram, one piece of news */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/terminal_news.h"

#include <errno.h>
#include <string.h>

#include "wire/guest.h"
#include "wire/terminal.h"

void terminal_explain_start(struct error *err, int error)
{
    errno = error;
    error_sys(err, "start the terminal");
    switch (error) {
    case EBUSY:
        error_set(err, ERROR_LIMIT, "the session has %d terminals already", GUEST_TERMINALS_MAX);
        error_hint(err, "close one of them");
        break;
    case ENOENT:
        error_set(err, ERROR_UNAVAILABLE, "the image has no shell");
        break;
    case EAGAIN:
        error_set(err, ERROR_LIMIT,
                  "the terminal cannot be started: the session has as many "
                  "processes as it may");
        error_hint(err, "end some of what runs in it");
        break;
    default:
        break;
    }
}

static void end_with(struct terminal_news *out, const char *why)
{
    out->kind = TERMINAL_NEWS_END;
    error_set(&out->end.error, ERROR_UNAVAILABLE, "%s", why);
}

void terminal_news_read(struct terminal_news *out, const void *data, size_t len)
{
    struct terminal_frame frame;
    *out = (struct terminal_news){.kind = TERMINAL_NEWS_END};
    if (len < sizeof(frame)) {
        end_with(out, "the terminal was killed");
        return;
    }
    memcpy(&frame, data, sizeof(frame));
    switch (frame.type) {
    case TERMINAL_STARTED:
        out->kind = TERMINAL_NEWS_START;
        break;
    case TERMINAL_BYTES:
        out->kind = TERMINAL_NEWS_OUTPUT;
        out->bytes = (const char *)data + sizeof(frame);
        out->len = len - sizeof(frame);
        break;
    case TERMINAL_EXITED:
        out->end.exit_code = frame.exit_code & 0xff;
        out->end.signal = frame.signal & 0x7f;
        break;
    case TERMINAL_FAILED:
        terminal_explain_start(&out->end.error, frame.error);
        break;
    case TERMINAL_SIZE: /* ours to say */
        end_with(out, "the terminal spoke nonsense");
        break;
    default: /* no keeper of ours says that */
        end_with(out, "the terminal was killed");
        break;
    }
}
