/* apart.c - the helper that compares memories, and looks through those of the fork
 *
 * What it believes is what the kernel says of processes that stand still. It looks at threads: a
 * process whose first thread has ended shows no memory of its own, and the others have it still. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/apart.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "box/syscalls.h"

#define DEADLINE_S 10
#define TASKS_MAX  8192
#define LOOK_NS    1000000000 /* who has just been killed may take a while to let go of it */
#define ROUND_US   100
#define FREEZE_US  50

enum { EXIT_APART = 0, EXIT_UNKNOWN = 1, EXIT_SHARED = 3 };

/* The fork itself among them. */
static bool is_kin(const struct sandbox *sb, uint64_t brood)
{
    return sb->brood == brood && !sb->is_reaped && sb->state != SANDBOX_SEALING;
}

/* --- in the helper --------------------------------------------------------------------------- */

static bool freeze(const struct sandbox *sb)
{
    struct error err;
    return cgroup_freeze(&sb->cgroup, sb->tree, true, &err) == 0;
}

static void wait_frozen(const struct sandbox *sb)
{
    while (!cgroup_is_frozen(&sb->cgroup, sb->tree))
        usleep(FREEZE_US); /* the alarm ends this */
}

/* All at once: each of their processes needs a turn of a processor to come to a stand. */
static bool freeze_kin(const struct sandbox *sb, const struct roster *all)
{
    for (struct sandbox *k = roster_first(all); k; k = roster_after(all, k)) {
        if (is_kin(k, sb->brood) && !freeze(k))
            return false;
    }
    for (struct sandbox *k = roster_first(all); k; k = roster_after(all, k)) {
        if (is_kin(k, sb->brood))
            wait_frozen(k);
    }
    return true;
}

/* One who is gone has no memory. */
static int compare(pid_t a, pid_t b)
{
    long answer = syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);
    if (answer < 0 && errno != ESRCH)
        return EXIT_UNKNOWN;
    return answer == 0 ? EXIT_SHARED : EXIT_APART;
}

/* Whether kcmp() can be trusted here: everybody is the same as himself. */
static bool can_compare(void)
{
    return compare(getpid(), getpid()) == EXIT_SHARED;
}

static int compare_with_others(const struct sandbox *sb, const struct roster *all, const pid_t *own,
                               size_t count)
{
    static pid_t other[TASKS_MAX];
    for (struct sandbox *k = roster_first(all); k; k = roster_after(all, k)) {
        size_t others = k != sb && is_kin(k, sb->brood)
                            ? cgroup_list_threads(&k->cgroup, k->tree, other, TASKS_MAX)
                            : 0;
        if (others > TASKS_MAX)
            return EXIT_UNKNOWN;
        for (size_t i = 0; i < count * others; i++) {
            int answer = compare(own[i / others], other[i % others]);
            if (answer != EXIT_APART)
                return answer;
        }
    }
    return EXIT_APART;
}

/* One that has ended has nothing; of any other we must be able to see all. */
static int on_failure(void)
{
    return errno == ENOENT || errno == ESRCH ? EXIT_APART : EXIT_UNKNOWN;
}

static int open_of(pid_t tid, const char *name, int flags)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
    return open(path, flags | O_CLOEXEC);
}

/* A file that nobody inside can write to: one of a read-only mount, as all of images and packages
 * are, or one in memory that is sealed. What else there is lies in a workspace or in the memory of
 * a process, and the other session may have it, too. */
static int look_at_file(int maps_dir, const char *range)
{
    struct statfs fs;
    scoped_fd int place = openat(maps_dir, range, O_PATH | O_CLOEXEC);
    if (place < 0)
        return errno == ENOENT ? EXIT_SHARED : EXIT_UNKNOWN;
    if (fstatfs(place, &fs) < 0)
        return EXIT_UNKNOWN;
    if (fs.f_flags & ST_RDONLY)
        return EXIT_APART;
    /* One with a lease on it would have us wait. */
    scoped_fd int file = openat(maps_dir, range, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int seals = file < 0 ? -1 : fcntl(file, F_GET_SEALS);
    return seals >= 0 && seals & F_SEAL_WRITE ? EXIT_APART : EXIT_SHARED;
}

/* Of a line of maps, "from-to rights offset device inode name", where each begins. */
enum { MAP_RANGE, MAP_RIGHTS, MAP_OFFSET, MAP_DEVICE, MAP_INODE, MAP_FIELDS };

#define RIGHTS_SHARED 3 /* of "r-xs", whatever the rights are just now */
#define FILE_BYTES    64

static bool split(char *line, char *field[MAP_FIELDS])
{
    char *at = line;
    for (size_t i = 0; i < MAP_FIELDS; i++) {
        field[i] = at;
        at += strcspn(at, " \n");
        if (*at != '\0')
            *at++ = '\0';
    }
    return strlen(field[MAP_RIGHTS]) == RIGHTS_SHARED + 1 && *field[MAP_INODE] != '\0';
}

/* The maps of a file follow each other: `good` is the last one that was found to be good. */
static int look_at_map(int files, char *line, char good[FILE_BYTES])
{
    char *field[MAP_FIELDS], file[FILE_BYTES], range[40];
    if (!split(line, field))
        return EXIT_UNKNOWN;
    bool is_shared = field[MAP_RIGHTS][RIGHTS_SHARED] == 's';
    snprintf(file, sizeof(file), "%s %s", field[MAP_DEVICE], field[MAP_INODE]);
    if (strcmp(file, "00:00 0") == 0)
        return is_shared ? EXIT_SHARED : EXIT_APART;
    if (strcmp(file, good) == 0)
        return EXIT_APART;
    char *end;
    unsigned long from = strtoul(field[MAP_RANGE], &end, 16); /* its link has no zeros in front */
    snprintf(range, sizeof(range), "%lx-%lx", from, strtoul(end + (*end == '-'), NULL, 16));
    int answer = look_at_file(files, range);
    if (answer == EXIT_APART)
        memcpy(good, file, sizeof(file));
    return answer;
}

static int look_at_maps(pid_t tid)
{
    scoped_fd int files = open_of(tid, "map_files", O_RDONLY | O_DIRECTORY);
    scoped_fd int fd = files < 0 ? -1 : open_of(tid, "maps", O_RDONLY);
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    char *line = NULL, good[FILE_BYTES] = "";
    size_t room = 0;
    int answer = EXIT_APART;
    if (!maps)
        return on_failure();
    (void)take_fd(&fd);
    while (answer == EXIT_APART && getline(&line, &room, maps) > 0)
        answer = look_at_map(files, line, good);
    if (answer == EXIT_APART && ferror(maps))
        answer = on_failure();
    free(line);
    fclose(maps);
    return answer;
}

/* In the queue of a unix socket there may be any descriptor, to be received later. */
static bool holds_others(pid_t tid, const char *fd)
{
    char path[40], text[1024];
    snprintf(path, sizeof(path), "fdinfo/%.16s", fd);
    scoped_fd int file = open_of(tid, path, O_RDONLY);
    ssize_t n = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
    text[MAX(n, 0)] = '\0';
    const char *count = strstr(text, "scm_fds:");
    return n < 0 || (count && strtoul(count + strlen("scm_fds:"), NULL, 10) > 0);
}

/* A file of /proc goes on showing the memory of which it was opened, "mem" to the last byte; and an
 * heir that code has taken over can open its own before it forks. */
static int look_at_descriptors(pid_t tid)
{
    scoped_fd int fd = open_of(tid, "fd", O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int answer = EXIT_APART;
    if (!dir)
        return on_failure();
    (void)take_fd(&fd);
    for (struct dirent *e; answer == EXIT_APART && (errno = 0, e = readdir(dir));) {
        struct statfs fs;
        struct stat st;
        scoped_fd int file =
            e->d_name[0] == '.' ? -1 : openat(dirfd(dir), e->d_name, O_PATH | O_CLOEXEC);
        if (e->d_name[0] == '.')
            continue;
        if (file < 0 || fstatfs(file, &fs) < 0 || fstat(file, &st) < 0)
            answer = EXIT_UNKNOWN;
        else if ((fs.f_type == PROC_SUPER_MAGIC && S_ISREG(st.st_mode)) ||
                 (S_ISSOCK(st.st_mode) && holds_others(tid, e->d_name)))
            answer = EXIT_SHARED;
    }
    if (answer == EXIT_APART && errno)
        answer = on_failure();
    closedir(dir);
    return answer;
}

static int look_once(const struct sandbox *sb, const struct roster *all)
{
    static pid_t own[TASKS_MAX];
    size_t count = cgroup_list_threads(&sb->cgroup, sb->tree, own, TASKS_MAX);
    if (count == 0 || count > TASKS_MAX)
        return EXIT_UNKNOWN; /* nothing that could be told to be good */
    int answer = compare_with_others(sb, all, own, count);
    for (size_t i = 0; answer == EXIT_APART && i < count; i++) {
        answer = look_at_maps(own[i]);
        if (answer == EXIT_APART)
            answer = look_at_descriptors(own[i]);
    }
    return answer;
}

static NORETURN void helper_main(const struct sandbox *sb, const struct roster *all)
{
    struct error err;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(DEADLINE_S);
    if (!can_compare() || !freeze_kin(sb, all))
        _exit(EXIT_UNKNOWN);
    int64_t end_ns = clock_now_ns() + LOOK_NS;
    for (;;) {
        int answer = look_once(sb, all);
        if (answer == EXIT_APART || clock_now_ns() >= end_ns)
            _exit(answer);
        /* Frozen, who has just been killed would never let go of it. */
        (void)!cgroup_freeze(&sb->cgroup, sb->tree, false, &err);
        usleep(ROUND_US);
        if (!freeze(sb))
            _exit(EXIT_UNKNOWN);
        wait_frozen(sb);
    }
}

/* --- the spawner's side ---------------------------------------------------------------------- */

static int fail(struct spawn_failure *failure, enum error_code code, const char *step)
{
    *failure = (struct spawn_failure){.code = code, .layer = -1};
    memcpy(failure->step, step, MIN(strlen(step), sizeof(failure->step) - 1));
    return -1;
}

int apart_start(struct apart **out, struct sandbox *sb, const struct roster *all,
                struct spawn_failure *failure)
{
    int pid_fd = -1;
    struct clone_args args = {
        .flags = CLONE_PIDFD, .pidfd = (uintptr_t)&pid_fd, .exit_signal = SIGCHLD};
    if (!sb->brood || sb->state != SANDBOX_LIVE)
        return fail(failure, ERROR_CONFLICT, "the sandbox has no kin, or is over");
    pid_t pid = sys_clone3(&args);
    if (pid == 0)
        helper_main(sb, all);
    if (pid < 0)
        return fail(failure, ERROR_UNAVAILABLE, "start a helper");
    *out = xcalloc(1, sizeof(**out));
    **out = (struct apart){.sandbox = sb->id, .brood = sb->brood, .pid = pid, .pid_fd = pid_fd};
    return 0;
}

/* One that a client has frozen wakes up, too: it is asked again when it is unused again. */
static void thaw_kin(const struct apart *a, const struct roster *all)
{
    struct error err;
    for (struct sandbox *k = roster_first(all); k; k = roster_after(all, k)) {
        if (is_kin(k, a->brood) && cgroup_freeze(&k->cgroup, k->tree, false, &err) < 0 &&
            err.code != ERROR_UNAVAILABLE && cgroup_freeze(&k->cgroup, k->tree, false, &err) < 0)
            sandbox_kill(k); /* frozen for good it would be of no use */
    }
}

int apart_finish(struct apart *a, const struct roster *all, struct spawn_failure *failure)
{
    siginfo_t info = {0};
    waitid(P_PIDFD, (id_t)a->pid_fd, &info, WEXITED);
    thaw_kin(a, all);
    close(a->pid_fd);
    free(a);
    if (info.si_code == CLD_EXITED && info.si_status == EXIT_APART)
        return 0;
    if (info.si_code == CLD_EXITED && info.si_status == EXIT_SHARED)
        return fail(failure, ERROR_ISOLATION, "the fork has no memory of its own");
    return fail(failure, ERROR_DENIED, "this host cannot tell whether a fork is apart");
}
