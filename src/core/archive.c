/* archive.c - the registry of what is on its way, and how much of it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/archive.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/parse.h"
#include "core/archive_inside.h"
#include "core/mime.h"

#define HELD_MAX_BYTES (64 * MIB) /* contents that wait for a place, of all executions */

uint64_t archive_room(const struct archive *a)
{
    bool is_full = a->held_bytes > HELD_MAX_BYTES - HAUL_MAX_BYTES;
    return is_full ? 0 : MIN(a->order.execution_bytes, a->order.disk_bytes);
}

void archive_key(const char *execution, const struct haul_item *item, char out[ARCHIVE_KEY_BYTES])
{
    char hex[SHA256_HEX_BYTES];
    format_hex(item->sha256, SHA256_BYTES, hex);
    snprintf(out, ARCHIVE_KEY_BYTES, ARCHIVE_PREFIX "%s/%s", execution, hex);
}

struct store_artifact archive_row(const char *execution, const struct haul_item *item,
                                  const char *place)
{
    return (struct store_artifact){
        .execution_id = execution,
        .path = item->path,
        .mime = mime_of(item->path),
        .place = place,
        .size = item->size,
        .mode = item->mode,
        .modified_ns = item->mtime_ns,
        .sha256 = {item->has_hash ? item->sha256 : NULL, item->has_hash ? SHA256_BYTES : 0},
    };
}

/* One that is still to be read has no hash, so it has no place yet. */
void archive_rows_init(struct archive_rows *rows, const char *execution, const struct haul *haul)
{
    *rows = (struct archive_rows){0};
    if (haul->count == 0)
        return;
    struct store_artifact *items = xcalloc(haul->count, sizeof(*items));
    rows->places = xcalloc(haul->count, ARCHIVE_KEY_BYTES);
    for (size_t i = 0; i < haul->count; i++) {
        const struct haul_item *item = &haul->items[i];
        char *place = rows->places + i * ARCHIVE_KEY_BYTES;
        archive_key(execution, item, place);
        items[i] = archive_row(execution, item, item->is_wanted && item->is_whole ? place : NULL);
    }
    rows->list = (struct store_list){items, haul->count};
}

void archive_rows_release(struct archive_rows *rows)
{
    free((void *)rows->list.items);
    free(rows->places);
    *rows = (struct archive_rows){0};
}

void archive_keep(struct archive *a, const char *execution, const char *session, struct haul *haul)
{
    if (haul->count == 0)
        return;
    struct load *l = xcalloc(1, sizeof(*l));
    l->archive = a;
    snprintf(l->id, sizeof(l->id), "%s", execution);
    snprintf(l->session, sizeof(l->session), "%s", session ? session : "");
    l->haul = *haul;
    *haul = (struct haul){0};
    map_add(&a->loads, &l->by_id, l->id);
    a->held_bytes += l->haul.bytes;
    for (size_t i = 0; i < l->haul.count; i++) {
        if (l->haul.items[i].is_wanted)
            a->kept_bytes += l->haul.items[i].size;
    }
    load_begin(l);
}

void archive_set_source(struct archive *a, const struct archive_source *source, void *ctx)
{
    a->source = source;
    a->source_ctx = ctx;
}

struct archive *archive_new(const struct archive_order *order)
{
    struct archive *a = xcalloc(1, sizeof(*a));
    a->order = *order;
    archive_sweep_start(a);
    return a;
}

void archive_free(struct archive *a)
{
    struct error over;
    if (!a)
        return;
    error_set(&over, ERROR_UNAVAILABLE, "the server stops");
    MAP_EACH(&a->loads, node)
    {
        struct load *l = MAP_OF(node, struct load, by_id);
        struct finding *next;
        for (struct finding *f = l->waiting; f; f = next) {
            next = finding_next(f);
            finding_fail(f, &over);
        }
        load_free(l);
    }
    map_release(&a->loads);
    archive_sweep_release(a);
    free(a);
}
