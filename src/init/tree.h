/* tree.h - how the files worker walks through directories that their owner may have closed
 *
 * Everything is relative to a directory's fd and follows no link. Errors are errno's. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

/* Its owner may have taken the right to look into it, and has it back then. The fd, or -1. */
int tree_open_dir(int at, const char *name);
int tree_open_file(int at, const char *name, mode_t mode);

/* To change a directory takes a right, which its owner has again from then on. */
int tree_open_to_change(int at, const char *name);

typedef int (*tree_visit_fn)(int fd, const char *name, const struct stat *st, void *ctx);

/* Calls `visit` for each entry of the directory `fd`; stops at the first error, and answers it. */
int tree_each(int fd, tree_visit_fn visit, void *ctx);

/* Removes it with all that is in it, however deep that is. `pulse` is called from time to time;
 * NULL: nobody wants to know. 0, or an errno. */
int tree_remove(int at, const char *name, void (*pulse)(void));

/* Mode and times of a directory that was filled. 0, or an errno. */
int tree_finish_dir(int at, const char *name, const struct stat *st);

/* A tenant may set any time: the furthest ones stay the furthest. Nanoseconds count upwards from
 * their second, also before 1970. */
int64_t tree_to_ns(const struct timespec *time);
struct timespec tree_from_ns(int64_t ns);
