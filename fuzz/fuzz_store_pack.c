/* fuzz_store_pack.c - what is taken for a record packs to what gives the same record again */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"
#include "store/store_field.h"

static struct strbuf pack(const void *record)
{
    struct strbuf b;
    strbuf_init(&b, 16 * MIB);
    store_record_pack(&b, &store_type_execution, record);
    return b;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *record = store_record_unpack(&store_type_execution, data, size);
    if (!record)
        return 0;
    scoped_strbuf struct strbuf first = pack(record);
    void *again = store_record_unpack(&store_type_execution, first.data, first.len);
    BUG_ON(!again);
    scoped_strbuf struct strbuf second = pack(again);
    BUG_ON(first.len != second.len || memcmp(first.data, second.data, first.len) != 0);
    store_record_free(&store_type_execution, record);
    store_record_free(&store_type_execution, again);
    return 0;
}
