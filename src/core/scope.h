/* scope.h - what a key may do: a set of words, as bits */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* One row per scope; the order is that of the bits, which are nowhere but in memory. */
/* clang-format off */
#define SCOPES(X)                                                                                  \
    X(EXECUTE,         "execute",         "run code without a session")                            \
    X(SESSIONS_READ,   "sessions:read",   "list and read sessions and executions")                 \
    X(SESSIONS_WRITE,  "sessions:write",  "create, use and terminate sessions")                    \
    X(FILES,           "files",           "upload, download and list files of sessions")           \
    X(TEMPLATES_WRITE, "templates:write", "create, change and delete templates")                   \
    X(KEYS_ADMIN,      "keys:admin",      "create, list and revoke keys")                          \
    X(ADMIN,           "admin",           "everything, also what belongs to other keys")           \
    X(INTERNAL,        "internal",        "report for executors; only the internal token has it")
/* clang-format on */

enum scope_index {
#define X(name, word, help) SCOPE_INDEX_##name,
    SCOPES(X)
#undef X
        SCOPE_COUNT
};

enum scope {
#define X(name, word, help) SCOPE_##name = 1 << SCOPE_INDEX_##name,
    SCOPES(X)
#undef X
};

struct scope_info {
    const char *word, *help;
};

const struct scope_info *scope_info(enum scope_index index);

#define SCOPE_TEXT_BYTES 128 /* all words and their commas */

/* One word; 0 when it is none. */
unsigned scope_find(const char *word, size_t len);

/* Words with a comma between them, each at most once; "" is the empty set. False, with *out
 * untouched, for anything else. */
bool scope_parse(const char *text, unsigned *out);
void scope_format(unsigned scopes, char out[SCOPE_TEXT_BYTES]);

/* `needed` is all in `held`. The admin's is everything but `internal`. */
bool scope_allows(unsigned held, unsigned needed);

/* Whether who holds `held` may make a key with `wanted`: nobody gives what he has not, and nobody
 * gives `internal`. */
bool scope_may_grant(unsigned held, unsigned wanted);
