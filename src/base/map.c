/* map.c - chains in a table that doubles
 *
 * The hash is SipHash-1-3: short names, keyed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/memory.h"

#define FIRST_BUCKETS 16

/* --- the hash -------------------------------------------------------------------------------- */

static uint64_t key[2];

static uint64_t turn_left(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = turn_left(v[1], 13) ^ v[0];
    v[0] = turn_left(v[0], 32);
    v[2] += v[3];
    v[3] = turn_left(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = turn_left(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = turn_left(v[1], 17) ^ v[2];
    v[2] = turn_left(v[2], 32);
}

static void take_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v);
    v[0] ^= word;
}

static uint64_t hash_of(const char *name)
{
    size_t len = strlen(name), at = 0;
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                     key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    uint64_t word;
    for (; at + 8 <= len; at += 8) {
        memcpy(&word, name + at, 8);
        take_word(v, word);
    }
    word = (uint64_t)len << 56;
    memcpy(&word, name + at, len - at);
    take_word(v, word);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void need_key(void)
{
    while (!key[0] && getrandom(key, sizeof(key), 0) != sizeof(key))
        ;
}

/* --- the table ------------------------------------------------------------------------------- */

static struct map_node **bucket_of(const struct map *map, uint64_t hash)
{
    return &map->buckets[hash & (map->bucket_count - 1)];
}

static void push(const struct map *map, struct map_node *node)
{
    struct map_node **bucket = bucket_of(map, node->hash);
    node->next = *bucket;
    *bucket = node;
}

static void grow(struct map *map)
{
    struct map bigger = {.bucket_count = map->bucket_count ? 2 * map->bucket_count : FIRST_BUCKETS,
                         .count = map->count};
    bigger.buckets = xcalloc(bigger.bucket_count, sizeof(struct map_node *));
    for (size_t i = 0; i < map->bucket_count; i++) {
        for (struct map_node *node = map->buckets[i], *next; node; node = next) {
            next = node->next;
            push(&bigger, node);
        }
    }
    free(map->buckets);
    *map = bigger;
}

void map_add(struct map *map, struct map_node *node, const char *name)
{
    BUG_ON(map_find(map, name) != NULL);
    if (map->count >= map->bucket_count)
        grow(map);
    need_key();
    *node = (struct map_node){.name = name, .hash = hash_of(name)};
    push(map, node);
    map->count++;
}

struct map_node *map_find(const struct map *map, const char *name)
{
    if (map->count == 0)
        return NULL;
    uint64_t hash = hash_of(name);
    struct map_node *node = *bucket_of(map, hash);
    while (node && (node->hash != hash || strcmp(node->name, name) != 0))
        node = node->next;
    return node;
}

void map_remove(struct map *map, struct map_node *node)
{
    struct map_node **at = bucket_of(map, node->hash);
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    map->count--;
}

void map_release(struct map *map)
{
    free(map->buckets);
    *map = (struct map){0};
}

struct map_node *map_next(const struct map *map, const struct map_node *node)
{
    if (node && node->next)
        return node->next;
    size_t i = node ? (node->hash & (map->bucket_count - 1)) + 1 : 0;
    for (; i < map->bucket_count; i++) {
        if (map->buckets[i])
            return map->buckets[i];
    }
    return NULL;
}
