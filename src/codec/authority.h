/* authority.h - the name of a host with a port, in the one spelling by which it is compared
 *
 * Lower case, no dot at the end, addresses as inet_ntop() writes them. What a resolver and we could
 * read in two ways is refused: escapes, blanks, users, other alphabets (written as xn-- they are
 * names like any other), and numbers that only some take for an address (127.1, 0x7f000001). */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUTHORITY_NAME_BYTES 256

struct authority {
    char name[AUTHORITY_NAME_BYTES];
    uint16_t port;   /* 0: none was given */
    bool is_address; /* the name is an address, of version 4 or 6 (without brackets) */
};

/* "example.com", "Example.COM.:8443", "192.0.2.1", "[2001:db8::1]:443". */
bool authority_parse(struct authority *out, const char *text, size_t len);

/* The host of "SCHEME://host[:port][/...]"; *rest is where the path begins, in `text`. A user in
 * front of the host is refused. */
bool authority_parse_url(struct authority *out, const char *text, const char *scheme,
                         const char **rest);

/* Whether `name` is below `domain`: "a.example.com" is below "example.com", which is not below
 * itself. */
bool authority_is_below(const char *name, const char *domain);
