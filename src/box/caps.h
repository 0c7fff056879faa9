/* caps.h - giving up every capability, for good */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/macros.h"

/* Both are async-signal-safe and answer 0, or -1 with errno. */
MUST_CHECK int caps_drop_bounding(void); /* needs CAP_SETPCAP, keeps what is in force */
MUST_CHECK int caps_drop_all(void);      /* and checks that nothing is left */
