/* fuzz.h - what a fuzz target is; libFuzzer calls it, and so does replay.c in the normal tests */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Looks at one input. A broken promise ends the process (BUG_ON, a sanitizer). Answers 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
