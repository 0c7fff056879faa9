/* fuzz_url.c - a path that passes has one reading, and decoding never reads or writes beyond */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/url.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/utf8.h"
#include "fuzz.h"

static void check_text(const char *text, size_t max)
{
    BUG_ON(strlen(text) > max || !utf8_is_valid(text, strlen(text)));
    for (const char *c = text; *c; c++)
        BUG_ON((unsigned char)*c < 0x20 || *c == 0x7f);
}

static void check_path(const char *path)
{
    BUG_ON(path[0] != '/' || strstr(path, "//") || strstr(path, "/./") || strstr(path, "/../"));
    size_t len = strlen(path);
    BUG_ON(len >= 2 && strcmp(path + len - 2, "/.") == 0);
    BUG_ON(len >= 3 && strcmp(path + len - 3, "/..") == 0);
}

static size_t count_of(const char *text, size_t len, char c)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += text[i] == c;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_free char *target = xstrndup((const char *)data, size); /* up to the first NUL */
    scoped_free char *sent = xstrdup(target);
    size_t len = strlen(target);
    scoped_free char *raw = xmalloc(len + 1);
    struct url url;
    if (url_parse(&url, target, raw))
        return 0;
    check_text(url.path, len);
    check_path(url.path);
    size_t path_len = strcspn(sent, "?");
    BUG_ON(count_of(sent, path_len, '/') != count_of(url.path, strlen(url.path), '/'));
    BUG_ON(strcmp(url.query, sent[path_len] ? sent + path_len + 1 : "") != 0);
    BUG_ON(url.pair_count > URL_QUERY_MAX);
    for (size_t i = 0; i < url.pair_count; i++) {
        check_text(url.pairs[i].key, len);
        check_text(url.pairs[i].value, len);
        BUG_ON(!url.pairs[i].key[0] || !url_find(&url, url.pairs[i].key));
    }
    return 0;
}
