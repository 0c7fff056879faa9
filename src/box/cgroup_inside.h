/* cgroup_inside.h - what the two halves of cgroup.h share: files of a group's directory */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/cgroup.h"

#define CGROUP_SOCKET_LIMIT     "memory.kmem.tcp.limit_in_bytes" /* of version 1; UDP's, too */
#define CGROUP_SOCKET_BYTES_MAX (32 * MIB)

bool cgroup_write_file(int dir_fd, const char *name, const char *text);
bool cgroup_read_file(int dir_fd, const char *name, char *text, size_t size);

/* A file of the group, relative to the tree's directory. */
const char *cgroup_file_name(const struct cgroup *cg, const char *file,
                             char out[CGROUP_NAME_BYTES]);
bool cgroup_write_of(const struct cgroup *cg, const struct cgroup_tree *tree,
                     enum cgroup_controller controller, const char *file, const char *text);

bool cgroup_read_of(const struct cgroup *cg, const struct cgroup_tree *tree,
                    enum cgroup_controller controller, const char *file, char *text, size_t size);

/* Of the files that may be open already. Who has called one of these calls cgroup_settle() then. */
bool cgroup_read_open(struct cgroup *cg, const struct cgroup_tree *tree, enum cgroup_file which,
                      char *text, size_t size);
bool cgroup_read_number(struct cgroup *cg, const struct cgroup_tree *tree, enum cgroup_file which,
                        uint64_t *out);
bool cgroup_write_open(struct cgroup *cg, const struct cgroup_tree *tree, enum cgroup_file which,
                       const char *text);
/* Closes what is not to stay open. */
void cgroup_settle(struct cgroup *cg);

uint64_t cgroup_cpu_quota_us(uint64_t milli);

/* Hands down the controllers that we use to the groups in this directory of a version 2 tree. */
void cgroup_enable_controllers(int dir_fd);
/* Which of them a file of such a directory lists, a bit for each enum cgroup_controller. */
unsigned cgroup_controllers(int dir_fd, const char *file);
bool cgroup_has_word(const char *list, const char *word, const char *separators);

/* --- where a tree is rooted, in cgroup_place.c ----------------------------------------------- */

struct cgroup_place {
    enum spawn_place kind;
    char path[CGROUP_PATH_BYTES]; /* below what is mounted, without a slash before it */
};

/* Our own group in the hierarchy of `controller` ("" is version 2), of which the part `root` is
 * mounted. False: it is not below that. */
bool cgroup_own_path(const char *controller, const char *root, char *out, size_t size);

/* The directory, owned by the caller, in which the parent of all groups is to be made; -1: none. In
 * version 2, groups there have controllers if that can be had. */
int cgroup_place_v1(const struct cgroup_wish *wish, const char *mount, const char *root,
                    const char *controller, struct cgroup_place *out);
int cgroup_place_v2(const struct cgroup_wish *wish, const char *mount, const char *root,
                    struct cgroup_place *out);

bool cgroup_is_v2(const struct cgroup_tree *tree, enum cgroup_controller controller);
