/* loop_inside.h - the loop as the files of this folder see it, nobody else */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <uv.h>

struct loop {
    uv_loop_t uv;
    size_t working; /* works that are not told as done yet */
};
