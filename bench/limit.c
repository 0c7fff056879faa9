/* limit.c - runs a command in a cgroup with Cove's default limits, and removes the group
 *
 * For bubblewrap, which leaves limits to others: the least that could be done beside it, with the
 * same code as the spawner's. Usage: limit COMMAND [ARGUMENT...] */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/cgroup.h"
#include "box/syscalls.h"

static pid_t start(const struct cgroup_entry *entry, char **argv)
{
    struct clone_args args = {.exit_signal = SIGCHLD};
    if (entry->into_fd >= 0) {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)entry->into_fd;
    }
    pid_t pid = sys_clone3(&args);
    if (pid == 0) {
        if (cgroup_enter(entry) == 0)
            execvp(argv[0], argv);
        _exit(127);
    }
    return pid;
}

int main(int argc, char **argv)
{
    const struct spawn_limits limits = {.memory_bytes = 256 * MIB, .pids = 128, .cpu_milli = 500};
    struct cgroup_tree all, tree;
    struct cgroup group;
    struct cgroup_entry entry;
    struct error err;
    int status;
    if (argc < 2)
        return 2;
    const struct cgroup_wish wish = {.parent = "cove-bench", .is_rootless = geteuid() != 0};
    cgroup_tree_open(&all, &wish);
    cgroup_tree_trim(&tree, &all);
    if (cgroup_create(&group, &tree, (unsigned)getpid(), &limits, &err) < 0 ||
        cgroup_open_entry(&entry, &group, &tree, &err) < 0) {
        fprintf(stderr, "limit: %s\n", err.msg);
        return 1;
    }
    pid_t pid = start(&entry, argv + 1);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return 1;
    while (!cgroup_remove(&group, &tree))
        usleep(100);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
