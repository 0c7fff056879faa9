/* fuzz_utf8.c - cleaned bytes are valid, valid bytes are left alone */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

#include "base/strbuf.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_strbuf struct strbuf clean;
    strbuf_init(&clean, 3 * size + 1);
    utf8_add_clean(&clean, data, size);
    BUG_ON(clean.overflow);
    BUG_ON(!utf8_is_valid(strbuf_str(&clean), clean.len));
    bool is_same = clean.len == size && (size == 0 || memcmp(clean.data, data, size) == 0);
    BUG_ON(utf8_is_valid(data, size) != is_same);
    return 0;
}
