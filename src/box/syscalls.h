/* syscalls.h - the kernel calls that Debian 12's C library does not wrap */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/landlock.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

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
