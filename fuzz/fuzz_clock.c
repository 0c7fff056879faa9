/* fuzz_clock.c - a time as text: what is taken is written the same way */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t ns;
    char again[CLOCK_TEXT_BYTES];
    scoped_free char *text = xstrndup((const char *)data, size);
    if (!clock_parse(text, &ns))
        return 0;
    clock_format(ns, again);
    BUG_ON(strcmp(again, text) != 0);
    return 0;
}
