/* fuzz_s3_answer.c - whatever a storage answers is read within bounds, or not at all */
/* SPDX-License-Identifier: Apache-2.0 */
#include "blob/s3_answer.h"

#include <string.h>

#include "base/memory.h"
#include "fuzz.h"

static void check_text(const char *text, size_t size)
{
    BUG_ON(strnlen(text, size) == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_s3_answer struct s3_answer answer;
    bool is_whole = s3_answer_parse(&answer, (const char *)data, size);
    check_text(answer.root, sizeof(answer.root));
    check_text(answer.upload_id, sizeof(answer.upload_id));
    check_text(answer.etag, sizeof(answer.etag));
    check_text(answer.region, sizeof(answer.region));
    for (const char *c = answer.code; *c; c++) /* goes into messages of ours */
        BUG_ON((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e);
    BUG_ON(answer.count > S3_ITEMS_MAX || (is_whole && !answer.root[0]));
    for (size_t i = 0; i < answer.count; i++) {
        BUG_ON(!answer.items[i].key || !answer.items[i].etag);
        check_text(answer.items[i].key, S3_TEXT_BYTES);
        check_text(answer.items[i].etag, S3_TEXT_BYTES);
    }
    return 0;
}
