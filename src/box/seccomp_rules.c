/* seccomp_rules.c - the table: every call of Linux 6.1, and what it answers in a sandbox
 *
 * A call that is not listed answers ENOSYS. Refused calls answer the error that makes programs fall
 * back quietly where they have a fallback, else EPERM. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <asm/ioctls.h>
#include <asm/unistd.h>
#include <errno.h>
#include <linux/prctl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "box/seccomp.h"

#define ALL          0xffffffffu
#define SHM_HUGETLB_ 04000  /* <sys/shm.h> has no place beside the kernel's headers */
#define TIOCLINUX_   0x541c /* asm/ioctls.h has it only on some machines */

#define NAMESPACE_FLAGS                                                                            \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET | 0x80 /* CLONE_NEWTIME */)

#define ONE(arg, mask, value)                                                                      \
    {                                                                                              \
        .tests = {{arg, mask, (uint32_t)(value)}}, .count = 1                                      \
    }
#define TWO(a1, m1, v1, a2, m2, v2)                                                                \
    {                                                                                              \
        .tests = {{a1, m1, v1}, {a2, m2, v2}}, .count = 2                                          \
    }
#define THREE(a1, m1, v1, a2, m2, v2, a3, m3, v3)                                                  \
    {                                                                                              \
        .tests = {{a1, m1, v1}, {a2, m2, v2}, {a3, m3, v3}}, .count = 3                            \
    }

/* New namespaces would give back the capabilities that the seal took. 0x80 is both NEWTIME and the
 * low byte of the exit signal: no signal has that number. */
static const struct seccomp_case clone_plain[] = {ONE(0, NAMESPACE_FLAGS, 0)};

/* Local, TCP and UDP; nothing else has to reach the kernel's network code. */
static const struct seccomp_case socket_kinds[] = {
    TWO(0, ALL, AF_UNIX, 1, 0xf, SOCK_STREAM),
    TWO(0, ALL, AF_UNIX, 1, 0xf, SOCK_DGRAM),
    TWO(0, ALL, AF_UNIX, 1, 0xf, SOCK_SEQPACKET),
    THREE(0, ALL, AF_INET, 1, 0xf, SOCK_STREAM, 2, ALL, 0),
    THREE(0, ALL, AF_INET, 1, 0xf, SOCK_STREAM, 2, ALL, 6),
    THREE(0, ALL, AF_INET, 1, 0xf, SOCK_DGRAM, 2, ALL, 0),
    THREE(0, ALL, AF_INET, 1, 0xf, SOCK_DGRAM, 2, ALL, 17),
    THREE(0, ALL, AF_INET6, 1, 0xf, SOCK_STREAM, 2, ALL, 0),
    THREE(0, ALL, AF_INET6, 1, 0xf, SOCK_STREAM, 2, ALL, 6),
    THREE(0, ALL, AF_INET6, 1, 0xf, SOCK_DGRAM, 2, ALL, 0),
    THREE(0, ALL, AF_INET6, 1, 0xf, SOCK_DGRAM, 2, ALL, 17),
};

static const struct seccomp_case socketpair_kinds[] = {
    TWO(0, ALL, AF_UNIX, 1, 0xf, SOCK_STREAM),
    TWO(0, ALL, AF_UNIX, 1, 0xf, SOCK_DGRAM),
    TWO(0, ALL, AF_UNIX, 1, 0xf, SOCK_SEQPACKET),
};

/* Whoever closes a socket that lingers waits for as long as its maker said, and the last who closes
 * one that was sent away may be a process of the host. */
static const struct seccomp_case lingering[] = {
    TWO(1, ALL, SOL_SOCKET, 2, ALL, 13 /* SO_LINGER */)};

/* Memory for compiled filters that the whole machine has together, and code of the kernel that
 * nobody needs on a loopback of his own. By number: the headers of Debian 12 lack some. */
static const struct seccomp_case rare_options[] = {
    TWO(1, ALL, SOL_SOCKET, 2, ALL, 26),    /* SO_ATTACH_FILTER */
    TWO(1, ALL, SOL_SOCKET, 2, ALL, 50),    /* SO_ATTACH_BPF */
    TWO(1, ALL, SOL_SOCKET, 2, ALL, 51),    /* SO_ATTACH_REUSEPORT_CBPF */
    TWO(1, ALL, SOL_SOCKET, 2, ALL, 52),    /* SO_ATTACH_REUSEPORT_EBPF */
    TWO(1, ALL, SOL_SOCKET, 2, ALL, 60),    /* SO_ZEROCOPY */
    TWO(1, ALL, 6 /* TCP */, 2, ALL, 14),   /* TCP_MD5SIG: keys of one pool for all */
    TWO(1, ALL, 6 /* TCP */, 2, ALL, 31),   /* TCP_ULP */
    TWO(1, ALL, 6 /* TCP */, 2, ALL, 32),   /* TCP_MD5SIG_EXT */
    TWO(1, ALL, 6 /* TCP */, 2, ALL, 38),   /* TCP_AO_ADD_KEY */
    TWO(1, ALL, 17 /* UDP */, 2, ALL, 100), /* UDP_ENCAP */
    TWO(1, ALL, 41 /* IPv6 */, 2, ALL, 32), /* IPV6_FLOWLABEL_MGR: 4096 labels for the machine */
};

/* Maps pages of the network's into a process. */
static const struct seccomp_case rare_reads[] = {
    TWO(1, ALL, 6 /* TCP */, 2, ALL, 35), /* TCP_ZEROCOPY_RECEIVE */
};

static const struct seccomp_case urgent_third[] = {ONE(2, MSG_OOB, MSG_OOB)};
static const struct seccomp_case urgent_fourth[] = {ONE(3, MSG_OOB, MSG_OOB)};

/* Pages that the operator has reserved for somebody else. */
static const struct seccomp_case huge_map[] = {ONE(3, MAP_HUGETLB, MAP_HUGETLB)};
static const struct seccomp_case huge_file[] = {ONE(1, MFD_HUGETLB, MFD_HUGETLB)};
static const struct seccomp_case huge_shm[] = {ONE(2, SHM_HUGETLB_, SHM_HUGETLB_)};

/* pid 1 is ours, and so are the workers that it starts, which have the sandbox's uid. The affinity
 * of a worker can be set all the same: libraries set that of their threads by number, and no filter
 * can tell the two apart. */
static const struct seccomp_case own_priority[] = {TWO(0, ALL, PRIO_PROCESS, 1, ALL, 0)};
static const struct seccomp_case init_affinity[] = {ONE(0, ALL, 1)};

/* Whether a page of the image is in memory, which all sandboxes have in common: nobody may ask
 * without reading it, nor drop it to see who reads it again. */
static const struct seccomp_case asks_for_cached[] = {ONE(5, 8 /* RWF_NOWAIT */, 8)};
static const struct seccomp_case drops_cached[] = {ONE(3, ALL, 4 /* POSIX_FADV_DONTNEED */)};

static const struct seccomp_case any[] = {ONE(0, 0, 0)};

/* Larger buffers of a socket: memory that stands in no process. */
static const struct seccomp_case buffer_sizes[] = {
    TWO(1, ALL, SOL_SOCKET, 2, ALL, SO_SNDBUF),
    TWO(1, ALL, SOL_SOCKET, 2, ALL, SO_RCVBUF),
};

/* Ways to type into a terminal, or to change what it is. */
static const struct seccomp_case ioctl_bad[] = {
    ONE(1, ALL, TIOCSTI),
    ONE(1, ALL, TIOCLINUX_),
    ONE(1, ALL, TIOCSETD),
    ONE(1, ALL, TIOCCONS),
};

static const struct seccomp_case prctl_good[] = {
    ONE(0, ALL, PR_SET_NAME),
    ONE(0, ALL, PR_GET_NAME),
    ONE(0, ALL, PR_SET_PDEATHSIG),
    ONE(0, ALL, PR_GET_PDEATHSIG),
    ONE(0, ALL, PR_SET_DUMPABLE),
    ONE(0, ALL, PR_GET_DUMPABLE),
    ONE(0, ALL, PR_SET_NO_NEW_PRIVS),
    ONE(0, ALL, PR_GET_NO_NEW_PRIVS),
    ONE(0, ALL, PR_GET_SECCOMP),
    ONE(0, ALL, PR_CAPBSET_READ),
    ONE(0, ALL, PR_SET_TIMERSLACK),
    ONE(0, ALL, PR_GET_TIMERSLACK),
    ONE(0, ALL, PR_GET_SECUREBITS),
    ONE(0, ALL, PR_GET_KEEPCAPS),
    ONE(0, ALL, PR_SET_VMA),
    ONE(0, ALL, PR_SET_THP_DISABLE),
    ONE(0, ALL, PR_GET_THP_DISABLE),
    ONE(0, ALL, PR_GET_TID_ADDRESS),
    ONE(0, ALL, PR_SET_CHILD_SUBREAPER),
    ONE(0, ALL, PR_GET_CHILD_SUBREAPER),
};

/* RLIMIT_CORE is 1, the one value that keeps the kernel from starting the host's core dump helper.
 * Lowering it to 0 would bring the helper back, so nobody changes it. */
static const struct seccomp_case core_limit[] = {ONE(0, ALL, RLIMIT_CORE)};

#define OWN_LIMIT(resource) TWO(0, ALL, 0, 1, ALL, resource)

static const struct seccomp_case own_limits[] = {
    /* Reading the core limit is fine: no new one, in both halves of its pointer. */
    {.tests =
         {{0, ALL, 0, false}, {1, ALL, RLIMIT_CORE, false}, {2, ALL, 0, false}, {2, ALL, 0, true}},
     .count = 4},
    OWN_LIMIT(RLIMIT_CPU),
    OWN_LIMIT(RLIMIT_FSIZE),
    OWN_LIMIT(RLIMIT_DATA),
    OWN_LIMIT(RLIMIT_STACK),
    OWN_LIMIT(RLIMIT_RSS),
    OWN_LIMIT(RLIMIT_NPROC),
    OWN_LIMIT(RLIMIT_NOFILE),
    OWN_LIMIT(RLIMIT_MEMLOCK),
    OWN_LIMIT(RLIMIT_AS),
    OWN_LIMIT(RLIMIT_LOCKS),
    OWN_LIMIT(RLIMIT_SIGPENDING),
    OWN_LIMIT(RLIMIT_MSGQUEUE),
    OWN_LIMIT(RLIMIT_NICE),
    OWN_LIMIT(RLIMIT_RTPRIO),
    OWN_LIMIT(RLIMIT_RTTIME),
};

/* 0xffffffff asks, 0 is plain Linux; the others switch off address randomisation and worse. */
static const struct seccomp_case personality_plain[] = {ONE(0, ALL, 0), ONE(0, ALL, 0xffffffff)};

#define ALLOW(call)                                                                                \
    {                                                                                              \
#call, __NR_##call, SECCOMP_ALLOW, 0, NULL, NULL, 0                                        \
    }
#define COUNTED(call, why)                                                                         \
    {                                                                                              \
#call, __NR_##call, SECCOMP_ALLOW_COUNTED, ENOSYS, why, NULL, 0                            \
    }
#define REFUSE_IF_UNCOUNTED(call, list, error, why)                                                \
    {                                                                                              \
#call, __NR_##call, SECCOMP_REFUSE_CASES_UNCOUNTED, error, why, list, ARRAY_LEN(list)      \
    }
#define REFUSE(call, error, why)                                                                   \
    {                                                                                              \
#call, __NR_##call, SECCOMP_REFUSE, error, why, NULL, 0                                    \
    }
#define ALLOW_IF(call, list, error, why)                                                           \
    {                                                                                              \
#call, __NR_##call, SECCOMP_ALLOW_CASES, error, why, list, ARRAY_LEN(list)                 \
    }
#define REFUSE_IF(call, list, error, why)                                                          \
    {                                                                                              \
#call, __NR_##call, SECCOMP_REFUSE_CASES, error, why, list, ARRAY_LEN(list)                \
    }

const struct seccomp_rule seccomp_rules[] = {
    /* files and directories: the mount layout, the uid and landlock decide */
    ALLOW(read),
    ALLOW(write),
    ALLOW(close),
    ALLOW(fstat),
    ALLOW(lseek),
    ALLOW(pread64),
    ALLOW(pwrite64),
    ALLOW(readv),
    ALLOW(writev),
    ALLOW(preadv),
    ALLOW(pwritev),
    REFUSE_IF(preadv2, asks_for_cached, EOPNOTSUPP, "tells which pages are in memory"),
    ALLOW(pwritev2),
    ALLOW(openat),
    ALLOW(openat2),
    ALLOW(close_range),
    ALLOW(newfstatat),
    ALLOW(statx),
    ALLOW(statfs),
    ALLOW(fstatfs),
    ALLOW(faccessat),
    ALLOW(faccessat2),
    ALLOW(getdents64),
    ALLOW(mkdirat),
    ALLOW(unlinkat),
    ALLOW(renameat),
    ALLOW(renameat2),
    ALLOW(linkat),
    ALLOW(symlinkat),
    ALLOW(readlinkat),
    ALLOW(mknodat),
    ALLOW(fchmod),
    ALLOW(fchmodat),
    ALLOW(fchown),
    ALLOW(fchownat),
    ALLOW(utimensat),
    ALLOW(truncate),
    ALLOW(ftruncate),
    ALLOW(fallocate),
    ALLOW(chdir),
    ALLOW(fchdir),
    ALLOW(getcwd),
    ALLOW(umask),
    ALLOW(dup),
    ALLOW(dup3),
    ALLOW(fcntl),
    ALLOW(flock),
    ALLOW(fsync),
    ALLOW(fdatasync),
    ALLOW(sync_file_range),
    REFUSE_IF(fadvise64, drops_cached, 0, "drops pages that all have in common"),
    ALLOW(readahead),
    ALLOW(copy_file_range),
    ALLOW(setxattr),
    ALLOW(lsetxattr),
    ALLOW(fsetxattr),
    ALLOW(getxattr),
    ALLOW(lgetxattr),
    ALLOW(fgetxattr),
    ALLOW(listxattr),
    ALLOW(llistxattr),
    ALLOW(flistxattr),
    ALLOW(removexattr),
    ALLOW(lremovexattr),
    ALLOW(fremovexattr),
    REFUSE(inotify_init1, EMFILE, "counted for root, and shows what others open"),
    REFUSE(inotify_add_watch, EBADF, "no descriptor is one for it"),
    REFUSE(inotify_rm_watch, EBADF, "no descriptor is one for it"),
    ALLOW(pipe2),

    ALLOW(eventfd2),
    ALLOW(signalfd4),
    REFUSE_IF(ioctl, ioctl_bad, EPERM, "types into or re-wires a terminal"),

    /* memory */
    REFUSE_IF(mmap, huge_map, ENOMEM, "huge pages, which are reserved for others"),
    ALLOW(mprotect),
    ALLOW(munmap),
    ALLOW(brk),
    ALLOW(mremap),
    ALLOW(msync),
    ALLOW(mincore),
    ALLOW(madvise),
    ALLOW(mlock),
    ALLOW(mlock2),
    ALLOW(munlock),
    ALLOW(mlockall),
    ALLOW(munlockall),
    ALLOW(membarrier),
    ALLOW(get_mempolicy),
    ALLOW(pkey_mprotect),
    ALLOW(pkey_alloc),
    ALLOW(pkey_free),

    /* Memory that stands in no process: without a cgroup nothing would count it. */
    REFUSE_IF_UNCOUNTED(setsockopt, buffer_sizes, 0, "memory that only a cgroup counts"),
    REFUSE_IF_UNCOUNTED(memfd_create, any, ENOSYS, "memory that only a cgroup counts"),
    REFUSE_IF(memfd_create, huge_file, ENOMEM, "huge pages, which are reserved for others"),
    REFUSE_IF_UNCOUNTED(shmget, any, ENOSYS, "memory that only a cgroup counts"),
    REFUSE_IF(shmget, huge_shm, ENOMEM, "huge pages, which are reserved for others"),
    COUNTED(msgget, "memory that only a cgroup counts"),
    COUNTED(semget, "memory that only a cgroup counts"),

    /* processes and threads */
    ALLOW_IF(clone, clone_plain, EPERM, "no new namespaces"),
    REFUSE(clone3, ENOSYS, "its flags are behind a pointer; libraries fall back to clone"),
    ALLOW(execve),
    ALLOW(execveat),
    ALLOW(exit),
    ALLOW(exit_group),
    ALLOW(wait4),
    ALLOW(waitid),
    ALLOW(getpid),
    ALLOW(getppid),
    ALLOW(gettid),
    ALLOW(getpgid),
    ALLOW(setpgid),
    ALLOW(getsid),
    ALLOW(setsid),
    ALLOW(getuid),
    ALLOW(geteuid),
    ALLOW(getgid),
    ALLOW(getegid),
    ALLOW(getresuid),
    ALLOW(getresgid),
    ALLOW(getgroups),
    ALLOW(capget),
    ALLOW(set_tid_address),
    ALLOW(set_robust_list),
    ALLOW(rseq),
    ALLOW(futex),
    ALLOW(futex_waitv),
    ALLOW(sched_yield),
    ALLOW(sched_getaffinity),
    REFUSE_IF(sched_setaffinity, init_affinity, EPERM, "of cove-init"),
    ALLOW(sched_getparam),
    ALLOW(sched_getscheduler),
    ALLOW(sched_getattr),
    ALLOW(sched_get_priority_max),
    ALLOW(sched_get_priority_min),
    ALLOW(sched_rr_get_interval),
    ALLOW(getpriority),
    ALLOW_IF(setpriority, own_priority, EPERM, "of others, cove-init and its workers among them"),
    ALLOW(ioprio_get),
    ALLOW(getcpu),
    ALLOW(getrusage),
    ALLOW(times),
    ALLOW(getrlimit),
    /* Shows load, free memory and number of threads of the whole machine. No C library looks
     * whether it failed: refused, sysconf() answers what happens to lie on its stack. */
    ALLOW(sysinfo),
    ALLOW(uname),
    ALLOW(pidfd_open),
    ALLOW(pidfd_send_signal),
    ALLOW(restart_syscall),
    REFUSE_IF(setrlimit, core_limit, EPERM, "would let the host handle core dumps"),
    ALLOW_IF(prlimit64, own_limits, EPERM, "other processes (pid 1!), and the core dump limit"),
    ALLOW_IF(prctl, prctl_good, EPERM, "the rest reaches into memory layout or privileges"),
    ALLOW_IF(personality, personality_plain, EPERM, "switches off protections"),

    /* signals, timers, waiting */
    ALLOW(kill),
    ALLOW(tkill),
    ALLOW(tgkill),
    ALLOW(rt_sigaction),
    ALLOW(rt_sigprocmask),
    ALLOW(rt_sigreturn),
    ALLOW(rt_sigpending),
    ALLOW(rt_sigtimedwait),
    ALLOW(rt_sigqueueinfo),
    ALLOW(rt_tgsigqueueinfo),
    ALLOW(rt_sigsuspend),
    ALLOW(sigaltstack),
    ALLOW(nanosleep),
    ALLOW(clock_nanosleep),
    ALLOW(clock_gettime),
    ALLOW(clock_getres),
    ALLOW(gettimeofday),
    ALLOW(getitimer),
    ALLOW(setitimer),
    ALLOW(timer_create),
    ALLOW(timer_settime),
    ALLOW(timer_gettime),
    ALLOW(timer_getoverrun),
    ALLOW(timer_delete),
    ALLOW(timerfd_create),
    ALLOW(timerfd_settime),
    ALLOW(timerfd_gettime),
    ALLOW(ppoll),
    ALLOW(pselect6),
    ALLOW(epoll_create1),
    ALLOW(epoll_ctl),
    ALLOW(epoll_pwait),
    ALLOW(epoll_pwait2),
    ALLOW(getrandom),

    /* sockets: there is nothing in the network namespace but the sandbox's own loopback */
    ALLOW_IF(socket, socket_kinds, EAFNOSUPPORT, "only unix, TCP and UDP"),
    ALLOW_IF(socketpair, socketpair_kinds, EAFNOSUPPORT, "only unix"),
    ALLOW(bind),
    ALLOW(connect),
    ALLOW(listen),
    ALLOW(accept),
    ALLOW(accept4),
    ALLOW(getsockname),
    ALLOW(getpeername),
    REFUSE_IF(setsockopt, lingering, 0, "a close that waits, of whoever holds it last"),
    REFUSE_IF(setsockopt, rare_options, ENOPROTOOPT,
              "filters, and code that is needed for nothing"),
    REFUSE_IF(sendto, urgent_fourth, EOPNOTSUPP, "urgent data, a source of kernel bugs"),
    REFUSE_IF(recvfrom, urgent_fourth, EOPNOTSUPP, "urgent data, a source of kernel bugs"),
    REFUSE_IF(sendmsg, urgent_third, EOPNOTSUPP, "urgent data, a source of kernel bugs"),
    REFUSE_IF(recvmsg, urgent_third, EOPNOTSUPP, "urgent data, a source of kernel bugs"),
    REFUSE_IF(sendmmsg, urgent_fourth, EOPNOTSUPP, "urgent data, a source of kernel bugs"),
    REFUSE_IF(recvmmsg, urgent_fourth, EOPNOTSUPP, "urgent data, a source of kernel bugs"),
    ALLOW(shutdown),
    REFUSE_IF(getsockopt, rare_reads, ENOPROTOOPT, "code that is needed for nothing"),

    /* System V and POSIX messages: private to the ipc namespace */
    ALLOW(shmat),
    ALLOW(shmctl),
    ALLOW(shmdt),
    ALLOW(semop),
    ALLOW(semctl),
    ALLOW(semtimedop),
    ALLOW(msgsnd),
    ALLOW(msgrcv),
    ALLOW(msgctl),
    ALLOW(mq_open),
    ALLOW(mq_unlink),
    ALLOW(mq_timedsend),
    ALLOW(mq_timedreceive),
    ALLOW(mq_notify),
    ALLOW(mq_getsetattr),

#ifdef __x86_64__
    /* older spellings of the above that only this machine has */
    ALLOW(open),
    ALLOW(creat),
    ALLOW(stat),
    ALLOW(lstat),
    ALLOW(access),
    ALLOW(getdents),
    ALLOW(mkdir),
    ALLOW(rmdir),
    ALLOW(unlink),
    ALLOW(rename),
    ALLOW(link),
    ALLOW(symlink),
    ALLOW(readlink),
    ALLOW(mknod),
    ALLOW(chmod),
    ALLOW(chown),
    ALLOW(lchown),
    ALLOW(utime),
    ALLOW(utimes),
    ALLOW(futimesat),
    ALLOW(dup2),
    ALLOW(pipe),
    ALLOW(poll),
    ALLOW(select),
    ALLOW(epoll_create),
    ALLOW(epoll_wait),
    ALLOW(eventfd),
    ALLOW(signalfd),
    REFUSE(inotify_init, EMFILE, "counted for root, and shows what others open"),
    ALLOW(fork),
    ALLOW(vfork),
    ALLOW(getpgrp),
    ALLOW(pause),
    ALLOW(alarm),
    ALLOW(time),
    ALLOW(arch_prctl),
    REFUSE(iopl, EPERM, "hardware"),
    REFUSE(ioperm, EPERM, "hardware"),
    REFUSE(modify_ldt, EPERM, "16-bit segments, a rich source of kernel bugs"),
    REFUSE(sysfs, EPERM, "lists what the kernel can mount"),
    REFUSE(ustat, EPERM, "obsolete"),
    REFUSE(uselib, EPERM, "obsolete"),
    REFUSE(_sysctl, ENOSYS, "gone from the kernel"),
    REFUSE(epoll_ctl_old, ENOSYS, "never was"),
    REFUSE(epoll_wait_old, ENOSYS, "never was"),
    REFUSE(kexec_file_load, EPERM, "another kernel"),
#endif

    /* Page-cache plumbing: the write-into-read-only-files bugs (Dirty Pipe and its kin) all went
     * through it. EINVAL means "not for this file" and makes everything copy instead. */
    REFUSE(splice, EINVAL, "page-cache plumbing"),
    REFUSE(tee, EINVAL, "page-cache plumbing"),
    REFUSE(vmsplice, EPERM, "page-cache plumbing"),
    REFUSE(sendfile, EINVAL, "page-cache plumbing"),

    /* would flush the whole host's disks; the workspace has none */
    REFUSE(sync, 0, "flushes the host's disks"),
    REFUSE(syncfs, 0, "flushes the host's disks"),

    /* other processes' insides */
    REFUSE(ptrace, EPERM, "other processes"),
    REFUSE(process_vm_readv, EPERM, "other processes"),
    REFUSE(process_vm_writev, EPERM, "other processes"),
    REFUSE(kcmp, EPERM, "other processes"),
    REFUSE(pidfd_getfd, EPERM, "other processes"),
    REFUSE(process_madvise, EPERM, "other processes"),
    REFUSE(process_mrelease, EPERM, "other processes"),
    REFUSE(get_robust_list, EPERM, "other processes"),
    REFUSE(migrate_pages, EPERM, "other processes"),
    REFUSE(move_pages, EPERM, "other processes"),

    /* namespaces, mounts, roots */
    REFUSE(unshare, EPERM, "namespaces"),
    REFUSE(setns, EPERM, "namespaces"),
    REFUSE(mount, EPERM, "mounts"),
    REFUSE(umount2, EPERM, "mounts"),
    REFUSE(pivot_root, EPERM, "mounts"),
    REFUSE(chroot, EPERM, "mounts"),
    REFUSE(fsopen, EPERM, "mounts"),
    REFUSE(fsconfig, EPERM, "mounts"),
    REFUSE(fsmount, EPERM, "mounts"),
    REFUSE(fspick, EPERM, "mounts"),
    REFUSE(move_mount, EPERM, "mounts"),
    REFUSE(open_tree, EPERM, "mounts"),
    REFUSE(mount_setattr, EPERM, "mounts"),
    REFUSE(open_by_handle_at, EPERM, "opens files past their paths"),
    REFUSE(name_to_handle_at, EPERM, "opens files past their paths"),

    /* identity and privileges */
    REFUSE(setuid, EPERM, "identity"),
    REFUSE(setgid, EPERM, "identity"),
    REFUSE(setreuid, EPERM, "identity"),
    REFUSE(setregid, EPERM, "identity"),
    REFUSE(setresuid, EPERM, "identity"),
    REFUSE(setresgid, EPERM, "identity"),
    REFUSE(setfsuid, EPERM, "identity"),
    REFUSE(setfsgid, EPERM, "identity"),
    REFUSE(setgroups, EPERM, "identity"),
    REFUSE(capset, EPERM, "identity"),
    REFUSE(seccomp, EPERM, "filters of its own could hide a call from ours"),
    REFUSE(landlock_create_ruleset, EPERM, "the domain is ours"),
    REFUSE(landlock_add_rule, EPERM, "the domain is ours"),
    REFUSE(landlock_restrict_self, EPERM, "the domain is ours"),
    REFUSE(keyctl, EPERM, "keyrings have no namespace"),
    REFUSE(add_key, EPERM, "keyrings have no namespace"),
    REFUSE(request_key, EPERM, "keyrings have no namespace"),

    /* large and young parts of the kernel */
    REFUSE(bpf, EPERM, "attack surface"),
    REFUSE(perf_event_open, EPERM, "attack surface"),
    REFUSE(userfaultfd, EPERM, "makes kernel races easy"),
    REFUSE(io_uring_setup, ENOSYS, "does calls past this filter"),
    REFUSE(io_uring_enter, ENOSYS, "does calls past this filter"),
    REFUSE(io_uring_register, ENOSYS, "does calls past this filter"),
    REFUSE(io_setup, ENOSYS, "attack surface"),
    REFUSE(io_destroy, ENOSYS, "attack surface"),
    REFUSE(io_submit, ENOSYS, "attack surface"),
    REFUSE(io_cancel, ENOSYS, "attack surface"),
    REFUSE(io_getevents, ENOSYS, "attack surface"),
    REFUSE(io_pgetevents, ENOSYS, "attack surface"),
    REFUSE(memfd_secret, ENOSYS, "memory that no limit can reclaim"),
    REFUSE(fanotify_init, EPERM, "watches whole mounts"),
    REFUSE(fanotify_mark, EPERM, "watches whole mounts"),
    REFUSE(remap_file_pages, EPERM, "obsolete"),
    REFUSE(lookup_dcookie, EPERM, "profiling"),
    REFUSE(mbind, EPERM, "memory placement"),
    REFUSE(set_mempolicy, EPERM, "memory placement"),
    REFUSE(set_mempolicy_home_node, EPERM, "memory placement"),

    /* the machine's own settings */
    REFUSE(sched_setscheduler, EPERM, "real-time priority"),
    REFUSE(sched_setparam, EPERM, "real-time priority"),
    REFUSE(sched_setattr, EPERM, "real-time priority"),
    REFUSE(ioprio_set, EPERM, "priority"),
    REFUSE(settimeofday, EPERM, "the clock"),
    REFUSE(clock_settime, EPERM, "the clock"),
    REFUSE(adjtimex, EPERM, "the clock"),
    REFUSE(clock_adjtime, EPERM, "the clock"),
    REFUSE(sethostname, EPERM, "the machine"),
    REFUSE(setdomainname, EPERM, "the machine"),
    REFUSE(reboot, EPERM, "the machine"),
    REFUSE(kexec_load, EPERM, "the machine"),
    REFUSE(init_module, EPERM, "the machine"),
    REFUSE(finit_module, EPERM, "the machine"),
    REFUSE(delete_module, EPERM, "the machine"),
    REFUSE(swapon, EPERM, "the machine"),
    REFUSE(swapoff, EPERM, "the machine"),
    REFUSE(acct, EPERM, "the machine"),
    REFUSE(quotactl, EPERM, "the machine"),
    REFUSE(quotactl_fd, EPERM, "the machine"),
    REFUSE(syslog, EPERM, "the kernel's log"),
    REFUSE(vhangup, EPERM, "terminals"),
    REFUSE(nfsservctl, ENOSYS, "gone from the kernel"),
};

const size_t seccomp_rule_count = ARRAY_LEN(seccomp_rules);

/* --- what sealing needs besides -------------------------------------------------------------- */

static const struct seccomp_case prctl_sealing[] = {
    ONE(0, ALL, PR_CAPBSET_DROP),
    ONE(0, ALL, PR_CAP_AMBIENT),
};

#define NEEDED(call)                                                                               \
    {                                                                                              \
        __NR_##call, NULL, 0                                                                       \
    }

const struct seccomp_sealing seccomp_sealing[] = {
    /* namespaces, and the process in them */
    NEEDED(unshare),
    NEEDED(setns),
    NEEDED(clone3),
    NEEDED(sethostname),
    NEEDED(setdomainname),

    /* its root */
    NEEDED(fsopen),
    NEEDED(fsconfig),
    NEEDED(fsmount),
    NEEDED(open_tree),
    NEEDED(move_mount),
    NEEDED(mount_setattr),
    NEEDED(chroot),

    /* its rights */
    NEEDED(setresuid),
    NEEDED(setresgid),
    NEEDED(setgroups),
    NEEDED(capset),
    {__NR_prctl, prctl_sealing, ARRAY_LEN(prctl_sealing)},
    NEEDED(landlock_create_ruleset),
    NEEDED(landlock_add_rule),
    NEEDED(landlock_restrict_self),
    NEEDED(seccomp),

    /* what a process that takes another's place has to know of its thread */
    NEEDED(get_robust_list),
};

const size_t seccomp_sealing_count = ARRAY_LEN(seccomp_sealing);
