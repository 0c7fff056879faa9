/* fuzz_range.c - a range is always within the file; tags and lists of them end where they end
 *
 * Eight bytes are the file's size, what follows is the header. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/range.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "codec/etag.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t file_size = 0;
    size_t skip = MIN(size, sizeof(file_size));
    if (skip > 0)
        memcpy(&file_size, data, skip);
    scoped_free char *header = xstrndup((const char *)data + skip, size - skip);
    struct range got = range_of(header, file_size);
    BUG_ON(got.kind == RANGE_PART && (got.length == 0 || got.first >= file_size));
    BUG_ON(got.kind == RANGE_PART && got.length > file_size - got.first);
    BUG_ON(got.kind != RANGE_PART && (got.first != 0 || got.length != 0));
    char text[RANGE_TEXT_BYTES];
    range_format(got, file_size, text);
    /* What Content-Range says is what Range would say for the same bytes. */
    if (got.kind == RANGE_PART) {
        char again[RANGE_TEXT_BYTES] = "bytes=";
        const char *slash = strchr(text, '/');
        memcpy(again + 6, text + 6, (size_t)(slash - text - 6));
        struct range back = range_of(again, file_size);
        BUG_ON(back.first != got.first || back.length != got.length);
    }
    BUG_ON(range_counts(header, "\"tag\"", NULL) != (strcmp(header, "\"tag\"") == 0));
    BUG_ON(etag_is_listed(header, "\"tag\"") && !strstr(header, "\"tag\"") && !strchr(header, '*'));
    return 0;
}
