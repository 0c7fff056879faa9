/* tree.h - walking a directory tree that somebody else made
 *
 * No symbolic link is followed, no mount is crossed, and depth costs neither stack nor trust: the
 * open folders are a bounded list. Names are visited in byte order, so two walks of equal trees are
 * equal. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

#define TREE_DEPTH_MAX   400     /* each level holds one fd while it is walked */
#define TREE_ENTRIES_MAX 2000000 /* of one folder; far above any real image */

struct tree_entry {
    int dir_fd;       /* the folder that holds it */
    const char *name; /* in that folder */
    const char *path; /* from the root of the walk: "usr/bin/sh" */
    struct stat st;   /* of the entry itself, a link's own */
    bool is_leaving;  /* a folder, after its content; otherwise before it */
};

/* Called with every entry, and a second time with a folder when it is left. Answers 0, TREE_SKIP to
 * leave out a folder's content (and its second call), or -1 with *err filled. An entry may be
 * removed or changed in the call. */
typedef int (*tree_visit_fn)(void *ctx, const struct tree_entry *entry, struct error *err);
#define TREE_SKIP 1

/* `root_fd` is borrowed. A tree deeper than TREE_DEPTH_MAX is ERROR_TOO_LARGE. */
MUST_CHECK int tree_walk(int root_fd, tree_visit_fn visit, void *ctx, struct error *err);

/* Removes `name` below `dir_fd` with all that is in it, of any depth; an absent one is fine.
 * Folders that deny access are made writable first. A mount below it is an error, not a way out. */
MUST_CHECK int tree_remove(int dir_fd, const char *name, struct error *err);

/* Opens `path` below `dir_fd`, with no symbolic link on the way and no way out; answers the fd or
 * -1 with errno. */
int tree_open(int dir_fd, const char *path, int flags);

/* The same, but links are followed as a process would with `root_fd` as its "/". */
int tree_open_in_root(int root_fd, const char *path, int flags);
