/* arenas.h - where python's small objects lie
 *
 * An interpreter takes memory for them in arenas of a megabyte or less, each where there is room. A
 * zygote wants all of them side by side: see large_page.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* From here on arenas come from one region of large pages. In an interpreter that does not let
 * itself be told, nothing changes. */
void arenas_begin(void);

/* The end of that: what comes is allocated as ever. */
void arenas_end(void);

/* Where they are; the same twice, if nowhere. */
const char *arenas_first(void);
const char *arenas_last(void);
