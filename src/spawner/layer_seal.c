/* layer_seal.c - clears what crashed helpers left, copies, says how it went */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/layer_seal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "box/caps.h"
#include "box/landlock.h"
#include "box/layer_copy.h"
#include "box/syscalls.h"

#define DEADLINE_S   300
#define NOTE_MAX     (64 * KIB)
#define DRAFT_PREFIX ".new-"

struct report {
    int32_t sys_errno; /* 0: good */
    char step[SPAWN_STEP_BYTES];
};

/* --- in the helper --------------------------------------------------------------------------- */

struct work {
    int store_fd, from_fd, note_fd, report_fd;
    const struct spawn_limits *limits;
    int draft_fd;
    const char *step;
};

/* Locked as long as somebody writes it: the lock ends with its process. */
static void remove_stale(int store_fd, const char *name)
{
    scoped_fd int fd = openat(store_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && layer_empty(fd) == 0)
        unlinkat(store_fd, name, AT_REMOVEDIR);
}

static void remove_leftovers(int store_fd)
{
    int fd = openat(store_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, DRAFT_PREFIX, strlen(DRAFT_PREFIX)) == 0)
            remove_stale(store_fd, entry->d_name);
    }
    if (dir)
        closedir(dir);
}

static int open_draft(struct work *w)
{
    char name[LAYER_DRAFT_BYTES];
    snprintf(name, sizeof(name), DRAFT_PREFIX "%d", getpid());
    w->step = "make a draft of the package layer";
    if (mkdirat(w->store_fd, name, 0755) < 0)
        return -1;
    w->draft_fd = openat(w->store_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return w->draft_fd < 0 ? -1 : flock(w->draft_fd, LOCK_EX | LOCK_NB);
}

/* What the helper needs no more goes before it looks at anything of a tenant's. */
static int give_up_power(struct work *w)
{
    w->step = "confine the helper";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    if (landlock_apply_copy(w->from_fd, w->draft_fd) < 0 && errno != EOPNOTSUPP && errno != ENOSYS)
        return -1;
    return caps_drop_bounding() < 0 ? -1 : caps_drop_all();
}

static int write_file(int dir_fd, const char *name, const void *data, size_t len)
{
    scoped_fd int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd >= 0 && write(fd, data, len) == (ssize_t)len ? 0 : -1;
}

static int write_notes(struct work *w, const struct layer_copy *copy)
{
    static char note[NOTE_MAX];
    char size[64];
    int len = snprintf(size, sizeof(size), "%" PRIu64 " %" PRIu64 "\n", copy->bytes, copy->entries);
    ssize_t n = pread(w->note_fd, note, sizeof(note), 0);
    w->step = "write the note of the package layer";
    return n < 0 || write_file(w->draft_fd, "note", note, (size_t)n) < 0 ||
                   write_file(w->draft_fd, "size", size, (size_t)len) < 0
               ? -1
               : 0;
}

static int copy_all(struct work *w)
{
    struct layer_copy copy = {.bytes_max = w->limits->disk_bytes, .entries_max = w->limits->inodes};
    w->step = "make a draft of the package layer";
    scoped_fd int tree = mkdirat(w->draft_fd, "tree", 0755) < 0
                             ? -1
                             : openat(w->draft_fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree < 0)
        return -1;
    int status = layer_copy_tree(&copy, w->from_fd, tree);
    if (status < 0)
        w->step = copy.step;
    if (status < 0 || write_notes(w, &copy) < 0)
        return -1;
    w->step = "write the package layer to the disk";
    return syncfs(w->draft_fd);
}

static NORETURN void helper_main(struct work *w)
{
    struct report report = {0};
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(DEADLINE_S);
    umask(022);
    remove_leftovers(w->store_fd);
    if (open_draft(w) < 0 || give_up_power(w) < 0 || copy_all(w) < 0) {
        report.sys_errno = errno ? errno : EIO;
        snprintf(report.step, sizeof(report.step), "%s", w->step);
        if (w->draft_fd >= 0)
            (void)!layer_empty(w->draft_fd);
    }
    (void)!write(w->report_fd, &report, sizeof(report));
    _exit(0);
}

/* --- the spawner's side ---------------------------------------------------------------------- */

static int fail(struct spawn_failure *failure, enum error_code code, int sys_errno,
                const char *step)
{
    *failure = (struct spawn_failure){.code = code, .sys_errno = sys_errno, .layer = -1};
    memcpy(failure->step, step, MIN(strlen(step), sizeof(failure->step) - 1));
    return -1;
}

/* Nobody but its owner may look into it, and a helper without power is somebody else. */
static int open_source(const struct sandbox *sb)
{
    scoped_fd int fd = rootfs_open_workspace(&sb->root);
    if (fd < 0 || fchmod(fd, 0755) < 0)
        return -1;
    return take_fd(&fd);
}

static pid_t start_helper(struct work *w, int *pid_fd)
{
    struct clone_args args = {
        .flags = CLONE_PIDFD, .pidfd = (uintptr_t)pid_fd, .exit_signal = SIGCHLD};
    pid_t pid = sys_clone3(&args);
    if (pid == 0)
        helper_main(w);
    return pid;
}

int layer_seal_start(struct layer_seal **out, const struct layer_store *store,
                     const struct sandbox *sb, const uint8_t digest[SPAWN_DIGEST_BYTES],
                     int note_fd, struct spawn_failure *failure)
{
    int pid_fd = -1, pair[2];
    if (store->fd < 0)
        return fail(failure, ERROR_UNAVAILABLE, 0, "there is no place for package layers");
    if (sb->state != SANDBOX_OVER || sb->root.storage_fd < 0)
        return fail(failure, ERROR_CONFLICT, 0, "the sandbox is not over");
    scoped_fd int from = open_source(sb);
    if (from < 0 || pipe2(pair, O_CLOEXEC) < 0)
        return fail(failure, ERROR_UNAVAILABLE, errno, "open the packages");
    struct work w = {.store_fd = store->fd,
                     .from_fd = from,
                     .note_fd = note_fd,
                     .report_fd = pair[1],
                     .limits = &sb->plan.limits,
                     .draft_fd = -1};
    pid_t pid = start_helper(&w, &pid_fd);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return fail(failure, ERROR_UNAVAILABLE, errno, "start a helper");
    }
    struct layer_seal *seal = xcalloc(1, sizeof(*seal));
    *seal =
        (struct layer_seal){.sandbox = sb->id, .pid = pid, .pid_fd = pid_fd, .report_fd = pair[0]};
    memcpy(seal->digest, digest, sizeof(seal->digest));
    snprintf(seal->draft, sizeof(seal->draft), DRAFT_PREFIX "%d", pid);
    *out = seal;
    return 0;
}

void layer_seal_cancel(const struct layer_seal *seal)
{
    syscall(SYS_pidfd_send_signal, seal->pid_fd, SIGKILL, NULL, 0);
}

static enum error_code code_of(int error)
{
    return error == EFBIG                       ? ERROR_TOO_LARGE
           : error == EINVAL || error == EACCES ? ERROR_DENIED
                                                : ERROR_UNAVAILABLE;
}

int layer_seal_finish(struct layer_seal *seal, struct layer_store *store,
                      struct spawn_failure *failure)
{
    siginfo_t info = {0};
    struct report report = {0};
    struct error err;
    waitid(P_PIDFD, (id_t)seal->pid_fd, &info, WEXITED);
    bool is_told = read(seal->report_fd, &report, sizeof(report)) == sizeof(report);
    int status = 0;
    report.step[sizeof(report.step) - 1] = '\0';
    if (!is_told)
        status = fail(failure, ERROR_TIMEOUT, 0, "the package layer was not written in time");
    else if (report.sys_errno)
        status = fail(failure, code_of(report.sys_errno), report.sys_errno, report.step);
    else if (layer_store_add(store, seal->draft, seal->digest, &err) < 0)
        status = fail(failure, err.code, err.sys_errno, err.msg);
    if (status < 0) /* one that is empty goes, what a killed helper left is for the next one */
        unlinkat(store->fd, seal->draft, AT_REMOVEDIR);
    close(seal->pid_fd);
    close(seal->report_fd);
    free(seal);
    return status;
}
