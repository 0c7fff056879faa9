/* fuzz_parse.c - a value that is read can be written, and is then read as the same */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include "base/macros.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

static const struct {
    bool (*parse)(const char *text, uint64_t *out);
    void (*format)(uint64_t value, char out[FORMAT_BYTES]);
} kinds[] = {
    {parse_u64, format_u64},
    {parse_size, format_size},
    {parse_milli, format_milli},
    {parse_duration_ms, format_duration_ms},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_free char *text = xstrndup((const char *)data, size);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        uint64_t value, again;
        char back[FORMAT_BYTES];
        if (!kinds[i].parse(text, &value))
            continue;
        kinds[i].format(value, back);
        BUG_ON(!kinds[i].parse(back, &again));
        BUG_ON(again != value);
    }
    bool boolean;
    uint8_t bytes[8];
    parse_bool(text, &boolean);
    parse_hex(text, bytes, sizeof(bytes));
    return 0;
}
