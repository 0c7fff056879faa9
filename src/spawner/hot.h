/* hot.h - the sandboxes that were made last, whose files stay open
 *
 * To open a file of the kernel's costs many times as much as to read it, and a sandbox that lives
 * for milliseconds wants more than a dozen of them. Thousands that stand idle want none, and hold
 * none. So only so many may hold theirs, and who is made next takes the place of the one that has
 * held them longest. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#define HOT_MAX 16

struct sandbox;

struct hot {                        /* all zero: nobody is */
    struct sandbox *items[HOT_MAX]; /* borrowed; the one that was made first comes first */
    size_t count;
};

/* Answers the one that has to let go of its files for it, or NULL. */
struct sandbox *hot_add(struct hot *hot, struct sandbox *sb);

/* Before it is freed; one that is not among them is fine. */
void hot_remove(struct hot *hot, const struct sandbox *sb);
