/* term_width.h - how many columns of a terminal a character takes; pure */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

unsigned term_width_of(uint32_t code); /* 0, 1 or 2; control characters are not its business */
