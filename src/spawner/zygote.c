/* zygote.c - from the shell to a python that waits for requests, and its end */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/zygote.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "box/seal_zygote.h"
#include "wire/zygote.h"

#define START_LIMIT_NS (120 * 1000000000ll) /* for all that it imports */
#define BROOD_LIMIT_NS                                                                             \
    (30 * 1000000000ll) /* of the life of a brood: it makes what it shall, and ends */

static int fail(struct spawn_failure *failure, enum error_code code, int sys_errno,
                const char *step)
{
    *failure = (struct spawn_failure){.code = code, .sys_errno = sys_errno, .layer = -1};
    memcpy(failure->step, step, MIN(strlen(step), sizeof(failure->step) - 1));
    return -1;
}

static void close_fd(int *fd)
{
    scoped_close_fd(fd);
    *fd = -1;
}

/* --- starting -------------------------------------------------------------------------------- */

int zygote_start(struct zygote **out, struct host *host, const struct spawn_create *r,
                 const int fds[SPAWN_ZYGOTE_FDS], struct spawn_failure *failure)
{
    struct error err;
    struct sandbox *shell;
    if (host_load_zygote(host, &err) < 0)
        return fail(failure, err.code, err.sys_errno, "this build of Cove has no zygote");
    if (sandbox_create_shell(&shell, host, r, failure) < 0)
        return -1;
    struct zygote *z = xcalloc(1, sizeof(*z));
    *z = (struct zygote){
        .id = shell->id,
        .shell = shell,
        .process = {.pid_fd = -1, .report_fd = -1},
        .is_reaped = true,
        .fds = {fds[0], fds[1], fds[2]},
        .discard = &host->discard,
        .deadline_ns = MIN(clock_now_ns() + START_LIMIT_NS, shell->deadline_ns),
    };
    memcpy(z->image, r->image, sizeof(z->image));
    *out = z;
    return 0;
}

int zygote_start_brood(struct zygote **out, struct zygote *from, struct host *host,
                       struct spawn_failure *failure)
{
    struct error err;
    const struct zygote_request request = {.flags = ZYGOTE_BROOD};
    scoped_fd int ours = -1;
    scoped_fd int theirs = -1;
    if (from->state != ZYGOTE_READY || from->is_brood)
        return fail(failure, ERROR_UNAVAILABLE, 0, "the zygote is not ready");
    if (seal_open_report(&ours, &theirs, &err) < 0)
        return fail(failure, err.code, err.sys_errno, err.msg);
    if (fd_send(from->process.report_fd, &request, sizeof(request), &theirs, 1) < 0)
        return fail(failure, ERROR_UNAVAILABLE, errno, "ask the zygote");
    struct zygote *z = xcalloc(1, sizeof(*z));
    *z = (struct zygote){
        .id = host->next_id++,
        .state = ZYGOTE_STARTING,
        .shell = from->shell,
        .is_brood = true,
        .process = {.pid_fd = -1, .report_fd = take_fd(&ours)},
        .is_reaped = true,
        .fds = {-1, -1, -1},
        .discard = &host->discard,
        .deadline_ns = clock_now_ns() + BROOD_LIMIT_NS,
    };
    memcpy(z->image, from->image, sizeof(z->image));
    z->shell->made_count++; /* which keeps the shell */
    *out = z;
    return 0;
}

static void drop_files(struct zygote *z)
{
    for (size_t i = 0; i < SPAWN_ZYGOTE_FDS; i++)
        discard_add(z->discard, &z->fds[i]);
}

static int launch(struct zygote *z, struct host *host, struct error *err)
{
    struct cgroup_entry *entry = &z->shell->plan.entry;
    if (cgroup_open_entry(entry, &z->shell->cgroup, z->shell->tree, err) < 0)
        return -1;
    const struct seal_zygote_plan plan = {
        .shell = &z->shell->plan,
        .shell_pid_fd = z->shell->child.pid_fd,
        .fds = {[2] = z->fds[2],
                [ZYGOTE_MODULE_FD] = host->zygote_fds[HOST_ZYGOTE_MODULE],
                [ZYGOTE_PROGRAM_FD] = host->zygote_fds[HOST_ZYGOTE_PROGRAM],
                [ZYGOTE_INIT_FD] = host->init_fd,
                [ZYGOTE_KERNEL_FD] = z->fds[0],
                [ZYGOTE_CONFIG_FD] = z->fds[1]},
    };
    int status = seal_zygote_start(&z->process, &plan, err);
    cgroup_entry_release(entry);
    drop_files(z);
    return status;
}

/* The shell is sealed, or not. */
static enum zygote_news on_shell(struct zygote *z, struct host *host, struct spawn_failure *failure)
{
    struct error err;
    if (sandbox_on_report(z->shell, z->discard, failure) < 0) {
        sandbox_kill(z->shell);
        zygote_end(z);
        return ZYGOTE_FAILED;
    }
    if (z->shell->state != SANDBOX_LIVE)
        return ZYGOTE_NO_NEWS;
    if (launch(z, host, &err) < 0) {
        fail(failure, err.code, err.sys_errno, err.msg);
        zygote_end(z);
        return ZYGOTE_FAILED;
    }
    z->state = ZYGOTE_STARTING;
    return ZYGOTE_NO_NEWS;
}

static enum zygote_news on_word(struct zygote *z, struct host *host, struct spawn_failure *failure)
{
    struct seal_report report;
    struct fd_bag strays;
    struct error err;
    ssize_t n = seal_receive(&z->process, &report, &strays);
    int sys_errno = errno;
    discard_bag(z->discard, &strays);
    errno = sys_errno;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return ZYGOTE_NO_NEWS;
    z->is_reaped = z->process.pid == 0;
    bool is_word = n == sizeof(report);
    if (is_word && (report.event == SEAL_BORN || report.event == SEAL_DONE))
        return ZYGOTE_NO_NEWS;
    if (is_word && report.event == SEAL_MAP_ME && z->state == ZYGOTE_STARTING) {
        if (seal_zygote_map_ids(&z->process, &z->shell->plan, &host->power, &err) == 0)
            return ZYGOTE_NO_NEWS;
        fail(failure, ERROR_ISOLATION, err.sys_errno, err.msg);
    } else if (is_word && report.event == SEAL_READY && z->state == ZYGOTE_STARTING) {
        z->state = ZYGOTE_READY;
        z->deadline_ns = z->is_brood ? z->deadline_ns : z->shell->deadline_ns;
        return ZYGOTE_IS_READY;
    } else if (is_word && report.event == SEAL_FAILED) {
        report.step[sizeof(report.step) - 1] = '\0';
        fail(failure, ERROR_ISOLATION, report.sys_errno, report.step);
    } else {
        fail(failure, ERROR_ISOLATION, 0, "the zygote died");
    }
    bool was_ready = z->state == ZYGOTE_READY;
    zygote_end(z);
    return was_ready ? ZYGOTE_EXITED : ZYGOTE_FAILED;
}

/* --- running --------------------------------------------------------------------------------- */

void zygote_get_polls(const struct zygote *z, struct pollfd polls[ZYGOTE_POLLS])
{
    const struct seal_child *shell = &z->shell->child;
    int first = z->state == ZYGOTE_SHELL ? shell->report_fd : shell->pid_fd;
    int second = z->process.report_fd >= 0 ? z->process.report_fd : z->process.pid_fd;
    if (z->process.report_fd < 0 && z->is_reaped)
        second = -1;
    if (z->shell->is_reaped || z->is_brood) /* the shell is its zygote's to look after */
        first = -1;
    polls[0] = (struct pollfd){.fd = first, .events = POLLIN};
    polls[1] = (struct pollfd){.fd = second, .events = POLLIN};
}

static void reap(struct zygote *z)
{
    siginfo_t info = {0};
    if (waitid(P_PIDFD, (id_t)z->process.pid_fd, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0)
        return;
    z->is_reaped = true;
    close_fd(&z->process.pid_fd);
}

enum zygote_news zygote_on_poll(struct zygote *z, struct host *host,
                                const struct pollfd polls[ZYGOTE_POLLS],
                                struct spawn_failure *failure)
{
    enum zygote_news news = ZYGOTE_NO_NEWS;
    if (polls[0].revents && z->state == ZYGOTE_SHELL)
        return on_shell(z, host, failure);
    if (polls[0].revents)
        sandbox_on_exit(
            z->shell); /* its processes are killed with it; our end of the socket tells */
    if (polls[1].revents && z->process.report_fd >= 0)
        news = on_word(z, host, failure);
    else if (polls[1].revents)
        reap(z);
    return news;
}

struct sandbox *zygote_take_spare(struct zygote *z)
{
    struct sandbox *spare = z->spare;
    z->spare = NULL;
    return spare;
}

static bool is_like(const struct spawn_create *a, const struct spawn_create *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

int zygote_create(struct sandbox **out, struct zygote *z, struct host *host,
                  const struct spawn_create *r, struct sandbox **unfit,
                  struct spawn_failure *failure)
{
    struct sandbox *sb = NULL;
    *unfit = NULL;
    if (z->state != ZYGOTE_READY)
        return fail(failure, ERROR_UNAVAILABLE, 0, "the zygote is not ready");
    if (memcmp(r->image, z->image, sizeof(z->image)) != 0)
        return fail(failure, ERROR_INVALID, 0, "the zygote runs another image");
    if (is_like(r, &z->last))
        sb = zygote_take_spare(z);
    else
        *unfit = zygote_take_spare(z);
    const struct spawn_create before = z->last;
    z->last = (struct spawn_create){0};
    if (!sb && sandbox_prepare_warm(&sb, host, r, z->shell, z->process.report_fd, failure) < 0)
        return -1;
    if (sandbox_start_warm(sb, host, failure) < 0) {
        *unfit = sb;
        return -1;
    }
    /* A spare with packages would hold their layer for nobody. */
    z->last = sandbox_wants_packages(r) ? before : *r;
    sb->brood = z->is_brood ? z->id : 0;
    *out = sb;
    return 0;
}

/* Not while one waits for the zygote: its own comes first. */
void zygote_refill(struct zygote *z, struct host *host)
{
    struct spawn_failure failure;
    if (z->state != ZYGOTE_READY || z->is_brood || z->spare || z->shell->busy_count > 0 ||
        !z->last.zygote)
        return;
    if (sandbox_prepare_warm(&z->spare, host, &z->last, z->shell, z->process.report_fd, &failure) <
        0)
        z->last = (struct spawn_create){0}; /* the next who asks gets to know why */
}

/* --- ending ---------------------------------------------------------------------------------- */

void zygote_end(struct zygote *z)
{
    z->state = ZYGOTE_ENDING;
    drop_files(z);
    discard_channel(z->discard, &z->process.report_fd);
    if (!z->is_reaped)
        syscall(SYS_pidfd_send_signal, z->process.pid_fd, SIGKILL, NULL, 0);
}

bool zygote_is_closing(const struct zygote *z)
{
    return z->state == ZYGOTE_ENDING && !z->is_brood && z->shell->state == SANDBOX_ENDING;
}

static void free_zygote(struct zygote *z)
{
    close_fd(&z->process.pid_fd);
    free(z);
}

bool zygote_try_remove(struct zygote *z, struct host *host)
{
    if (z->state != ZYGOTE_ENDING || !z->is_reaped)
        return false;
    if (z->is_brood) {
        z->shell->made_count--;
        free_zygote(z);
        return true;
    }
    if (z->shell->made_count > 0)
        return false;
    if (!z->shell->is_reaped) {
        if (z->shell->state != SANDBOX_ENDING)
            sandbox_kill(z->shell);
        z->shell->state = SANDBOX_ENDING;
        return false;
    }
    if (!sandbox_try_remove(z->shell, host))
        return false;
    free_zygote(z);
    return true;
}
