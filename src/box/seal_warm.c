/* seal_warm.c - the steps of a sandbox that a zygote makes
 *
 * The sealing process shares the zygote's memory, and the zygote sleeps until it has become
 * cove-init. Nothing of a tenant's runs in that time that could reach the memory: the copy is made
 * when it cannot be looked into any more (see step_fork). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/seal_warm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/rseq.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/socket.h>

#include "base/scoped.h"
#include "box/seal_steps.h"
#include "box/syscalls.h"
#include "wire/guest.h"
#include "wire/kernel.h"

#ifndef __x86_64__
#error "clone_and_call() is written for x86-64"
#endif

struct warm_seal {
    struct seal seal; /* first: the steps get a pointer to it */
    pid_t pid;        /* of the copy */
    enum seal_warm_side side;
    struct seal_brood *brood; /* NULL: the copy gets a memory of its own */
    struct parked *parked;
};

static struct warm_seal *warm_of(struct seal *s)
{
    return (struct warm_seal *)(void *)s;
}

/* --- steps ----------------------------------------------------------------------------------- */

static int step_rootfs(struct seal *s)
{
    struct rootfs root;
    if (seal_take_root(s, &root) < 0 || rootfs_cover(&root, &s->step) < 0)
        return -1;
    s->layers |= LAYER_BIT(ROOT) | LAYER_BIT(PROC) | LAYER_BIT(DISK);
    return 0;
}

/* Before the user namespace: who makes one may map the id that it has, and no other. */
static int step_own_ids(struct seal *s)
{
    uid_t uid = s->plan->uid;
    if (!s->plan->has_own_uid)
        return 0;
    return setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ? -1 : 0;
}

static int write_own(const char *path, const char *text, size_t len)
{
    scoped_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, len) == (ssize_t)len ? 0 : -1;
}

/* As in a cold start, a user namespace that owns nothing. Without it the sandbox would live in the
 * zygote's, to which the namespaces of all its siblings belong. */
static int step_user_ns(struct seal *s)
{
    char map[48];
    int len = snprintf(map, sizeof(map), "%d %u 1\n", GUEST_UID, s->plan->uid);
    if (unshare(CLONE_NEWUSER) < 0)
        return -1;
    s->in_user_ns = true;
    if (prctl(PR_SET_DUMPABLE, 1) < 0) /* else the maps are not our own files */
        return -1;
    if (write_own("/proc/self/setgroups", "deny", 4) < 0 ||
        write_own("/proc/self/uid_map", map, (size_t)len) < 0 ||
        write_own("/proc/self/gid_map", map, (size_t)len) < 0)
        return -1;
    if (prctl(PR_SET_DUMPABLE, 0) < 0) /* the memory is the zygote's, too */
        return -1;
    s->layers |= LAYER_BIT(USER_NS);
    return 0;
}

/* Declared again to make them weak: older C libraries have none of them.
 * NOLINTBEGIN(readability-redundant-declaration) */
extern pid_t _Fork(void) __attribute__((weak)); /* since glibc 2.34: fork without its handlers */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
/* NOLINTEND(readability-redundant-declaration) */

/* Processes that share memory have no restartable sequences, and so neither has their child; the C
 * library goes on believing that it has. */
static void restore_rseq(void)
{
    if (!&__rseq_offset || !&__rseq_size || __rseq_size == 0)
        return;
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    if (syscall(SYS_rseq, area, 32, 0, RSEQ_SIG) < 0)
        area->cpu_id = (uint32_t)RSEQ_CPU_ID_REGISTRATION_FAILED;
}

static int settle_place(struct seal *s)
{
    s->step = "kernel: new session";
    if (setsid() < 0) /* a process group of its own: signals reach all of the program */
        return -1;
    s->step = "kernel: working directory";
    if (chdir(GUEST_WORKSPACE) < 0)
        return -1;
    s->step = "kernel: file descriptors";
    return dup3(SEAL_CHANNEL_FD, KERNEL_CHANNEL_FD, O_CLOEXEC) < 0 ? -1 : 0;
}

static int settle_inside(struct seal *s)
{
    restore_rseq();
    s->step = "kernel: dumpable";
    if (prctl(PR_SET_DUMPABLE, 1) < 0 || settle_place(s) < 0)
        return -1;
    return sys_close_range(KERNEL_CHANNEL_FD + 1, ~0u);
}

/* --- what shares the memory of a brood ------------------------------------------------------- */

#define PARKED_STACK_BYTES (64 * 1024)
#define PARKED_GATE_FD     (KERNEL_CHANNEL_FD + 1)

/* On the stack of its own that such a process has, since all have the same memory. */
struct parked {
    struct seal seal;
    struct seal_brood *brood;
    bool is_first;
};

/* Not those of the C library, which keep errors in a place that all of them share. */
static long raw_call(long number, long a, long b, long c, long d)
{
    long result = number;
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
}

static NORETURN void raw_exit(void)
{
    for (;;)
        raw_call(SYS_exit_group, 0, 0, 0, 0);
}

/* What the C library wants of the thread that it believes to be the only one. */
static void become_thread(const struct seal_brood *b)
{
    *b->tid = (int)raw_call(SYS_set_tid_address, (long)b->tid, 0, 0, 0);
    raw_call(SYS_set_robust_list, (long)b->robust, (long)b->robust_len, 0, 0);
    restore_rseq();
}

/* Until the brood's own process, which has power, is gone: nothing of a tenant's may run before.
 * Its end is seen by the end of a pipe that nobody else holds. */
static NORETURN void go_on_as_kernel(const struct parked *p)
{
    char none;
    while (raw_call(SYS_read, PARKED_GATE_FD, (long)&none, 1, 0) != 0)
        ;
    raw_call(SYS_close, PARKED_GATE_FD, 0, 0, 0);
    become_thread(p->brood);
    if (prctl(PR_SET_DUMPABLE, 1) < 0)
        raw_exit();
    __builtin_longjmp(p->brood->resume, 1);
}

/* The next order, and the fd that came with it or -1. */
static char hear(int *fd)
{
    char order = 0;
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } rights = {.space = {0}};
    struct iovec bytes = {&order, 1};
    struct msghdr m = {.msg_iov = &bytes,
                       .msg_iovlen = 1,
                       .msg_control = &rights,
                       .msg_controllen = sizeof(rights)};
    long n = raw_call(SYS_recvmsg, KERNEL_CHANNEL_FD, (long)&m, MSG_CMSG_CLOEXEC, 0);
    if (n <= 0)
        raw_exit(); /* nobody wants this heir any more */
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *fd = -1;
    if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        __builtin_memcpy(fd, CMSG_DATA(c), sizeof(*fd));
    return order;
}

/* A child of cove-init's, as the heir itself. */
static long fork_sibling(int *tid)
{
    return raw_call(SYS_clone, CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD,
                    0, 0, (long)tid);
}

static NORETURN void go_on_as_fork(struct seal_brood *b, int channel_fd)
{
    become_thread(b);
    b->point.channel_fd = channel_fd;
    __builtin_longjmp(b->point.resume, 1);
}

/* Once: an heir that lived on beside its fork would be a window into the memory of the other. */
static NORETURN void wait_as_heir(struct seal_brood *b)
{
    for (;;) {
        int fd;
        char order = hear(&fd);
        struct kernel_copy_answer answer = {.pid = -EAGAIN};
        if (order == KERNEL_COPY_BEAR && fd >= 0 && b->point.is_set) {
            long pid = fork_sibling(b->tid);
            if (pid == 0)
                go_on_as_fork(b, fd);
            answer.pid = (int32_t)pid;
        }
        if (fd >= 0)
            raw_call(SYS_close, fd, 0, 0, 0);
        raw_call(SYS_sendto, KERNEL_CHANNEL_FD, (long)&answer, sizeof(answer), MSG_NOSIGNAL);
        if (answer.pid > 0)
            raw_exit();
    }
}

static void park(void *arg)
{
    struct parked *p = arg;
    struct seal *s = &p->seal;
    if (settle_place(s) < 0 || dup3(SEAL_GATE_FD, PARKED_GATE_FD, O_CLOEXEC) < 0 ||
        sys_close_range(PARKED_GATE_FD + 1, ~0u) < 0) {
        seal_report(s, SEAL_FAILED, errno, -1, s->step);
        raw_exit();
    }
    if (p->is_first)
        go_on_as_kernel(p);
    raw_call(SYS_close, PARKED_GATE_FD, 0, 0, 0);
    wait_as_heir(p->brood);
}

/* clone() with the same memory and the stack below `top`, which `run` never leaves. */
static __attribute__((noinline)) long clone_on(void *top, void (*run)(void *), void *arg)
{
    register void (*call)(void *) __asm__("r12") = run;
    register void *with __asm__("r13") = arg;
    register long fourth __asm__("r10") = 0;
    register long fifth __asm__("r8") = 0;
    long result = SYS_clone;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %[with], %%rdi\n\t"
                     "call *%[call]\n\t"
                     "hlt\n"
                     "1:"
                     : "+a"(result)
                     : "D"((long)(CLONE_VM | SIGCHLD)), "S"(top), "d"(0L), "r"(fourth),
                       "r"(fifth), [call] "r"(call), [with] "r"(with)
                     : "rcx", "r11", "cc", "memory");
    return result;
}

static pid_t share_kernel(struct warm_seal *w)
{
    struct parked *p = w->parked;
    p->seal = w->seal;
    long pid = clone_on(p, park, p); /* the page ends behind *p: aligned, see make_parked() */
    if (pid < 0)
        errno = (int)-pid;
    return pid < 0 ? -1 : (pid_t)pid;
}

/* A sandbox may be made in advance: nothing is in it until somebody wants it. */
static int step_wait(struct seal *s)
{
    char go;
    ssize_t n;
    do
        n = recv(s->report_fd, &go, 1, 0);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        _exit(0); /* the spawner is gone */
    return n == 1 ? 0 : -1;
}

/* Nobody can look into a process that is not dumpable. That holds for this one: until the exec
 * because the zygote's memory is marked so, and afterwards because cove-init is a file that cannot
 * be read. */
static int step_fork(struct seal *s)
{
    struct warm_seal *w = warm_of(s);
    if (prctl(PR_GET_DUMPABLE) != 0) {
        errno = EPERM;
        return -1;
    }
    if (w->brood)
        w->pid = share_kernel(w);
    else
        w->pid = _Fork ? _Fork() : fork();
    if (w->pid != 0)
        return w->pid < 0 ? -1 : 0;
    w->side = SEAL_WARM_INSIDE;
    if (settle_inside(s) == 0)
        return 0;
    seal_report(s, SEAL_FAILED, errno, -1, s->step);
    _exit(127);
}

static int step_exec(struct seal *s)
{
    static char name[] = "cove-init", pid[16];
    char *const argv[] = {name, pid, NULL};
    static char *const envp[] = {NULL};
    if (warm_of(s)->side == SEAL_WARM_INSIDE)
        return 0;
    snprintf(pid, sizeof(pid), "%d", warm_of(s)->pid);
    if (seal_report(s, SEAL_DONE, 0, -1, NULL) < 0)
        return -1;
    return sys_execveat(SEAL_INIT_FD, argv, envp);
}

static const struct seal_step steps[] = {
    {"first word", -1, seal_step_born},
    {"join cgroup", -1, seal_step_cgroup},
    {"namespaces", LAYER_MOUNT_NS, seal_step_namespaces},
    {"cgroup namespace", LAYER_CGROUP_NS, seal_step_cgroup_ns},
    {"network settings", -1, seal_step_network},
    {"root file system", LAYER_ROOT, step_rootfs},
    {"network figures", -1, seal_step_network_figures}, /* in the /proc of its own */
    {"host name", -1, seal_step_hostname},
    {"loopback", -1, seal_step_loopback},
    {"rlimits", LAYER_RLIMITS, seal_step_rlimits},
    {"own ids", LAYER_UID, step_own_ids},
    {"user namespace", -1, step_user_ns},
    {"no_new_privs", LAYER_NO_NEW_PRIVS, seal_step_no_new_privs},
    {"landlock", LAYER_LANDLOCK, seal_step_landlock},
    {"user and group ids", LAYER_UID, seal_step_ids},
    {"limits of the user", LAYER_RLIMITS, seal_step_user_limits},
    {"capabilities", LAYER_CAPS, seal_step_caps},
    {"parent death signal", -1, seal_step_parent_death},
    {"file descriptors", -1, seal_step_fds},
    {"seccomp", LAYER_SECCOMP, seal_step_seccomp},
    {"wait", -1, step_wait},
    {"fork the kernel", -1, step_fork},
    {"exec cove-init", -1, step_exec},
};

/* --- the clone ------------------------------------------------------------------------------- */

/* In the sealing process; comes back only in the copy, whose memory is its own. */
static void seal_and_fork(void *arg)
{
    struct warm_seal *w = arg;
    if (seal_run(&w->seal, steps, ARRAY_LEN(steps)) == 0 && w->side == SEAL_WARM_INSIDE)
        return;
    _exit(127);
}

/* clone3(), and run(arg) in the child, below our frame on the same stack: with CLONE_VFORK the
 * parent does not move meanwhile. Written out because a function around the system call would
 * return twice on one stack. Answers as clone3() does, and 0 when run() has returned. */
static __attribute__((noinline)) long clone_and_call(struct clone_args *args, void (*run)(void *),
                                                     void *arg)
{
    register void (*call)(void *) __asm__("r12") = run;
    register void *with __asm__("r13") = arg;
    long result = SYS_clone3;
    size_t size = sizeof(*args);
    __asm__ volatile("syscall\n\t"
                     "test %%eax, %%eax\n\t"
                     "jnz 1f\n\t"
                     "mov %%rsp, %%rbx\n\t"
                     "sub $256, %%rsp\n\t" /* over the red zone */
                     "and $-16, %%rsp\n\t"
                     "mov %[with], %%rdi\n\t"
                     "call *%[call]\n\t"
                     "mov %%rbx, %%rsp\n\t"
                     "xor %%eax, %%eax\n"
                     "1:"
                     : "+a"(result), "+D"(args), "+S"(size)
                     : [call] "r"(call), [with] "r"(with)
                     : "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "cc", "memory");
    return (int)result;
}

static enum seal_warm_side make(struct warm_seal *w)
{
    const struct seal_plan *plan = w->seal.plan;
    struct clone_args args = {.flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT | CLONE_NEWPID};
    if (plan->entry.into_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)plan->entry.into_fd;
    }
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* no handler runs on memory that two share */
    long pid = clone_and_call(&args, seal_and_fork, w);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        seal_report(&w->seal, SEAL_FAILED, (int)-pid, LAYER_PID_NS, "clone into a pid namespace");
    return pid == 0 ? SEAL_WARM_INSIDE : SEAL_WARM_ZYGOTE;
}

enum seal_warm_side seal_warm(const struct seal_plan *plan, int report_fd)
{
    struct warm_seal w = {.seal = {.plan = plan, .report_fd = report_fd}, .side = SEAL_WARM_ZYGOTE};
    return make(&w);
}

/* Its stack, and at the upper end what it has to know. Never given back: a process lives on it. */
static struct parked *make_parked(void)
{
    char *stack = mmap(NULL, PARKED_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    size_t room = (sizeof(struct parked) + 63) & ~(size_t)63;
    return stack == MAP_FAILED ? NULL : (struct parked *)(stack + PARKED_STACK_BYTES - room);
}

void seal_warm_shared(const struct seal_plan *plan, int report_fd, struct seal_brood *brood)
{
    struct warm_seal w = {.seal = {.plan = plan, .report_fd = report_fd},
                          .side = SEAL_WARM_ZYGOTE,
                          .brood = brood,
                          .parked = make_parked()};
    if (!w.parked) {
        seal_report(&w.seal, SEAL_FAILED, errno, -1, "memory for an heir");
        return;
    }
    *w.parked = (struct parked){.brood = brood, .is_first = brood->count == 0};
    brood->count++;
    (void)!make(&w);
}
