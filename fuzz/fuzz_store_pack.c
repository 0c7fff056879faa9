/* fuzz_store_pack.c - what is taken for a record packs to what gives the same record again */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"
#include "store/store_field.h"

static struct strbuf pack(const struct store_type *type, const void *record)
{
    struct strbuf b;
    strbuf_init(&b, 16 * MIB);
    store_record_pack(&b, type, record);
    return b;
}

static void try_as(const struct store_type *type, const uint8_t *data, size_t size)
{
    void *record = store_record_unpack(type, data, size);
    if (!record)
        return;
    scoped_strbuf struct strbuf first = pack(type, record);
    void *again = store_record_unpack(type, first.data, first.len);
    BUG_ON(!again);
    scoped_strbuf struct strbuf second = pack(type, again);
    BUG_ON(first.len != second.len || memcmp(first.data, second.data, first.len) != 0);
    BUG_ON(store_record_is_marked(":session", first.data, first.len));
    store_record_free(type, record);
    store_record_free(type, again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool is_session = store_record_is_marked(":session", data, size);
    try_as(is_session ? &store_type_session : &store_type_execution, data, size);
    return 0;
}
