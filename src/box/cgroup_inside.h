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

bool cgroup_is_v2(const struct cgroup_tree *tree, enum cgroup_controller controller);
