/* fuzz_response.c - answers of hosts: pieces make no difference, nothing grows without end, and no
 * secret is left */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/response.h"

#include <string.h>

#include "fuzz.h"

static const struct secret secrets[] = {{.text = {.len = 12, .value = "abcabcabcXYZ"}},
                                        {.text = {.len = 10, .value = "cXYZ-12345"}},
                                        {.text = {.len = 8, .value = "abcabcab"}}};
static const struct secrets_view view = {.items = {&secrets[0], &secrets[1], &secrets[2]},
                                         .count = 3};

static bool feed(const uint8_t *data, size_t size, size_t step, struct strbuf *out)
{
    struct response r;
    bool is_good = true;
    response_init(&r, &view);
    for (size_t at = 0; at < size && is_good; at += step)
        is_good = response_feed(&r, (const char *)data + at, MIN(step, size - at), out);
    response_end(&r, out);
    response_release(&r);
    return is_good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_strbuf struct strbuf whole, pieces;
    if (size > RESPONSE_HEAD_MAX_BYTES)
        return 0;
    strbuf_init(&whole, 2 * RESPONSE_HEAD_MAX_BYTES);
    strbuf_init(&pieces, 2 * RESPONSE_HEAD_MAX_BYTES);
    bool is_good = feed(data, size, MAX(size, (size_t)1), &whole);
    BUG_ON(whole.len > size + 32);
    BUG_ON(feed(data, size, 3, &pieces) != is_good);
    BUG_ON(is_good && (whole.len != pieces.len ||
                       memcmp(strbuf_str(&whole), strbuf_str(&pieces), whole.len) != 0));
    for (size_t i = 0; is_good && i < ARRAY_LEN(secrets); i++)
        BUG_ON(memmem(strbuf_str(&whole), whole.len, secrets[i].text.value, secrets[i].text.len));
    return 0;
}
