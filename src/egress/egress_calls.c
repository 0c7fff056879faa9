/* egress_calls.c - every system call that cove-egress makes once it has started
 *
 * What is not here is refused with EPERM. It may open connections, which is its work, and read what
 * a resolver reads. There is no way to listen, to write a file, to start a program, to look into or
 * signal another process, nor to make memory executable. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress_calls.h"

#include <asm/ioctls.h>
#include <asm/unistd.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/macros.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define NAMESPACES                                                                                 \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)
#define THREAD  (CLONE_VM | CLONE_THREAD | CLONE_SIGHAND)
#define WRITING (O_ACCMODE | O_CREAT | O_TRUNC)

#define ANY CONFINE_CALL
#define IF  CONFINE_CALL_IF
#define OWN CONFINE_CALL_OWN
#define ALL 0xffffffffu

const struct confine_call egress_calls[] = {
    /* memory; never executable: nothing is loaded any more */
    ANY(brk),
    ANY(madvise),
    ANY(mremap),
    ANY(munmap),
    IF(mmap, 2, PROT_EXEC, 0),
    IF(mprotect, 2, PROT_EXEC, 0),

    /* threads, which resolve names */
    IF(clone, 0, THREAD | NAMESPACES, THREAD),
    ANY(futex),
    ANY(membarrier),
    ANY(rseq),
    ANY(sched_getaffinity),
    ANY(sched_yield),
    ANY(set_robust_list),
    ANY(gettid),
    ANY(exit),
    ANY(exit_group),

    /* itself */
    ANY(getpid),
    ANY(getuid),
    ANY(geteuid),
    ANY(getgid),
    ANY(getegid),
    IF(prlimit64, 0, ALL, 0),
    IF(prctl, 0, ALL, PR_SET_NAME),
    IF(prctl, 0, ALL, PR_SET_VMA),
    ANY(rt_sigaction),
    ANY(rt_sigprocmask),
    ANY(rt_sigreturn),
    ANY(sigaltstack),
    ANY(restart_syscall),
    OWN(tgkill, 0), /* abort(); the proxy of another server has the same uid */
    ANY(uname),
    ANY(sysinfo),

    /* time and chance */
    ANY(clock_getres),
    ANY(clock_gettime),
    ANY(clock_nanosleep),
    ANY(gettimeofday),
    ANY(getrandom),

    /* what is open */
    ANY(read),
    ANY(write),
    ANY(readv),
    ANY(writev),
    ANY(pread64),
    ANY(lseek),
    ANY(close),
    ANY(dup),
    /* not whom a descriptor is to signal, which may be anybody of the same uid */
    IF(fcntl, 1, ALL, F_DUPFD),
    IF(fcntl, 1, ALL, F_DUPFD_CLOEXEC),
    IF(fcntl, 1, ALL, F_GETFD),
    IF(fcntl, 1, ALL, F_SETFD),
    IF(fcntl, 1, ALL, F_GETFL),
    IF(fcntl, 1, ALL, F_SETFL),
    IF(fcntl, 1, ALL, F_ADD_SEALS),
    IF(fcntl, 1, ALL, F_GET_SEALS),
    ANY(fstat),
    ANY(pipe2),
    ANY(eventfd2),
    IF(ioctl, 1, ALL, FIONBIO),
    IF(ioctl, 1, ALL, FIONREAD),

    /* waiting */
    ANY(epoll_create1),
    ANY(epoll_ctl),
    ANY(epoll_pwait),
    ANY(epoll_pwait2),
    ANY(ppoll),
    ANY(pselect6),

    /* files: to be read, where landlock lets it */
    IF(openat, 2, WRITING, O_RDONLY),
    ANY(newfstatat),
    ANY(statx),
    ANY(getdents64),

    /* connections */
    IF(socket, 0, ALL, AF_INET),
    IF(socket, 0, ALL, AF_INET6),
    ANY(connect),
    ANY(accept4),
    ANY(getpeername),
    ANY(getsockname),
    ANY(getsockopt),
    ANY(setsockopt),
    ANY(recvfrom),
    ANY(recvmsg),
    ANY(sendmsg),
    ANY(sendmmsg),
    ANY(sendto),
    ANY(shutdown),

#ifdef __x86_64__ /* older names of the calls above, which libraries still use */
    ANY(epoll_wait),
    ANY(poll),
    ANY(select),
    ANY(stat),
    ANY(time),
#endif
};
const size_t egress_call_count = ARRAY_LEN(egress_calls);

/* Directories, not files: a resolver's configuration is replaced, not rewritten. */
int egress_confine(struct error *err)
{
    static const char *const none[] = {NULL};
    static const char *const readable[] = {"/etc", "/run/systemd/resolve", "/run/resolvconf",
                                           "/run/NetworkManager", NULL};
    const struct confine_order order = {.who = "the egress proxy",
                                        .calls = egress_calls,
                                        .call_count = egress_call_count,
                                        .may_connect = true,
                                        .writable = none,
                                        .readable = readable};
    return confine_apply(&order, err);
}
