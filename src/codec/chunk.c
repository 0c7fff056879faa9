/* chunk.c - zstd for the chunks, a plain table for the list
 *
 * The list: "COVECHK1", then in little-endian the number of chunks (4 bytes), the bytes of the
 * stream (8), the time (8), the owner (64, filled up with NUL); 36 bytes for each chunk, its name
 * and its length; and the SHA-256 of all that. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/chunk.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/memory.h"

#define LEVEL      3
#define MAGIC      "COVECHK1"
#define MAGIC_LEN  8
#define OWNER_SIZE (CHUNK_OWNER_MAX_BYTES + 1)
#define HEAD_LEN   (MAGIC_LEN + 4 + 8 + 8 + OWNER_SIZE)
#define ENTRY_LEN  (SHA256_BYTES + 4)

/* --- chunks ---------------------------------------------------------------------------------- */

void chunk_name(const void *data, size_t len, uint8_t name[SHA256_BYTES])
{
    scoped(sha256) struct sha256 *hash = sha256_new();
    sha256_add(hash, data, len);
    sha256_end(hash, name);
}

void chunk_pack(const void *data, size_t len, struct strbuf *out)
{
    BUG_ON(len < 1 || len > CHUNK_BYTES || ZSTD_compressBound(len) > CHUNK_PACKED_MAX);
    size_t room = ZSTD_compressBound(len);
    scoped_free char *packed = xmalloc(room);
    size_t packed_len = ZSTD_compress(packed, room, data, len, LEVEL);
    BUG_ON(ZSTD_isError(packed_len)); /* there is room, so it is out of memory */
    strbuf_add(out, packed, packed_len);
    BUG_ON(out->overflow);
}

static int is_broken(struct error *err, const char *why)
{
    error_set(err, ERROR_INVALID, "a chunk is broken: %s", why);
    return error_word(err, "chunk_broken");
}

int chunk_unpack(const void *packed, size_t packed_len, const uint8_t name[SHA256_BYTES],
                 size_t len, struct strbuf *out, struct error *err)
{
    uint8_t found[SHA256_BYTES];
    BUG_ON(len < 1 || len > CHUNK_BYTES);
    if (ZSTD_getFrameContentSize(packed, packed_len) != len ||
        ZSTD_findFrameCompressedSize(packed, packed_len) != packed_len)
        return is_broken(err, "it is no frame of that length");
    scoped_free char *data = xmalloc(len);
    if (ZSTD_decompress(data, len, packed, packed_len) != len)
        return is_broken(err, "it cannot be unpacked");
    chunk_name(data, len, found);
    if (memcmp(found, name, sizeof(found)) != 0)
        return is_broken(err, "it has another content");
    strbuf_add(out, data, len);
    BUG_ON(out->overflow);
    return 0;
}

/* --- the list -------------------------------------------------------------------------------- */

void chunk_list_release(struct chunk_list *list)
{
    free(list->entries);
    *list = (struct chunk_list){0};
}

bool chunk_list_add(struct chunk_list *list, const uint8_t name[SHA256_BYTES], size_t len)
{
    if (list->count == CHUNK_LIST_MAX)
        return false;
    if ((list->count & (list->count - 1)) == 0) /* at each power of two */
        list->entries =
            xrealloc(list->entries, MAX((size_t)16, 2 * list->count) * sizeof(*list->entries));
    struct chunk_entry *entry = &list->entries[list->count++];
    memcpy(entry->name, name, sizeof(entry->name));
    entry->len = (uint32_t)len;
    list->bytes += len;
    return true;
}

bool chunk_list_has(const struct chunk_list *list, const uint8_t name[SHA256_BYTES])
{
    for (size_t i = 0; i < list->count; i++) {
        if (memcmp(list->entries[i].name, name, SHA256_BYTES) == 0)
            return true;
    }
    return false;
}

static void add_u32(struct strbuf *out, uint32_t value)
{
    value = htole32(value);
    strbuf_add(out, &value, sizeof(value));
}

static void add_u64(struct strbuf *out, uint64_t value)
{
    value = htole64(value);
    strbuf_add(out, &value, sizeof(value));
}

void chunk_list_write(const struct chunk_list *list, struct strbuf *out)
{
    uint8_t hash[SHA256_BYTES];
    size_t start = out->len;
    strbuf_add(out, MAGIC, MAGIC_LEN);
    add_u32(out, (uint32_t)list->count);
    add_u64(out, list->bytes);
    add_u64(out, (uint64_t)list->saved_ns);
    strbuf_add(out, list->owner, sizeof(list->owner));
    for (size_t i = 0; i < list->count; i++) {
        strbuf_add(out, list->entries[i].name, SHA256_BYTES);
        add_u32(out, list->entries[i].len);
    }
    chunk_name(out->data + start, out->len - start, hash);
    strbuf_add(out, hash, sizeof(hash));
    BUG_ON(out->overflow);
}

static uint32_t get_u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return le32toh(value);
}

static uint64_t get_u64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

/* Frame and hash; NULL: all is well. */
static const char *check_frame(const uint8_t *data, size_t len)
{
    uint8_t hash[SHA256_BYTES];
    if (len < HEAD_LEN + SHA256_BYTES || memcmp(data, MAGIC, MAGIC_LEN) != 0)
        return "it does not begin as one";
    uint64_t count = get_u32(data + MAGIC_LEN);
    if (count > CHUNK_LIST_MAX || len != HEAD_LEN + count * ENTRY_LEN + SHA256_BYTES)
        return "it has not as many entries as it says";
    chunk_name(data, len - SHA256_BYTES, hash);
    if (memcmp(hash, data + len - SHA256_BYTES, SHA256_BYTES) != 0)
        return "its hash is another";
    const uint8_t *owner = data + HEAD_LEN - OWNER_SIZE;
    return memchr(owner, 0, OWNER_SIZE) ? NULL : "its owner has no end";
}

static const char *read_entries(struct chunk_list *out, const uint8_t *data)
{
    uint32_t count = get_u32(data + MAGIC_LEN);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *entry = data + HEAD_LEN + (size_t)i * ENTRY_LEN;
        uint32_t len = get_u32(entry + SHA256_BYTES);
        if (len < 1 || len > CHUNK_BYTES)
            return "a chunk has a length that none has";
        chunk_list_add(out, entry, len);
    }
    return out->bytes == get_u64(data + MAGIC_LEN + 4) ? NULL : "its lengths do not add up";
}

int chunk_list_parse(struct chunk_list *out, const void *data, size_t len, struct error *err)
{
    const uint8_t *bytes = data;
    struct chunk_list list = {0};
    const char *why = check_frame(bytes, len);
    if (!why)
        why = read_entries(&list, bytes);
    if (why) {
        chunk_list_release(&list);
        error_set(err, ERROR_INVALID, "the list of chunks is broken: %s", why);
        return error_word(err, "chunk_list_broken");
    }
    list.saved_ns = (int64_t)get_u64(bytes + MAGIC_LEN + 12);
    memcpy(list.owner, bytes + HEAD_LEN - OWNER_SIZE, OWNER_SIZE);
    *out = list;
    return 0;
}
