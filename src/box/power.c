/* power.c - root, or the rootless way to the same calls */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/power.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "box/syscalls.h"

/* Far above what distributions, systemd and subuid ranges use, below what overflows an int. */
#define UID_FIRST     1900000000u
#define UID_COUNT     65536u
#define UID_COUNT_MIN 256u /* fewer are not worth the trouble */

#define SUBIDS_MAX 65535u

#define SMALL_FILE_BYTES    (64 * KIB)
#define USER_FILE_MAX_BYTES (16 * MIB)

static bool has_capabilities(void)
{
    static const int wanted[] = {CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID, CAP_CHOWN, CAP_NET_ADMIN};
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        if (!(data[wanted[i] / 32].effective & 1u << wanted[i] % 32))
            return false;
    }
    return true;
}

/* Ids for sandboxes out of what this user namespace maps: our own range, or the upper end of the
 * largest one (in a container). A map that cannot be read must not pass for one without ids. */
static int find_ids(struct power *power, struct error *err)
{
    scoped_free char *text = NULL;
    uint64_t best_end = 0, best = 0;
    if (fd_read_file("/proc/self/uid_map", &text, SMALL_FILE_BYTES, err) < 0) {
        err->code = ERROR_ISOLATION;
        return error_wrap(err, "find ids for sandboxes");
    }
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        uint64_t inside, count;
        if (sscanf(line, "%" SCNu64 " %*u %" SCNu64, &inside, &count) != 2)
            continue;
        if (inside <= UID_FIRST && inside + count >= UID_FIRST + UID_COUNT) {
            power->uid_first = UID_FIRST;
            power->uid_count = UID_COUNT;
            return 0;
        }
        if (count > best) {
            best = count;
            best_end = inside + count;
        }
    }
    if (best > 2 * (uint64_t)UID_COUNT_MIN) {
        power->uid_count = (unsigned)MIN(best / 2, UID_COUNT);
        power->uid_first = (uid_t)(best_end - power->uid_count);
    }
    return 0;
}

static bool write_file(const char *path, const char *text)
{
    scoped_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* --- subordinate ids ------------------------------------------------------------------------- */

struct subids {
    unsigned first;
    unsigned count;
};

/* Calls `fn` with the fields of each line of a file like /etc/passwd until it answers true. */
#define FIELDS_MAX 8
typedef bool (*fields_fn)(void *ctx, char *fields[FIELDS_MAX], size_t count);

static bool find_line(const char *path, fields_fn fn, void *ctx)
{
    struct error err;
    scoped_free char *text = NULL;
    if (fd_read_file(path, &text, USER_FILE_MAX_BYTES, &err) < 0)
        return false;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *fields[FIELDS_MAX], *field;
        size_t count = 0;
        while (count < FIELDS_MAX && (field = strsep(&line, ":")))
            fields[count++] = field;
        if (fn(ctx, fields, count))
            return true;
    }
    return false;
}

struct subid_search {
    const char *name;
    char number[16];
    struct subids found;
};

/* name:first:count, by name or number */
static bool is_subid_line(void *ctx, char *fields[FIELDS_MAX], size_t count)
{
    struct subid_search *s = ctx;
    uint64_t first, n;
    if (count != 3 || (strcmp(fields[0], s->name) != 0 && strcmp(fields[0], s->number) != 0) ||
        !parse_u64(fields[1], &first) || !parse_u64(fields[2], &n))
        return false;
    if (n < UID_COUNT_MIN || n > UINT32_MAX || first > UINT32_MAX - n)
        return false;
    s->found = (struct subids){(unsigned)first, (unsigned)MIN(n, SUBIDS_MAX)};
    return true;
}

static bool find_subids(const char *path, const char *name, struct subids *out)
{
    struct subid_search s = {.name = name};
    snprintf(s.number, sizeof(s.number), "%u", getuid());
    if (!find_line(path, is_subid_line, &s))
        return false;
    *out = s.found;
    return true;
}

/* newuidmap PID 0 own 1 1 first count: the set-uid helper checks the grant again. */
static bool run_mapper(const char *program, pid_t target, unsigned own, struct subids ids)
{
    char words[5][16];
    snprintf(words[0], sizeof(words[0]), "%d", target);
    snprintf(words[1], sizeof(words[1]), "%u", own);
    snprintf(words[2], sizeof(words[2]), "%u", ids.first);
    snprintf(words[3], sizeof(words[3]), "%u", ids.count);
    const char *argv[] = {program, words[0], "0", words[1], "1", "1", words[2], words[3], NULL};
    char *envp[] = {NULL};
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        dup2(null, 1);
        dup2(null, 2);
        execve(program, (char *const *)argv, envp);
        _exit(127);
    }
    int status;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

struct grants {
    struct subids uids, gids;
};

#define USER_NAME_BYTES 256

static bool is_own_line(void *ctx, char *fields[FIELDS_MAX], size_t count)
{
    uint64_t uid;
    if (count < 3 || !parse_u64(fields[2], &uid) || uid != getuid())
        return false;
    snprintf(ctx, USER_NAME_BYTES, "%s", fields[0]);
    return true;
}

/* The name straight from the file: the C library's resolvers would load libraries into us. */
static bool find_grants(struct grants *g)
{
    char name[USER_NAME_BYTES];
    return find_line("/etc/passwd", is_own_line, name) && access("/usr/bin/newuidmap", X_OK) == 0 &&
           access("/usr/bin/newgidmap", X_OK) == 0 && find_subids("/etc/subuid", name, &g->uids) &&
           find_subids("/etc/subgid", name, &g->gids);
}

/* The mapper must run outside the namespace that it maps: a child waits there, maps its parent. */
static pid_t start_mapper(const struct grants *g, int *go_fd)
{
    int go[2];
    uid_t uid = getuid();
    gid_t gid = getgid();
    if (pipe2(go, O_CLOEXEC) < 0)
        return -1;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        char byte;
        close(go[1]);
        if (read(go[0], &byte, 1) != 1)
            _exit(1);
        _exit(run_mapper("/usr/bin/newuidmap", parent, uid, g->uids) &&
                      run_mapper("/usr/bin/newgidmap", parent, gid, g->gids)
                  ? 0
                  : 1);
    }
    close(go[0]);
    *go_fd = go[1];
    return pid;
}

static bool map_single(uid_t uid, gid_t gid)
{
    char line[48];
    if (!write_file("/proc/self/setgroups", "deny"))
        return false;
    snprintf(line, sizeof(line), "0 %u 1\n", uid);
    if (!write_file("/proc/self/uid_map", line))
        return false;
    snprintf(line, sizeof(line), "0 %u 1\n", gid);
    return write_file("/proc/self/gid_map", line);
}

static int enter_user_ns(struct error *err)
{
    struct grants grants;
    uid_t uid = geteuid();
    gid_t gid = getegid();
    scoped_fd int go = -1;
    pid_t mapper = find_grants(&grants) ? start_mapper(&grants, &go) : -1;

    if (unshare(CLONE_NEWUSER) < 0) {
        error_sys(err, "make a user namespace");
        err->code = ERROR_ISOLATION;
        return -1;
    }
    bool is_mapped = false;
    if (mapper > 0) {
        int status = 1;
        is_mapped = write(go, "", 1) == 1 && waitpid(mapper, &status, 0) == mapper && status == 0;
    }
    if (!is_mapped && !map_single(uid, gid)) {
        error_sys(err, "map ids into the user namespace");
        err->code = ERROR_ISOLATION;
        return -1;
    }
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return error_sys(err, "become root of the user namespace");
    return 0;
}

/* Whether our uid 0 is the machine's, and not one that a container's user namespace calls so. */
static bool is_root_of_host(void)
{
    struct error err;
    scoped_free char *text = NULL;
    uint64_t inside, outside;
    if (geteuid() != 0)
        return false;
    return fd_read_file("/proc/self/uid_map", &text, SMALL_FILE_BYTES, &err) < 0 ||
           sscanf(text, "%" SCNu64 " %" SCNu64, &inside, &outside) != 2 || outside == 0;
}

int power_gain(struct power *out, struct error *err)
{
    struct power power = {0};
    if (geteuid() == 0 && has_capabilities() && find_ids(&power, err) < 0)
        return -1;
    if (power.uid_count == 0) {
        bool is_root = is_root_of_host();
        power.is_rootless = true;
        if (enter_user_ns(err) < 0 || find_ids(&power, err) < 0)
            return -1;
        /* Files that only root may touch would be the sandbox's own, and the kernel counts no
         * processes of root's, so that they could not be limited. */
        if (power.uid_count == 0 && is_root) {
            error_set(err, ERROR_ISOLATION,
                      "root without its capabilities, whose uid sandboxes "
                      "would have; run as another user");
            err->sys_errno = EPERM;
            return -1;
        }
    }
    if (unshare(CLONE_NEWNS) < 0 || sys_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_sys(err, "make a mount namespace");
    *out = power;
    return 0;
}
