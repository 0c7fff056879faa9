/* error.h - the one error type: filled by the callee, owned by the caller's stack, no heap */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

/* One row per kind of failure; every door (HTTP, JSON-RPC, exit code) reads its answer here. */
/* clang-format off */
#define ERROR_CODES(X)                                                                             \
    /* code         http  json-rpc exit  retry  name */                                            \
    X(INTERNAL,     500,  -32603,  70,   false, "internal")                                        \
    X(INVALID,      400,  -32602,  64,   false, "invalid")                                         \
    X(NOT_FOUND,    404,  -32004,  66,   false, "not_found")                                       \
    X(CONFLICT,     409,  -32009,  73,   false, "conflict")                                        \
    X(DENIED,       403,  -32003,  77,   false, "denied")                                          \
    X(TOO_LARGE,    413,  -32013,  65,   false, "too_large")                                       \
    X(LIMIT,        429,  -32029,  75,   true,  "limit")                                           \
    X(UNAVAILABLE,  503,  -32053,  69,   true,  "unavailable")                                     \
    X(ISOLATION,    503,  -32054,  71,   false, "isolation")                                       \
    X(TIMEOUT,      504,  -32055,  75,   true,  "timeout")                                         \
    X(NO_SPACE,     507,  -32057,  69,   true,  "storage_full")
/* clang-format on */

enum error_code {
#define X(code, http, rpc, exit_status, retry, name) ERROR_##code,
    ERROR_CODES(X)
#undef X
        ERROR_CODE_COUNT
};

struct error {
    enum error_code code;
    int sys_errno;     /* 0 when no system call failed */
    char msg[512];     /* "create sandbox: mount '/proc': operation not permitted" */
    char hint[256];    /* what to do about it; empty when there is nothing to say */
    unsigned retry_ms; /* after which trying again makes sense; 0: nobody knows */
    const char *word;  /* a closer code for programs, "session_busy"; a constant; NULL: the usual */
};

struct error_info {
    int http_status;
    int rpc_code;
    int exit_status;
    bool can_retry;
    const char *name;
};

const struct error_info *error_info(enum error_code code);

/* Nobody has done anything wrong: the same may well work later, and some of it may be done. */
bool error_passes(const struct error *err);

/* All of these return -1, so that a check is two lines. */
int error_set(struct error *err, enum error_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
int error_sys(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);  /* adds errno's words */
int error_wrap(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3); /* "context: cause" */
int error_word(struct error *err, const char *word);
int error_hint(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3); /* keeps the message */

#if defined(__clang_analyzer__) &&                                                                 \
    !defined(ERROR_IMPLEMENTATION) /* which sees one file at a time */
static inline int error_is_minus_one(int answer)
{
    (void)answer;
    return -1;
}
#define error_set(...)  error_is_minus_one(error_set(__VA_ARGS__))
#define error_sys(...)  error_is_minus_one(error_sys(__VA_ARGS__))
#define error_wrap(...) error_is_minus_one(error_wrap(__VA_ARGS__))
#define error_word(...) error_is_minus_one(error_word(__VA_ARGS__))
#define error_hint(...) error_is_minus_one(error_hint(__VA_ARGS__))
#endif
