/* arenas.c - an allocator of arenas, for the time in which a zygote imports */
/* SPDX-License-Identifier: Apache-2.0 */
#include "arenas.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "large_page.h"

#define ARENAS_BYTES (256 * MIB)
#define FREED_MAX    64

/* As in CPython from 3.4 on; not of the stable ABI, so it is looked for by name. */
struct arena_allocator {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size);
    void (*free)(void *ctx, void *at, size_t size);
};
typedef void arena_allocator_fn(struct arena_allocator *);

static struct {
    struct arena_allocator usual;
    arena_allocator_fn *set;
    char *first, *next, *end;
    struct {
        char *at;
        size_t size;
    } freed[FREED_MAX]; /* to be used again */
    size_t freed_count;
} arenas;

static void *arena_alloc(void *ctx, size_t size)
{
    (void)ctx;
    for (size_t i = arenas.freed_count; i-- > 0;) {
        if (arenas.freed[i].size == size) {
            char *at = arenas.freed[i].at;
            arenas.freed[i] = arenas.freed[--arenas.freed_count];
            return at;
        }
    }
    if (size > (size_t)(arenas.end - arenas.next))
        return arenas.usual.alloc(arenas.usual.ctx, size);
    char *at = arenas.next;
    arenas.next += size;
    return at;
}

/* The usual way to free one is munmap(), which is good for ours, too. */
static void arena_free(void *ctx, void *at, size_t size)
{
    (void)ctx;
    bool is_ours = (char *)at >= arenas.first && (char *)at < arenas.end;
    if (is_ours && arenas.freed_count < FREED_MAX) {
        arenas.freed[arenas.freed_count].at = at;
        arenas.freed[arenas.freed_count++].size = size;
    } else {
        arenas.usual.free(arenas.usual.ctx, at, size);
    }
}

void arenas_begin(void)
{
    arena_allocator_fn *get =
        (arena_allocator_fn *)dlsym(RTLD_DEFAULT, "PyObject_GetArenaAllocator");
    arenas.set = (arena_allocator_fn *)dlsym(RTLD_DEFAULT, "PyObject_SetArenaAllocator");
    char *room = get && arenas.set ? large_page_map(ARENAS_BYTES) : NULL;
    if (!room)
        return;
    arenas.first = arenas.next = room;
    arenas.end = room + ARENAS_BYTES;
    get(&arenas.usual);
    struct arena_allocator ours = {.alloc = arena_alloc, .free = arena_free};
    arenas.set(&ours);
}

void arenas_end(void)
{
    if (!arenas.first)
        return;
    arenas.set(&arenas.usual);
    while (arenas.freed_count > 0) {
        arenas.freed_count--;
        munmap(arenas.freed[arenas.freed_count].at, arenas.freed[arenas.freed_count].size);
    }
    char *last = arenas.next + -(uintptr_t)arenas.next % LARGE_PAGE_BYTES;
    if (last < arenas.end)
        munmap(last, (size_t)(arenas.end - last));
    arenas.end = last;
    (void)large_page_collapse(arenas.first, (size_t)(last - arenas.first));
}

const char *arenas_first(void)
{
    return arenas.first;
}

const char *arenas_last(void)
{
    return arenas.end;
}
