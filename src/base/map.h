/* map.h - finds things by a name, and keeps no memory of its own but the table
 *
 * What is found has a struct map_node in it and stays its owner's. Names are hashed with a key that
 * is drawn at the start, so nobody can choose names that collide. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

struct map_node {
    struct map_node *next;
    uint64_t hash;
    const char *name; /* borrowed; must not change while it is in a map */
};

struct map { /* zeroed: empty */
    struct map_node **buckets;
    size_t bucket_count; /* a power of two, or 0 */
    size_t count;
};

/* The name must not be there yet. */
void map_add(struct map *map, struct map_node *node, const char *name);
struct map_node *map_find(const struct map *map, const char *name); /* NULL: not there */
void map_remove(struct map *map, struct map_node *node);
void map_release(struct map *map); /* the table; it is empty by then, or nobody cares */

/* In no order: from NULL to NULL. */
struct map_node *map_next(const struct map *map, const struct map_node *node);

/* for each node, which the body may remove: MAP_EACH (&map, node) { ... }
 * NOLINTBEGIN(bugprone-macro-parentheses): `node` is declared there */
#define MAP_EACH(map, node)                                                                        \
    for (struct map_node *node = map_next((map), NULL),                                            \
                         *node##_after = node ? map_next((map), node) : NULL;                      \
         node; node = node##_after, node##_after = node ? map_next((map), node) : NULL)
/* NOLINTEND(bugprone-macro-parentheses) */

/* struct session *s = MAP_OF(node, struct session, by_id) */
#define MAP_OF(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))
