/* fuzz_chunk.c - a list that passes is written back as it was, and a chunk that passes is right */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/chunk.h"

#include <string.h>

#include "fuzz.h"

#define FRAME_AT (SHA256_BYTES + 3) /* a name, a length of three bytes, then the frame */

static void try_list(const uint8_t *data, size_t size)
{
    scoped_chunk_list struct chunk_list list = {0};
    scoped_strbuf struct strbuf back;
    struct error err;
    strbuf_init(&back, CHUNK_LIST_MAX_BYTES);
    if (chunk_list_parse(&list, data, size, &err) < 0) {
        BUG_ON(list.count || list.entries || !err.msg[0]);
        return;
    }
    BUG_ON(strnlen(list.owner, sizeof(list.owner)) == sizeof(list.owner));
    chunk_list_write(&list, &back);
    BUG_ON(back.len != size);
}

static void try_chunk(const uint8_t *data, size_t size)
{
    scoped_strbuf struct strbuf out;
    uint8_t name[SHA256_BYTES];
    struct error err;
    strbuf_init(&out, CHUNK_BYTES);
    if (size < FRAME_AT)
        return;
    size_t len = ((size_t)data[SHA256_BYTES] | (size_t)data[SHA256_BYTES + 1] << 8 |
                  (size_t)data[SHA256_BYTES + 2] << 16) %
                     CHUNK_BYTES +
                 1;
    if (chunk_unpack(data + FRAME_AT, size - FRAME_AT, data, len, &out, &err) < 0) {
        BUG_ON(out.len > 0);
        return;
    }
    chunk_name(out.data, out.len, name);
    BUG_ON(out.len != len || memcmp(name, data, sizeof(name)) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_list(data, size);
    try_chunk(data, size);
    return 0;
}
