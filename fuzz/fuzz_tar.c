/* fuzz_tar.c - an archive means the same however it is cut, and gives no more than it announced
 *
 * The first byte says how it is cut. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "init/tar.h"

#include <string.h>

#include "base/macros.h"
#include "fuzz.h"

struct record {
    uint64_t hash, left;
    size_t entries;
    enum tar_step last;
};

static void mix(struct record *r, const void *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        r->hash = (r->hash ^ ((const uint8_t *)data)[i]) * 1099511628211u;
}

static void take_entry(struct record *r, const struct tar_entry *e)
{
    BUG_ON(r->left > 0); /* the one before it is whole */
    BUG_ON(strnlen(e->path, TAR_PATH_MAX) == TAR_PATH_MAX ||
           strnlen(e->target, TAR_PATH_MAX) == TAR_PATH_MAX);
    mix(r, e->path, strlen(e->path));
    mix(r, e->target, strlen(e->target));
    mix(r, &e->kind, sizeof(e->kind));
    mix(r, &e->size, sizeof(e->size));
    r->left = e->size;
    r->entries++;
}

/* One piece; false: nothing more is wanted. */
static bool feed(struct tar_reader *reader, struct record *r, const char *bytes, size_t count)
{
    for (size_t at = 0; at < count;) {
        const char *data = NULL;
        size_t used = 0, len = 0;
        r->last = tar_read(reader, bytes + at, count - at, &used, &data, &len);
        BUG_ON(used > count - at || (used == 0 && r->last == TAR_MORE));
        if (r->last == TAR_ENTRY)
            take_entry(r, &reader->entry);
        if (r->last == TAR_CONTENT) {
            BUG_ON(data < bytes + at || data + len > bytes + at + used || len == 0 ||
                   len > r->left);
            mix(r, data, len);
            r->left -= len;
        }
        if (r->last == TAR_BAD || r->last == TAR_END)
            return false;
        at += used;
    }
    return true;
}

static struct record read_all(struct tar_reader *reader, const char *bytes, size_t size,
                              size_t chunk)
{
    struct record r = {0};
    memset(reader, 0, sizeof(*reader));
    for (size_t at = 0; at < size; at += chunk) {
        if (!feed(reader, &r, bytes + at, MIN(chunk, size - at)))
            break;
    }
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tar_reader one, other;
    if (size == 0)
        return 0;
    const char *bytes = (const char *)data + 1;
    struct record whole = read_all(&one, bytes, size - 1, size);
    struct record cut = read_all(&other, bytes, size - 1, 1 + (size_t)data[0] * 3);
    bool is_over = whole.last == TAR_BAD || whole.last == TAR_END;
    BUG_ON(whole.hash != cut.hash || whole.entries != cut.entries || whole.left != cut.left);
    BUG_ON(is_over != (cut.last == TAR_BAD || cut.last == TAR_END));
    BUG_ON(!is_over && tar_is_complete(&one) != tar_is_complete(&other));
    return 0;
}
