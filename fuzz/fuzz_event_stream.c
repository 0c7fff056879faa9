/* fuzz_event_stream.c - the same events, whole or byte by byte, each within its bounds */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/event_stream.h"

#include <string.h>

#include "base/strbuf.h"
#include "fuzz.h"

#define MAX_BYTES 4096

static bool on_event(void *ctx, const struct stream_event *event)
{
    struct strbuf *got = ctx;
    BUG_ON(event->len > MAX_BYTES || event->data[event->len] != '\0' || strchr(event->id, '\n'));
    strbuf_add_fmt(got, "%s %s %zu ", event->name, event->id, event->len);
    strbuf_add(got, event->data, event->len);
    return strcmp(event->name, "ended") != 0;
}

static int read_all(struct strbuf *got, const char *bytes, size_t size, size_t piece)
{
    struct error err;
    int status = 0;
    scoped(event_stream) struct event_stream *s = event_stream_new(MAX_BYTES, on_event, got);
    for (size_t i = 0; i < size && status == 0; i += piece)
        status = event_stream_add(s, bytes + i, MIN(piece, size - i), &err);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_strbuf struct strbuf whole, cut;
    strbuf_init(&whole, 64 * MIB);
    strbuf_init(&cut, 64 * MIB);
    int status = read_all(&whole, (const char *)data, size, size ? size : 1);
    BUG_ON(read_all(&cut, (const char *)data, size, 1) != status);
    BUG_ON(whole.len != cut.len || memcmp(strbuf_str(&whole), strbuf_str(&cut), whole.len) != 0);
    return 0;
}
