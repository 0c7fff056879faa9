/* peers.c - a hash table with open addressing; strangers choose the keys, so its hash is seeded */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

#define FIRST_SIZE 64 /* a power of two, as all sizes */

void peers_init(struct peers *peers, uint64_t seed)
{
    *peers = (struct peers){.entries = xcalloc(FIRST_SIZE, sizeof(struct peers_entry)),
                            .size = FIRST_SIZE,
                            .seed = seed};
}

void peers_release(struct peers *peers)
{
    free(peers->entries);
    *peers = (struct peers){.size = 0};
}

struct peers_key peers_key(const struct sockaddr *address)
{
    struct peers_key key = {{address->sa_family, 0}};
    if (address->sa_family == AF_INET)
        key.words[1] = ((const struct sockaddr_in *)address)->sin_addr.s_addr;
    if (address->sa_family == AF_INET6)
        memcpy(&key.words[1], &((const struct sockaddr_in6 *)address)->sin6_addr, 8);
    return key;
}

void peers_text(const struct sockaddr *address, char out[PEERS_TEXT_BYTES])
{
    const void *at = address->sa_family == AF_INET
                         ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
                         : (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr;
    if ((address->sa_family != AF_INET && address->sa_family != AF_INET6) ||
        !inet_ntop(address->sa_family, at, out, PEERS_TEXT_BYTES))
        snprintf(out, PEERS_TEXT_BYTES, "unix");
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U; /* splitmix64 */
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

static size_t home_of(const struct peers *peers, const struct peers_key *key)
{
    return mix(mix(peers->seed ^ key->words[0]) ^ key->words[1]) & (peers->size - 1);
}

static bool is_same(const struct peers_key *a, const struct peers_key *b)
{
    return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}

/* The entry of `key`, or the free place where it belongs. */
static struct peers_entry *find(const struct peers *peers, const struct peers_key *key)
{
    size_t at = home_of(peers, key);
    while (peers->entries[at].count > 0 && !is_same(&peers->entries[at].key, key))
        at = (at + 1) & (peers->size - 1);
    return &peers->entries[at];
}

static void grow(struct peers *peers)
{
    struct peers old = *peers;
    peers->size *= 2;
    peers->entries = xcalloc(peers->size, sizeof(struct peers_entry));
    for (size_t i = 0; i < old.size; i++) {
        if (old.entries[i].count > 0)
            *find(peers, &old.entries[i].key) = old.entries[i];
    }
    free(old.entries);
}

bool peers_add(struct peers *peers, const struct peers_key *key, uint32_t max)
{
    if (peers->used * 2 >= peers->size)
        grow(peers);
    struct peers_entry *entry = find(peers, key);
    if (entry->count >= max)
        return false;
    peers->used += entry->count == 0;
    entry->key = *key;
    entry->count++;
    return true;
}

/* Frees a place; entries behind it that it had pushed away come nearer to their home. */
static void free_place(struct peers *peers, size_t hole)
{
    size_t mask = peers->size - 1;
    for (size_t at = (hole + 1) & mask; peers->entries[at].count > 0; at = (at + 1) & mask) {
        size_t home = home_of(peers, &peers->entries[at].key);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        peers->entries[hole] = peers->entries[at];
        hole = at;
    }
    peers->entries[hole].count = 0;
    peers->used--;
}

void peers_remove(struct peers *peers, const struct peers_key *key)
{
    struct peers_entry *entry = find(peers, key);
    BUG_ON(entry->count == 0);
    if (--entry->count == 0) {
        entry->count = 1; /* still taken while others move */
        free_place(peers, (size_t)(entry - peers->entries));
    }
}
