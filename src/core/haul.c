/* haul.c - contents in the order in which they come, then the list that they belong to */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/haul.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static void release_item(struct haul_item *item)
{
    free(item->path);
    strbuf_release(&item->content);
}

void haul_release(struct haul *haul)
{
    for (size_t i = 0; i < haul->count; i++)
        release_item(&haul->items[i]);
    free(haul->items);
    *haul = (struct haul){0};
}

static struct haul_item *add_item(struct haul *haul, const struct artifact *a)
{
    if ((haul->count & (haul->count + 1)) == 0) /* grows at 0, 1, 3, 7, ... */
        haul->items = xrealloc(haul->items, (2 * haul->count + 2) * sizeof(*haul->items));
    struct haul_item *item = &haul->items[haul->count++];
    *item = (struct haul_item){.path = xstrdup(a->path)};
    return item;
}

static void describe(struct haul_item *item, const struct artifact *a)
{
    item->size = a->size;
    item->mode = a->mode;
    item->mtime_ns = a->mtime_ns;
    item->is_left = a->is_left;
    item->has_hash = a->has_content;
    memcpy(item->sha256, a->sha256, SHA256_BYTES);
}

void haul_begin(struct haul *haul, const struct artifact *a)
{
    struct haul_item *item = add_item(haul, a);
    /* One more, since a buffer has to have room for something. */
    strbuf_init(&item->content, MIN(HAUL_FILE_MAX_BYTES, HAUL_MAX_BYTES - haul->bytes) + 1);
}

void haul_add(struct haul *haul, const void *data, size_t len)
{
    strbuf_add(&haul->items[haul->count - 1].content, data, len);
}

void haul_end(struct haul *haul, const struct artifact *a)
{
    struct haul_item *item = &haul->items[haul->count - 1];
    struct strbuf *content = &item->content;
    describe(item, a);
    item->is_whole = !content->overflow && content->len == a->size && content->len < content->max;
    if (!item->is_whole)
        strbuf_release(content);
    haul->bytes += content->len;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct haul_item *)a)->path, ((const struct haul_item *)b)->path);
}

static void add_rest(struct haul *haul, const struct artifact_list *all)
{
    size_t known = haul->count;
    for (size_t i = 0, at = 0; i < all->count; i++) {
        const struct artifact *a = &all->items[i];
        if (at < known && strcmp(haul->items[at].path, a->path) == 0)
            at++; /* both have the order in which they were asked for */
        else
            describe(add_item(haul, a), a);
    }
}

/* One that began and did not end, since the stream broke off, says nothing true of itself. */
static void drop_broken(struct haul *haul, const struct artifact_list *all)
{
    size_t kept = 0;
    for (size_t i = 0, at = 0; i < haul->count; i++) {
        while (at < all->count && strcmp(all->items[at].path, haul->items[i].path) != 0)
            at++;
        if (at < all->count && all->items[at].has_content)
            haul->items[kept++] = haul->items[i];
        else
            release_item(&haul->items[i]);
    }
    haul->count = kept;
}

void haul_complete(struct haul *haul, const struct artifact_list *all, uint64_t max_bytes)
{
    drop_broken(haul, all);
    add_rest(haul, all);
    if (haul->count > 0)
        qsort(haul->items, haul->count, sizeof(*haul->items), compare);
    for (size_t i = 0; i < haul->count; i++) {
        struct haul_item *item = &haul->items[i];
        item->is_wanted = (item->is_whole || item->is_left) && item->size <= max_bytes;
        if (item->is_wanted)
            max_bytes -= item->size;
    }
}

bool haul_awaits(const struct haul *haul, const char *path)
{
    for (size_t i = 0; i < haul->count; i++) {
        if (strcmp(haul->items[i].path, path) == 0)
            return haul->items[i].is_wanted && !haul->items[i].is_settled;
    }
    return false;
}

bool haul_has_left(const struct haul *haul)
{
    for (size_t i = 0; i < haul->count; i++) {
        if (haul->items[i].is_wanted && haul->items[i].is_left)
            return true;
    }
    return false;
}
