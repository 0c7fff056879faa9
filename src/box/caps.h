/* caps.h - giving up every capability, for good */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/macros.h"

/* All are async-signal-safe and answer 0, or -1 with errno. */
MUST_CHECK int caps_drop_bounding(void); /* needs CAP_SETPCAP, keeps what is in force */
MUST_CHECK int caps_drop_all(void);      /* and checks that nothing is left */
/* Gives up all but these, in the bounding set too; an exec by root gets them again. */
MUST_CHECK int caps_keep(const int *kept, size_t count);
/* Makes all that are permitted effective again, which a change from root to another id ends. */
MUST_CHECK int caps_raise(void);
