/* coved_calls.c - every system call that coved makes once it has started
 *
 * What is not here is refused with EPERM. There is no way to start a program, to become somebody
 * else, to open a connection (but by the second table), to look into or signal another process, to
 * change mounts, namespaces or limits of others, nor to make memory executable. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <asm/ioctls.h>
#include <asm/unistd.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/macros.h"
#include "base/memory.h"
#include "coved/coved_calls.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define NAMESPACES                                                                                 \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)
#define THREAD (CLONE_VM | CLONE_THREAD | CLONE_SIGHAND)

#define ANY CONFINE_CALL
#define IF  CONFINE_CALL_IF
#define OWN CONFINE_CALL_OWN
#define ALL 0xffffffffu

const struct confine_call coved_calls[] = {
    /* memory; never executable: nothing is loaded any more */
    ANY(brk),
    ANY(madvise),
    ANY(mremap),
    ANY(munmap),
    IF(mmap, 2, PROT_EXEC, 0),
    IF(mprotect, 2, PROT_EXEC, 0),

    /* threads */
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
    ANY(getppid),
    ANY(getuid),
    ANY(geteuid),
    ANY(getgid),
    ANY(getegid),
    ANY(getrusage),
    IF(prlimit64, 0, ALL, 0),
    IF(prctl, 0, ALL, PR_SET_NAME),
    IF(prctl, 0, ALL, PR_GET_DUMPABLE),
    IF(prctl, 0, ALL, PR_SET_VMA),
    ANY(rt_sigaction),
    ANY(rt_sigprocmask),
    ANY(rt_sigreturn),
    ANY(sigaltstack),
    ANY(restart_syscall),
    OWN(tgkill, 0), /* abort(); another server of this machine has the same uid */
    ANY(uname),
    ANY(sysinfo),

    /* time and chance */
    ANY(clock_getres),
    ANY(clock_gettime),
    ANY(clock_nanosleep),
    ANY(gettimeofday),
    ANY(nanosleep),
    ANY(getrandom),

    /* what is open */
    ANY(read),
    ANY(write),
    ANY(readv),
    ANY(writev),
    ANY(pread64),
    ANY(pwrite64),
    ANY(lseek),
    ANY(close),
    ANY(close_range),
    ANY(dup),
    ANY(dup3),
    /* not whom a descriptor is to signal, which may be anybody of the same uid */
    IF(fcntl, 1, ALL, F_DUPFD),
    IF(fcntl, 1, ALL, F_DUPFD_CLOEXEC),
    IF(fcntl, 1, ALL, F_GETFD),
    IF(fcntl, 1, ALL, F_SETFD),
    IF(fcntl, 1, ALL, F_GETFL),
    IF(fcntl, 1, ALL, F_SETFL),
    IF(fcntl, 1, ALL, F_GETLK),
    IF(fcntl, 1, ALL, F_SETLK),
    IF(fcntl, 1, ALL, F_SETLKW),
    IF(fcntl, 1, ALL, F_OFD_GETLK),
    IF(fcntl, 1, ALL, F_OFD_SETLK),
    IF(fcntl, 1, ALL, F_OFD_SETLKW),
    IF(fcntl, 1, ALL, F_GETPIPE_SZ),
    IF(fcntl, 1, ALL, F_SETPIPE_SZ),
    IF(fcntl, 1, ALL, F_ADD_SEALS),
    IF(fcntl, 1, ALL, F_GET_SEALS),
    ANY(flock),
    ANY(fstat),
    ANY(fstatfs),
    ANY(fsync),
    ANY(fdatasync),
    ANY(ftruncate),
    ANY(fallocate),
    ANY(fadvise64),
    ANY(fchmod),
    ANY(splice),
    ANY(tee),
    ANY(sendfile),
    ANY(copy_file_range),
    ANY(memfd_create),
    ANY(pipe2),
    ANY(eventfd2),
    IF(ioctl, 1, ALL, FIONBIO),
    IF(ioctl, 1, ALL, FIOCLEX),
    IF(ioctl, 1, ALL, FIONREAD),
    IF(ioctl, 1, ALL, TCGETS),
    IF(ioctl, 1, ALL, TIOCGWINSZ),

    /* waiting */
    ANY(epoll_create1),
    ANY(epoll_ctl),
    ANY(epoll_pwait),
    ANY(epoll_pwait2),
    ANY(ppoll),
    ANY(pselect6),

    /* files, where landlock lets it */
    ANY(openat),
    ANY(openat2),
    ANY(newfstatat),
    ANY(statx),
    ANY(faccessat),
    ANY(faccessat2),
    ANY(getcwd),
    ANY(getdents64),
    ANY(readlinkat),
    ANY(mkdirat),
    ANY(unlinkat),
    ANY(renameat),
    ANY(renameat2),
    ANY(fchmodat),
    ANY(umask),

    /* sockets that are there, and come in; new ones lead nowhere but to itself */
    IF(socketpair, 0, ALL, AF_UNIX),
    ANY(accept),
    ANY(accept4),
    ANY(getpeername),
    ANY(getsockname),
    ANY(getsockopt),
    ANY(setsockopt),
    ANY(recvfrom),
    ANY(recvmsg),
    ANY(sendmsg),
    ANY(sendto),
    ANY(shutdown),

#ifdef __x86_64__ /* older names of the calls above, which libraries still use */
    ANY(access),
    ANY(chmod),
    ANY(epoll_wait),
    ANY(getrlimit),
    ANY(lstat),
    ANY(mkdir),
    ANY(open),
    ANY(pipe),
    ANY(poll),
    ANY(readlink),
    ANY(rename),
    ANY(rmdir),
    ANY(select),
    ANY(stat),
    ANY(time),
    ANY(unlink),
#endif
};
const size_t coved_call_count = ARRAY_LEN(coved_calls);

/* To connect, and to ask for the address of a name; still none of its own to be connected at. */
static const struct confine_call network_calls[] = {
    IF(socket, 0, ALL, AF_INET),
    IF(socket, 0, ALL, AF_INET6),
    ANY(connect),
    ANY(sendmmsg),
};

struct confine_call *coved_calls_with_network(size_t *count)
{
    struct confine_call *calls =
        xcalloc(coved_call_count + ARRAY_LEN(network_calls), sizeof(*calls));
    memcpy(calls, coved_calls, sizeof(coved_calls));
    memcpy(calls + coved_call_count, network_calls, sizeof(network_calls));
    *count = coved_call_count + ARRAY_LEN(network_calls);
    return calls;
}
