/* fuzz_header_value.c - what passes has each name once, and text alone */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/header_value.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_free char *text = xstrndup((const char *)data, size);
    size_t len = strlen(text);
    struct header_value value;
    if (header_value_parse(&value, text))
        return 0;
    BUG_ON(value.count > HEADER_PARAMS_MAX || !*value.word || strpbrk(value.word, "; \t\""));
    for (size_t i = 0; i < value.count; i++) {
        const struct header_param *p = &value.params[i];
        BUG_ON(!header_is_token(p->name, strlen(p->name)) || strlen(p->value) > len);
        BUG_ON(strpbrk(p->value, "\r\n") || header_value_find(&value, p->name) != p->value);
    }
    return 0;
}
