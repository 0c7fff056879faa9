/* large_page.h - the memory of a process in large pages
 *
 * A fork copies an entry for each page that was written to, the end of the copy takes each of them
 * down again, and pages of files are left out and cost a fault each. Of what lies in large pages
 * both take five hundred at a time; and who runs there finds its pages sooner. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

#define LARGE_PAGE_BYTES (2 * MIB)

/* Room for `size` bytes, which are a number of large pages, to be filled with such; or NULL. What
 * is never written to costs nothing. */
char *large_page_map(size_t size);

/* Has large pages made of what was written there, if that did not come in such; false: of some it
 * could not. That is the end of it: the pages of copies that write to theirs are small ones, and
 * nobody shall make large ones of them again. */
bool large_page_collapse(char *at, size_t size);

/* Moves what this process has written to, and the code that it uses, to large pages: the addresses
 * stay, the bytes stay. What lies from `except` to `except_end` is left alone. There must be one
 * thread. False if the kernel has no such pages for us, or if there is nothing to move; then all is
 * as it was. */
bool large_page_gather(const char *except, const char *except_end);
