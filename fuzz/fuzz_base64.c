/* fuzz_base64.c - bytes survive both ways, and each value has one text */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/base64.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "fuzz.h"

static void check_text(const char *text, size_t len)
{
    scoped_free uint8_t *bytes = xmalloc(BASE64_DECODED_MAX_LEN(len) + 1);
    size_t got;
    if (!base64_decode(text, len, bytes, &got))
        return;
    BUG_ON(got > BASE64_DECODED_MAX_LEN(len));
    scoped_strbuf struct strbuf back;
    strbuf_init(&back, len + 1);
    base64_add(&back, bytes, got);
    BUG_ON(back.overflow || back.len != len || memcmp(strbuf_str(&back), text, len) != 0);
}

static void check_bytes(const uint8_t *data, size_t size)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, BASE64_ENCODED_LEN(size) + 1);
    base64_add(&text, data, size);
    BUG_ON(text.len != BASE64_ENCODED_LEN(size));
    scoped_free uint8_t *back = xmalloc(BASE64_DECODED_MAX_LEN(text.len) + 1);
    size_t got;
    BUG_ON(!base64_decode(strbuf_str(&text), text.len, back, &got));
    BUG_ON(got != size || (size > 0 && memcmp(back, data, size) != 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_text((const char *)data, size);
    check_bytes(data, size);
    return 0;
}
