/* fence.h - from here on, this process and what it starts write below one directory alone
 *
 * What is unpacked there came from a sandbox: a link among it that leads elsewhere, also one that
 * an earlier copy has left, is a way out for nobody. Devices, pipes and sockets can be made
 * nowhere. Reading stays as it was. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"

/* For good. Where the kernel has no landlock it does nothing. */
MUST_CHECK int fence_writes(const char *directory, struct error *err);
