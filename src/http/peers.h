/* peers.h - how many connections each address has open */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define PEERS_TEXT_BYTES 64

/* Who is at the other end: an IPv4 address, or the /64 of an IPv6 one, which is what one customer
 * of a provider has at least. All clients of a unix socket are the same one. */
struct peers_key {
    uint64_t words[2];
};

struct peers_entry {
    struct peers_key key;
    uint32_t count; /* 0: the place is free */
};

struct peers {
    struct peers_entry *entries; /* private; owned */
    size_t size, used;
    uint64_t seed;
};

void peers_init(struct peers *peers, uint64_t seed); /* the seed is random */
void peers_release(struct peers *peers);

struct peers_key peers_key(const struct sockaddr *address);
/* "192.0.2.1", "2001:db8::1", "unix" */
void peers_text(const struct sockaddr *address, char out[PEERS_TEXT_BYTES]);

/* One more, unless there are `max`: then false. */
bool peers_add(struct peers *peers, const struct peers_key *key, uint32_t max);
void peers_remove(struct peers *peers, const struct peers_key *key); /* one that was added */
