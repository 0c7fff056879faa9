/* relro.h - what the linker marked as read-only after relocation, made so
 *
 * Dynamic linkers and glibc's start do this themselves; musl's start of a static program does not.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/macros.h"

/* 0, or -1 with errno. Doing it again changes nothing. */
MUST_CHECK int relro_protect(void);
