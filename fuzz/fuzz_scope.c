/* fuzz_scope.c - a text that is a set of scopes survives as one */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/scope.h"

#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_free char *text = xstrndup((const char *)data, size);
    char back[SCOPE_TEXT_BYTES];
    unsigned scopes = 0, again = 0;
    if (!scope_parse(text, &scopes))
        return 0;
    BUG_ON(scopes >> SCOPE_COUNT);
    scope_format(scopes, back);
    BUG_ON(!scope_parse(back, &again) || again != scopes);
    return 0;
}
