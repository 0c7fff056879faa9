/* fuzz_sigv4.c - what does not change the meaning of a request does not change its signature
 *
 * The input is lines: a path, then "name=value" of the query or "name:value" of headers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/sigv4.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

#define PAIRS_MAX 16
#define OUT_BYTES (256 * KIB)

struct pairs {
    struct sigv4_pair items[PAIRS_MAX];
    size_t count;
};

static void add_pair(struct pairs *pairs, char *line, char mark)
{
    char *at = strchr(line, mark);
    if (pairs->count == PAIRS_MAX)
        return;
    *at = '\0';
    pairs->items[pairs->count++] = (struct sigv4_pair){line, at + 1};
}

static void reverse(struct pairs *pairs)
{
    for (size_t i = 0; i < pairs->count / 2; i++) {
        struct sigv4_pair kept = pairs->items[i];
        pairs->items[i] = pairs->items[pairs->count - 1 - i];
        pairs->items[pairs->count - 1 - i] = kept;
    }
}

static void check_encoded(const struct strbuf *text, const char *also)
{
    for (size_t i = 0; i < text->len; i++) {
        unsigned char c = (unsigned char)text->data[i];
        BUG_ON(!(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z') &&
               !strchr("-._~%", c) && !strchr(also, c));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sigv4_keys keys = {
        .access_key = "a", .secret_key = "b", .region = "c", .service = "s3"};
    scoped_free char *text = xstrndup((const char *)data, size);
    scoped_strbuf struct strbuf path, one, two, query;
    struct pairs in_query = {0}, in_headers = {0};
    char date[SIGV4_DATE_BYTES], *save = NULL;
    strbuf_init(&path, OUT_BYTES);
    strbuf_init(&query, OUT_BYTES);
    strbuf_init(&one, OUT_BYTES);
    strbuf_init(&two, OUT_BYTES);
    char *first = strtok_r(text, "\n", &save);
    sigv4_add_path(&path, first ? first : "/");
    for (char *line; (line = strtok_r(NULL, "\n", &save));) {
        if (strchr(line, '='))
            add_pair(&in_query, line, '=');
        else if (strchr(line, ':'))
            add_pair(&in_headers, line, ':');
    }
    struct sigv4_request request = {.method = "GET",
                                    .host = "h",
                                    .path = strbuf_str(&path),
                                    .query = in_query.items,
                                    .query_count = in_query.count,
                                    .headers = in_headers.items,
                                    .header_count = in_headers.count,
                                    .payload_hash = SIGV4_UNSIGNED,
                                    .time_s = (int64_t)size * 86399};
    check_encoded(&path, "/");
    sigv4_add_query(&query, in_query.items, in_query.count);
    check_encoded(&query, "=&");
    bool is_signed = sigv4_sign(&keys, &request, date, &one);
    reverse(&in_query);
    reverse(&in_headers);
    BUG_ON(sigv4_sign(&keys, &request, date, &two) != is_signed);
    BUG_ON(is_signed && strcmp(strbuf_str(&one), strbuf_str(&two)) != 0);
    strbuf_clear(&one);
    if (in_headers.count == 0 && sigv4_presign(&keys, &request, 60, &one))
        check_encoded(&one, "=&");
    return 0;
}
