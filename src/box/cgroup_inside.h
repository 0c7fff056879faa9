/* cgroup_inside.h - what the two halves of cgroup.h share: files of a group's directory */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/cgroup.h"

bool cgroup_write_file(int dir_fd, const char *name, const char *text);
bool cgroup_read_file(int dir_fd, const char *name, char *text, size_t size);

/* Hands down the controllers that we use to the groups in this directory of a version 2 tree. */
void cgroup_enable_controllers(int dir_fd);

bool cgroup_is_v2(const struct cgroup_tree *tree, enum cgroup_controller controller);
