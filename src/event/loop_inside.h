/* loop_inside.h - the loop as the files of this folder see it, nobody else */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct loop {
    uv_loop_t uv;
    uv_idle_t attention; /* while it is active, the loop does not sleep */
    size_t expected;     /* answers */
    int64_t asked_ns;    /* for the last of them */
    bool is_quick;       /* the one before came at once */
    int64_t unyielding_until_ns;
    size_t working; /* works that are not told as done yet */
    struct closer *closer;
};
