/* test_peers.c - counting by address, against a plain array */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "check.h"

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage out = {.ss_family = AF_UNIX};
    if (inet_pton(AF_INET, text, &((struct sockaddr_in *)&out)->sin_addr) == 1)
        out.ss_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&out)->sin6_addr) == 1)
        out.ss_family = AF_INET6;
    return out;
}

struct pair {
    const char *name, *one, *other;
    bool is_same;
};

static const struct pair pairs[] = {
    {"an address is itself", "192.0.2.1", "192.0.2.1", true},
    {"two addresses", "192.0.2.1", "192.0.2.2", false},
    {"one network of IPv6", "2001:db8::1", "2001:db8::ffff:2", true},
    {"two networks of IPv6", "2001:db8::1", "2001:db8:0:1::1", false},
    {"IPv4 is not IPv6", "0.0.0.0", "::", false},
    {"unix is nobody else", "unix", "0.0.0.0", false},
};

static void test_pair(void **state)
{
    const struct pair *row = *state;
    struct sockaddr_storage one = address(row->one), other = address(row->other);
    struct peers_key a = peers_key((struct sockaddr *)&one);
    struct peers_key b = peers_key((struct sockaddr *)&other);
    assert_int_equal(memcmp(&a, &b, sizeof(a)) == 0, row->is_same);
    char text[PEERS_TEXT_BYTES];
    peers_text((struct sockaddr *)&one, text);
    assert_string_equal(text, row->one);
}

static void test_limit(void **state)
{
    (void)state;
    struct peers peers;
    struct peers_key a = {{1, 1}}, b = {{1, 2}};
    peers_init(&peers, 7);
    assert_true(peers_add(&peers, &a, 2));
    assert_true(peers_add(&peers, &a, 2));
    assert_false(peers_add(&peers, &a, 2));
    assert_true(peers_add(&peers, &b, 2));
    peers_remove(&peers, &a);
    assert_true(peers_add(&peers, &a, 2));
    assert_false(peers_add(&peers, &b, 1));
    peers_release(&peers);
}

#define KEYS 400

/* Growing, shrinking, and places that move: after each step each count is right. */
static void test_model(void **state)
{
    (void)state;
    struct peers peers;
    uint32_t counts[KEYS] = {0}, random = 1;
    peers_init(&peers, 12345);
    for (int round = 0; round < 20000; round++) {
        random = random * 1664525 + 1013904223;
        size_t i = (random >> 8) % KEYS;
        struct peers_key key = {{AF_INET, i}};
        bool is_add = round < 8000 ? random >> 30 != 0 : random >> 30 == 0;
        if (is_add)
            assert_int_equal(peers_add(&peers, &key, 3), counts[i] < 3);
        else if (counts[i] > 0)
            peers_remove(&peers, &key);
        counts[i] = is_add ? MIN(counts[i] + 1, 3U) : counts[i] - (counts[i] > 0);
    }
    size_t used = 0;
    for (size_t i = 0; i < KEYS; i++) {
        struct peers_key key = {{AF_INET, i}};
        used += counts[i] > 0;
        for (; counts[i] > 0; counts[i]--)
            peers_remove(&peers, &key);
    }
    assert_true(used > 0);
    assert_int_equal(peers.used, 0);
    for (size_t i = 0; i < peers.size; i++)
        assert_int_equal(peers.entries[i].count, 0);
    peers_release(&peers);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, pairs, test_pair);
    check_one(&check, "each address has its own limit", test_limit);
    check_one(&check, "counts stay right while places move", test_model);
    return check_run(&check, "peers");
}
