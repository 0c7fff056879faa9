/* cull.c - frozen, killed one by one, thawed
 *
 * A process of the list may end, and its number be another's, before it is killed: so it is held by
 * a pidfd first, and then must still look like one of the sandbox, by its uid. A fork that was
 * about to return when the freeze came is in the second list. Should one escape even that, pid 1
 * finds the sandbox nearly empty, and kills it by its own means. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/cull.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/scoped.h"

#define LISTS 2

struct cull {
    const struct sandbox *sb;
    const struct spawn_cull *order;
};

static int fail(struct spawn_failure *failure, enum error_code code, int sys_errno,
                const char *step)
{
    *failure = (struct spawn_failure){.code = code, .sys_errno = sys_errno, .layer = -1};
    memcpy(failure->step, step, MIN(strlen(step), sizeof(failure->step) - 1));
    return -1;
}

/* The last number of the line "key: N N N" of a process's status; false: there is none. */
static bool find_last(const char *text, const char *key, uint64_t *out)
{
    const char *line = strstr(text, key);
    if (!line)
        return false;
    line++; /* a key begins with the end of the line before */
    size_t len = strcspn(line, "\n");
    while (len > 0 && line[len - 1] >= '0' && line[len - 1] <= '9')
        len--;
    char number[24];
    snprintf(number, sizeof(number), "%.*s", (int)strcspn(line + len, "\n"), line + len);
    return parse_u64(number, out);
}

static bool is_kept(const struct spawn_cull *order, uint64_t pid)
{
    for (uint32_t i = 0; i < order->count; i++) {
        if ((uint64_t)order->keep[i] == pid)
            return true;
    }
    return false;
}

/* A quick look, for bombs are large. One that cannot be looked into belongs to root here. */
static bool is_ours(const struct cull *c, pid_t pid)
{
    char path[32];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d", pid);
    return stat(path, &st) == 0 && st.st_uid == c->sb->plan.uid;
}

/* A name that a process gave itself stands in the first line, with every newline in it escaped. */
static bool shall_go(const struct cull *c, pid_t pid)
{
    char path[64], text[4096];
    uint64_t uid, inside;
    if (c->order->count == 0 && is_ours(c, pid))
        return true;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, sizeof(text) - 1);
    if (n < 0)
        return false;
    text[n] = '\0';
    return find_last(text, "\nUid:", &uid) && uid == c->sb->plan.uid &&
           find_last(text, "\nNSpid:", &inside) && inside != 1 && !is_kept(c->order, inside);
}

static void kill_one(void *ctx, pid_t pid)
{
    const struct cull *c = ctx;
    scoped_fd int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pid_fd >= 0 && pid != c->sb->child.pid && shall_go(c, pid))
        syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, NULL, 0);
}

int cull_sandbox(struct sandbox *sb, const struct spawn_cull *order, struct spawn_failure *failure)
{
    struct error err;
    struct cull c = {.sb = sb, .order = order};
    if (order->count > SPAWN_CULL_MAX)
        return fail(failure, ERROR_INVALID, 0, "pids to keep");
    if (!sb->plan.has_own_uid)
        return fail(failure, ERROR_UNAVAILABLE, 0, "sandboxes share their uid");
    if (sandbox_freeze(sb, true, failure) < 0)
        return -1;
    for (int i = 0; i < LISTS; i++)
        (void)!cgroup_each_process(&sb->cgroup, sb->tree, kill_one, &c);
    if (cgroup_freeze(&sb->cgroup, sb->tree, false, &err) < 0)
        sandbox_kill(sb); /* frozen for good it would be of no use */
    return 0;
}
