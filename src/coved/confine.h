/* confine.h - what coved gives up before it hears of any request
 *
 * It parses what strangers send. Should one of them take it over, he finds a process that can read
 * its own database and the images, talk to the spawner and to its clients, and nothing else: no
 * other file, no other program, no new connection. Each step below holds alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* All that is reachable from here on. NULL-terminated lists; what is missing is left out. */
struct confine_order {
    const char *const *writable; /* directories, with all in them */
    const char *const *readable;
    const char *socket_dir; /* out of which a unix socket is to be removed; NULL: there is none */
    bool allow_degraded;    /* go on although the kernel has no landlock */
};

/* For this thread and those that it begins later: so before there are others. For good. */
MUST_CHECK int confine_apply(const struct confine_order *order, struct error *err);

/* --- system calls, in confine_calls.c --------------------------------------------------------- */

/* A call that may be made; with a test only when (low half of argument `arg` & mask) == value.
 * Several rows of one call stand side by side, and one that holds is enough. */
struct confine_call {
    int number;
    bool has_test;
    uint8_t arg;
    uint32_t mask, value;
};

extern const struct confine_call confine_calls[];
extern const size_t confine_call_count;

#define CONFINE_FILTER_MAX 1024

/* Fills `filter` and answers the number of instructions. */
size_t confine_compile(struct sock_filter filter[CONFINE_FILTER_MAX]);
