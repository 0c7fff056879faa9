/* syscalls.h - the kernel calls that not every C library wraps
 *
 * The spawner is built with musl where there is one. glibc's <sys/mount.h> and the kernel's header
 * of the same matter exclude each other, so all calls about mounts are here. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif

static inline int sys_mount(const char *source, const char *target, const char *type,
                            unsigned long flags, const char *data)
{
    return (int)syscall(SYS_mount, source, target, type, flags, data);
}

static inline int sys_umount2(const char *target, int flags)
{
    return (int)syscall(SYS_umount2, target, flags);
}

static inline int sys_fsopen(const char *type, unsigned flags)
{
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int sys_fsconfig(int fd, unsigned command, const char *key, const char *value)
{
    return (int)syscall(SYS_fsconfig, fd, command, key, value, 0);
}

static inline int sys_fsmount(int fd, unsigned flags, unsigned attributes)
{
    return (int)syscall(SYS_fsmount, fd, flags, attributes);
}

static inline int sys_open_tree(int dir_fd, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dir_fd, path, flags);
}

static inline int sys_move_mount(int mount_fd, int dir_fd, const char *path)
{
    return (int)syscall(SYS_move_mount, mount_fd, "", dir_fd, path, MOVE_MOUNT_F_EMPTY_PATH);
}

static inline int sys_mount_setattr(int fd, struct mount_attr *attributes)
{
    return (int)syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, attributes, sizeof(*attributes));
}

static inline int sys_close_range(unsigned first, unsigned last)
{
    return (int)syscall(SYS_close_range, first, last, 0);
}

static inline int sys_openat2(int dir_fd, const char *path, struct open_how *how)
{
    return (int)syscall(SYS_openat2, dir_fd, path, how, sizeof(*how));
}

static inline pid_t sys_clone3(struct clone_args *args)
{
    return (pid_t)syscall(SYS_clone3, args, sizeof(*args));
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int sys_execveat(int fd, char *const argv[], char *const envp[])
{
    return (int)syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
}

static inline int sys_landlock_create_ruleset(const void *attr, size_t size, unsigned flags)
{
    return (int)syscall(SYS_landlock_create_ruleset, attr, size, flags);
}

static inline int sys_landlock_add_rule(int ruleset, const struct landlock_path_beneath_attr *rule)
{
    return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, 0);
}

static inline int sys_landlock_restrict_self(int ruleset)
{
    return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}
