/* confine.h - what a program that parses what strangers send gives up before it hears of them
 *
 * Should one of them take it over, he finds a process that reaches the files and makes the calls
 * that its order names, and nothing else. Each step below holds alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A call that may be made; with a test only when (low half of argument `arg` & mask) == value.
 * Several rows of one call stand side by side, and one that holds is enough. */
struct confine_call {
    int number;
    bool has_test;
    uint8_t arg;
    uint32_t mask, value;
    bool is_own; /* `value` is the process that is confined, which is known when it is */
};

#define CONFINE_CALL(call)                                                                         \
    {                                                                                              \
        .number = __NR_##call                                                                      \
    }
#define CONFINE_CALL_IF(call, which, bits, is)                                                     \
    {                                                                                              \
        .number = __NR_##call, .has_test = true, .arg = (which), .mask = (uint32_t)(bits),         \
        .value = (uint32_t)(is)                                                                    \
    }

/* Of this process alone: argument `which` is its number. */
#define CONFINE_CALL_OWN(call, which)                                                              \
    {                                                                                              \
        .number = __NR_##call, .has_test = true, .arg = (which), .mask = 0xffffffffu,              \
        .is_own = true                                                                             \
    }

/* All that is reachable from here on. NULL-terminated lists; what is missing is left out. */
struct confine_order {
    const char *who;                  /* for messages: "the server" */
    const struct confine_call *calls; /* every other one is refused with EPERM */
    size_t call_count;
    bool may_connect;            /* to any port. None can be bound in any case */
    unsigned connect_port;       /* else to this one, and to ask for names; 0: to none at all */
    const char *const *writable; /* directories, with all in them */
    const char *const *readable;
    const char *socket_dir; /* out of which a unix socket is to be removed; NULL: there is none */
    bool allow_degraded;    /* go on although the kernel has no landlock */
};

/* For this thread and those that it begins later: so before there are others. For good. */
MUST_CHECK int confine_apply(const struct confine_order *order, struct error *err);

#define CONFINE_FILTER_MAX 1024

/* Fills `filter` for the calling process and answers the number of instructions. */
size_t confine_compile(struct sock_filter filter[CONFINE_FILTER_MAX],
                       const struct confine_call *calls, size_t count);
