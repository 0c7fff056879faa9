/* fuzz_terminal_news.c - whatever a keeper says is one of three things, within its bounds */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/terminal_news.h"

#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    struct terminal_news news;
    terminal_news_read(&news, data, size);
    switch (news.kind) {
    case TERMINAL_NEWS_START:
        BUG_ON(news.len || news.bytes);
        break;
    case TERMINAL_NEWS_OUTPUT:
        BUG_ON(news.bytes < bytes || news.bytes + news.len != bytes + size);
        break;
    case TERMINAL_NEWS_END:
        BUG_ON(news.len || (unsigned)news.end.exit_code > 255 || (unsigned)news.end.signal > 127);
        BUG_ON(size == 0 && !news.end.error.msg[0]);
        BUG_ON(strlen(news.end.error.msg) >= sizeof(news.end.error.msg));
        break;
    }
    return 0;
}
