/* test_seccomp.c - every row of the table: as the filter computes it, and as the kernel answers it
 *
 * The filter is run twice: by a small interpreter, which can try any number and any argument, and
 * by the kernel in forked children, which make each call with arguments that do nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define ARGS       6
#define X32_BIT    0x40000000
#define NUMBER_TOP 1200 /* above every number that the filter distinguishes */

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

static struct filter {
    struct sock_filter code[SECCOMP_FILTER_MAX];
    size_t len;
} filters[2]; /* in the order in which they are put on */
static size_t filter_count;
static bool has_memory_cgroup; /* what they were compiled for */

static void compile(bool is_split, bool has_memory)
{
    has_memory_cgroup = has_memory;
    filter_count = is_split ? 2 : 1;
    filters[0].len =
        seccomp_compile(filters[0].code, is_split ? SECCOMP_BASE : SECCOMP_WHOLE, has_memory);
    filters[1].len = seccomp_compile(filters[1].code, SECCOMP_REST, has_memory);
}

static int apply(void)
{
    for (size_t i = 0; i < filter_count; i++) {
        if (seccomp_apply(filters[i].code, filters[i].len) < 0)
            return -1;
    }
    return 0;
}

/* --- the filter, interpreted ----------------------------------------------------------------- */

/* The instructions that the compiler emits; anything else is a failure of its own. */
static uint32_t interpret_one(const struct filter *filter, const struct seccomp_data *data)
{
    uint32_t a = 0;
    for (size_t pc = 0; pc < filter->len; pc++) {
        const struct sock_filter *f = &filter->code[pc];
        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(f->k % 4 == 0 && f->k + 4 <= sizeof(*data));
            memcpy(&a, (const char *)data + f->k, sizeof(a));
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= f->k;
            break;
        case BPF_JMP | BPF_JA:
            pc += f->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= f->k ? f->jt : f->jf;
            break;
        case BPF_RET | BPF_K:
            return f->k;
        default:
            fail_msg("instruction %zu has the unknown code %#x", pc, f->code);
        }
    }
    fail_msg("the filter ends without an answer");
    return 0;
}

/* As the kernel takes the answers of several: the newest first, another only if it forbids more. */
static uint32_t interpret(const struct seccomp_data *data)
{
    uint32_t answer = SECCOMP_RET_ALLOW;
    for (size_t i = filter_count; i > 0; i--) {
        uint32_t one = interpret_one(&filters[i - 1], data);
        if ((int32_t)(one & SECCOMP_RET_ACTION_FULL) < (int32_t)(answer & SECCOMP_RET_ACTION_FULL))
            answer = one;
    }
    return answer;
}

static const struct seccomp_rule *rule_of(int number)
{
    for (size_t i = 0; i < seccomp_rule_count; i++) {
        if (seccomp_rules[i].number == number)
            return &seccomp_rules[i];
    }
    return NULL;
}

static bool case_holds(const struct seccomp_case *c, const uint64_t args[ARGS])
{
    for (size_t i = 0; i < c->count; i++) {
        const struct seccomp_test *t = &c->tests[i];
        uint32_t half = (uint32_t)(args[t->arg] >> (t->is_upper ? 32 : 0));
        if ((half & t->mask) != t->value)
            return false;
    }
    return true;
}

/* What one row says. */
static uint32_t expected_of_row(const struct seccomp_rule *rule, const uint64_t args[ARGS])
{
    const uint32_t refused = SECCOMP_RET_ERRNO | (uint32_t)rule->error;
    bool holds = false;
    for (size_t i = 0; i < rule->case_count; i++)
        holds = holds || case_holds(&rule->cases[i], args);
    switch (rule->action) {
    case SECCOMP_ALLOW:
        return SECCOMP_RET_ALLOW;
    case SECCOMP_ALLOW_COUNTED:
        return has_memory_cgroup ? SECCOMP_RET_ALLOW : refused;
    case SECCOMP_REFUSE:
        return refused;
    case SECCOMP_ALLOW_CASES:
        return holds ? SECCOMP_RET_ALLOW : refused;
    case SECCOMP_REFUSE_CASES:
        return holds ? refused : SECCOMP_RET_ALLOW;
    case SECCOMP_REFUSE_CASES_UNCOUNTED:
        return holds && !has_memory_cgroup ? refused : SECCOMP_RET_ALLOW;
    }
    return SECCOMP_RET_KILL_PROCESS;
}

static const struct seccomp_rule *next_row(const struct seccomp_rule *rule)
{
    const struct seccomp_rule *next = rule + 1;
    while (next < seccomp_rules + seccomp_rule_count && next->number != rule->number)
        next++;
    return next;
}

/* What the table says, read row by row: the first that refuses. */
static uint32_t expected(int number, const uint64_t args[ARGS])
{
    uint32_t answer = SECCOMP_RET_ERRNO | ENOSYS;
    for (size_t i = 0; i < seccomp_rule_count; i++) {
        if (seccomp_rules[i].number != number)
            continue;
        answer = expected_of_row(&seccomp_rules[i], args);
        if (answer != SECCOMP_RET_ALLOW)
            break;
    }
    return answer;
}

static void compare(int number, const uint64_t args[ARGS])
{
    struct seccomp_data data = {.nr = number, .arch = NATIVE_ARCH};
    memcpy(data.args, args, sizeof(data.args));
    uint32_t answer = interpret(&data), right = expected(number, args);
    if (answer != right)
        fail_msg("call %d answers %#x instead of %#x for %#lx, %#lx, %#lx", number, answer, right,
                 (unsigned long)args[0], (unsigned long)args[1], (unsigned long)args[2]);
}

static const uint64_t fillings[] = {
    0, UINT64_MAX, 0xffffffff00000000, 0x00000000ffffffff, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa};

static void fill_args(uint64_t args[ARGS], uint64_t value)
{
    for (size_t i = 0; i < ARGS; i++)
        args[i] = value;
}

/* The value that satisfies a test, with the bits that it does not look at taken from `other`. */
static uint64_t hit(const struct seccomp_test *t, uint64_t other)
{
    unsigned shift = t->is_upper ? 32 : 0;
    return (other & ~((uint64_t)t->mask << shift)) | (uint64_t)t->value << shift;
}

/* Every bit of every argument that a case looks at, wrong once, and the case itself. */
static void try_case(int number, const struct seccomp_case *c, uint64_t filling)
{
    uint64_t args[ARGS];
    fill_args(args, filling);
    for (size_t i = 0; i < c->count; i++)
        args[c->tests[i].arg] = hit(&c->tests[i], args[c->tests[i].arg]);
    assert_true(case_holds(c, args));
    compare(number, args);
    for (size_t i = 0; i < c->count; i++) {
        for (int bit = 0; bit < 64; bit++) {
            args[c->tests[i].arg] ^= 1ull << bit;
            compare(number, args);
            args[c->tests[i].arg] ^= 1ull << bit;
        }
    }
}

static void test_every_number(void **state)
{
    (void)state;
    uint64_t args[ARGS];
    for (int number = 0; number <= NUMBER_TOP; number++) {
        for (size_t i = 0; i < ARRAY_LEN(fillings); i++) {
            fill_args(args, fillings[i]);
            compare(number, args);
        }
    }
}

static void test_every_case(void **state)
{
    (void)state;
    size_t cases = 0;
    for (size_t i = 0; i < seccomp_rule_count; i++) {
        const struct seccomp_rule *rule = &seccomp_rules[i];
        for (size_t c = 0; c < rule->case_count; c++, cases++) {
            for (size_t k = 0; k < ARRAY_LEN(fillings); k++)
                try_case(rule->number, &rule->cases[c], fillings[k]);
        }
    }
    assert_true(cases > 0);
}

/* The first tests of one case and the others of another: cases share what they have in common. */
static void try_mixed(int number, const struct seccomp_case *a, const struct seccomp_case *b)
{
    uint64_t args[ARGS];
    for (size_t split = 1; split < b->count; split++) {
        fill_args(args, 0);
        for (size_t i = 0; i < MIN(split, a->count); i++)
            args[a->tests[i].arg] = hit(&a->tests[i], args[a->tests[i].arg]);
        for (size_t i = split; i < b->count; i++)
            args[b->tests[i].arg] = hit(&b->tests[i], args[b->tests[i].arg]);
        compare(number, args);
    }
}

static void test_mixed_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < seccomp_rule_count; i++) {
        const struct seccomp_rule *rule = &seccomp_rules[i];
        for (size_t a = 0; a < rule->case_count; a++) {
            for (size_t b = 0; b < rule->case_count; b++)
                try_mixed(rule->number, &rule->cases[a], &rule->cases[b]);
        }
    }
}

/* x32 calls, negative numbers, and the largest ones. */
static void test_high_numbers(void **state)
{
    (void)state;
    static const uint32_t high[] = {1024,       4096,       65536,     0x3fffffff,
                                    0x7fffffff, 0x80000000, 0xffffffff};
    struct seccomp_data data = {.arch = NATIVE_ARCH};
    for (size_t i = 0; i < ARRAY_LEN(high); i++) {
        data.nr = (int)high[i];
        assert_int_equal(interpret(&data), SECCOMP_RET_ERRNO | ENOSYS);
    }
    for (int number = 0; number <= NUMBER_TOP; number++) {
        data.nr = X32_BIT | number;
        assert_int_equal(interpret(&data), SECCOMP_RET_ERRNO | ENOSYS);
    }
}

static void test_foreign_arch(void **state)
{
    (void)state;
    static const uint32_t foreign[] = {AUDIT_ARCH_I386,    AUDIT_ARCH_ARM,   AUDIT_ARCH_RISCV64,
                                       AUDIT_ARCH_PPC64LE, AUDIT_ARCH_S390X, 0,
                                       UINT32_MAX,         NATIVE_ARCH ^ 1};
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
        for (int number = -1; number <= NUMBER_TOP; number++) {
            struct seccomp_data data = {.nr = number, .arch = foreign[i]};
            assert_int_equal(interpret(&data), SECCOMP_RET_KILL_PROCESS);
        }
    }
}

/* --- the table itself ------------------------------------------------------------------------ */

static void test_table(void **state)
{
    (void)state;
    assert_true(filters[0].len < SECCOMP_FILTER_MAX);
    for (size_t i = 0; i < seccomp_rule_count; i++) {
        const struct seccomp_rule *rule = &seccomp_rules[i];
        bool has_cases = rule->action == SECCOMP_ALLOW_CASES ||
                         rule->action == SECCOMP_REFUSE_CASES ||
                         rule->action == SECCOMP_REFUSE_CASES_UNCOUNTED;
        const struct seccomp_rule *first = rule_of(rule->number);
        bool refuses =
            rule->action == SECCOMP_REFUSE_CASES || rule->action == SECCOMP_REFUSE_CASES_UNCOUNTED;
        assert_true(first == rule ||
                    (refuses && (first->action == SECCOMP_REFUSE_CASES ||
                                 first->action == SECCOMP_REFUSE_CASES_UNCOUNTED)));
        assert_in_range(rule->number, 0, 1023);
        assert_in_range(rule->error, 0, 133);
        assert_int_equal(rule->case_count > 0, has_cases);
        assert_true(rule->case_count <= SECCOMP_CASES_MAX);
        if (rule->action != SECCOMP_ALLOW)
            assert_non_null(rule->reason);
        for (size_t c = 0; c < rule->case_count; c++) {
            assert_in_range(rule->cases[c].count, 1, SECCOMP_TESTS_MAX);
            for (size_t t = 0; t < rule->cases[c].count; t++) {
                assert_true(rule->cases[c].tests[t].arg < ARGS);
                /* else it could never hold */
                assert_int_equal(rule->cases[c].tests[t].value & ~rule->cases[c].tests[t].mask, 0);
            }
        }
    }
}

struct call {
    const char *name;
    int number;
};

/* All that the kernel headers name; made at compile time. */
static const struct call header_calls[] = {
#define X(call) {#call, __NR_##call},
#include "syscalls.inc"
#undef X
};

/* Numbers that no kernel serves on this machine, and that answer ENOSYS without a row. */
static const char *const unserved[] = {
    "afs_syscall",  "create_module", "get_kernel_syms", "get_thread_area", "getpmsg", "putpmsg",
    "query_module", "security",      "set_thread_area", "tuxcall",         "vserver",
};

#define TABLE_NEWEST                                                                               \
    450 /* the last call of Linux 6.1; newer ones answer ENOSYS until looked at                    \
         */

static void test_complete(void **state)
{
    (void)state;
    assert_true(ARRAY_LEN(header_calls) > 250);
    for (size_t i = 0; i < ARRAY_LEN(header_calls); i++) {
        const struct call *call = &header_calls[i];
        bool is_absent = call->number > TABLE_NEWEST;
        for (size_t k = 0; k < ARRAY_LEN(unserved); k++)
            is_absent = is_absent || strcmp(unserved[k], call->name) == 0;
        if (is_absent == (rule_of(call->number) != NULL))
            fail_msg("%s (%d) is %s", call->name, call->number,
                     is_absent ? "listed, but said to be absent" : "in no row of the table");
    }
}

/* --- the kernel ------------------------------------------------------------------------------ */

struct outcome {
    bool is_known; /* the child lived to tell */
    int signal;    /* that ended it */
    long result;
    int error;
};

/* Makes one call in a child, with or without the filter. */
static struct outcome call_in_child(bool is_filtered, int number, const uint64_t args[ARGS])
{
    struct outcome out = {.is_known = false};
    int pair[2], status;
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct outcome told = {.is_known = true};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || (is_filtered && apply() < 0))
            _exit(2);
        errno = 0;
        told.result = syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
        told.error = told.result == -1 ? errno : 0;
        (void)!write(pair[1], &told, sizeof(told)); /* a child of a fork writes too: the same */
        _exit(0);
    }
    close(pair[1]);
    struct outcome told;
    if (read(pair[0], &told, sizeof(told)) == sizeof(told))
        out = told;
    close(pair[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    out.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 2); /* the filter was refused */
    return out;
}

static const struct {
    const char *name;
    const char *why;
} untried[] = {
    {"exit", "would end the process"},
    {"exit_group", "would end the process; each test here ends by it"},
    {"pause", "would wait for ever"},
    {"rt_sigreturn", "needs the frame of a signal; tried by a test of its own"},
    {"vfork", "its child would return on the stack of its parent"},
};

/* Where -1 everywhere is not harmless, or not understood by the kernel. */
static const struct {
    const char *name;
    uint64_t args[ARGS];
} arguments[] = {
    {"alarm", {0}},
    {"clone", {CLONE_SIGHAND}}, /* without CLONE_VM: EINVAL */
    {"futex", {0, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1}},
    {"kill", {INT32_MAX, 0}},
    {"msgget", {0x0badc0de, 0}},
    {"semget", {0x0badc0de, 0, 0}},
    {"shmget", {0x0badc0de, 0, 0}},
    {"setpriority", {UINT64_MAX, 0, 0}},
};

static void harmless_args(const struct seccomp_rule *rule, uint64_t args[ARGS])
{
    fill_args(args, UINT64_MAX); /* no fd, no address, no flags, no process */
    for (size_t i = 0; i < ARRAY_LEN(arguments); i++) {
        if (strcmp(arguments[i].name, rule->name) == 0)
            memcpy(args, arguments[i].args, sizeof(arguments[i].args));
    }
}

static void check_refused(const struct seccomp_rule *rule, const uint64_t args[ARGS])
{
    struct outcome out = call_in_child(true, rule->number, args);
    assert_true(out.is_known);
    assert_int_equal(out.signal, 0);
    if (out.error != rule->error || (rule->error == 0 && out.result != 0))
        fail_msg("answers %ld, errno %d, instead of %d", out.result, out.error, rule->error);
}

/* The filter makes no difference. */
static void check_allowed(const struct seccomp_rule *rule, const uint64_t args[ARGS])
{
    struct outcome without = call_in_child(false, rule->number, args);
    struct outcome with = call_in_child(true, rule->number, args);
    assert_true(without.is_known && with.is_known);
    assert_int_equal(with.signal, 0);
    if (with.error != without.error)
        fail_msg("errno %d with the filter, %d without", with.error, without.error);
}

static void check_call(const struct seccomp_rule *rule, const uint64_t args[ARGS])
{
    if (expected(rule->number, args) == SECCOMP_RET_ALLOW) {
        check_allowed(rule, args);
        return;
    }
    rule = rule_of(rule->number); /* the first that refuses answers */
    while (expected_of_row(rule, args) == SECCOMP_RET_ALLOW)
        rule = next_row(rule);
    check_refused(rule, args);
}

/* NULL: it can be tried. */
static const char *why_untried(const struct seccomp_rule *rule)
{
    for (size_t i = 0; i < ARRAY_LEN(untried); i++) {
        if (strcmp(untried[i].name, rule->name) == 0)
            return untried[i].why;
    }
    return NULL;
}

/* Its plain arguments, and each of its cases with the upper half of the argument set. */
static void check_row(const struct seccomp_rule *rule)
{
    uint64_t args[ARGS];
    harmless_args(rule, args);
    check_call(rule, args);
    for (size_t c = 0; c < rule->case_count; c++) {
        harmless_args(rule, args);
        for (size_t t = 0; t < rule->cases[c].count; t++) {
            const struct seccomp_test *test = &rule->cases[c].tests[t];
            args[test->arg] = hit(test, args[test->arg]);
        }
        check_call(rule, args);
    }
}

static void test_row(void **state)
{
    const struct seccomp_rule *rule = *state;
    if (why_untried(rule))
        check_skip(why_untried(rule));
    check_row(rule);
}

struct
try {
    const char *name;
    int number;
    uint64_t args[ARGS];
    int error; /* 0: it works */
};

/* What the cases are for, said once more without the table. */
static const struct try tries[] = {
    {"a unix socket can be made", SYS_socket, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC}, 0},
    {"a TCP socket can be made", SYS_socket, {AF_INET, SOCK_STREAM | SOCK_NONBLOCK}, 0},
    {"a raw socket cannot", SYS_socket, {AF_INET, SOCK_RAW, 1}, EAFNOSUPPORT},
    {"an ICMP socket cannot", SYS_socket, {AF_INET, SOCK_DGRAM, 1}, EAFNOSUPPORT},
    {"a netlink socket cannot", SYS_socket, {AF_NETLINK, SOCK_RAW}, EAFNOSUPPORT},
    {"a packet socket cannot", SYS_socket, {AF_PACKET, SOCK_RAW}, EAFNOSUPPORT},
    {"a vsock socket cannot", SYS_socket, {AF_VSOCK, SOCK_STREAM}, EAFNOSUPPORT},
    {"an ALG socket cannot", SYS_socket, {AF_ALG, SOCK_SEQPACKET}, EAFNOSUPPORT},
    {"a family with high bits is no way around",
     SYS_socket,
     {AF_NETLINK | 1ull << 32, SOCK_RAW},
     EAFNOSUPPORT},
    {"a user namespace by clone is refused", SYS_clone, {CLONE_NEWUSER | SIGCHLD}, EPERM},
    {"also with high bits", SYS_clone, {1ull << 32 | CLONE_NEWUSER | SIGCHLD}, EPERM},
    {"a mount namespace by clone is refused", SYS_clone, {CLONE_NEWNS | SIGCHLD}, EPERM},
    {"clone3 is not there", SYS_clone3, {0, 0}, ENOSYS},
    {"TIOCSTI is refused", SYS_ioctl, {0, 0x5412, 0}, EPERM},
    {"TIOCSTI with high bits is refused", SYS_ioctl, {0, 1ull << 32 | 0x5412, 0}, EPERM},
    {"TIOCLINUX is refused", SYS_ioctl, {0, 0x541c, 0}, EPERM},
    {"address randomisation stays on", SYS_personality, {0x0040000}, EPERM},
    {"the personality can be asked for", SYS_personality, {0xffffffff}, 0},
    {"memory layout cannot be moved by prctl", SYS_prctl, {PR_SET_MM, 1, 0}, EPERM},
    {"no ptracer can be named", SYS_prctl, {PR_SET_PTRACER, UINT64_MAX}, EPERM},
    {"speculation stays as it is", SYS_prctl, {PR_SET_SPECULATION_CTRL, 0, 1}, EPERM},
    {"limits of pid 1 cannot be read", SYS_prlimit64, {1, 7, 0, 0}, EPERM},
    {"a limit of one's own can be read", SYS_prlimit64, {0, 7, 0, 0}, 0},
    {"no process can be traced", SYS_ptrace, {0}, EPERM},
    {"no memory of another process can be read", SYS_process_vm_readv, {0}, EPERM},
    {"no fd of another process can be taken", SYS_pidfd_getfd, {0}, EPERM},
    {"nothing can be mounted", SYS_mount, {0}, EPERM},
    {"nothing can be mounted in the new way", SYS_fsopen, {0}, EPERM},
    {"the root cannot be changed", SYS_chroot, {0}, EPERM},
    {"no namespace can be left", SYS_unshare, {0}, EPERM},
    {"no namespace can be joined", SYS_setns, {0}, EPERM},
    {"no file can be opened by handle", SYS_open_by_handle_at, {0}, EPERM},
    {"no program for the kernel can be loaded", SYS_bpf, {0}, EPERM},
    {"no faults can be held up", SYS_userfaultfd, {0}, EPERM},
    {"no ring makes calls past the filter", SYS_io_uring_setup, {0}, ENOSYS},
    {"no event counter can be opened", SYS_perf_event_open, {0}, EPERM},
    {"no keyring can be used", SYS_keyctl, {0}, EPERM},
    {"no module can be loaded", SYS_finit_module, {0}, EPERM},
    {"no pages can be spliced", SYS_splice, {0}, EINVAL},
    {"the host's disks are not flushed", SYS_sync, {0}, 0},
    {"an x32 call is unknown", X32_BIT | SYS_getpid, {0}, ENOSYS},
    {"a number that no kernel has is unknown", 999, {0}, ENOSYS},
};

static void test_try(void **state)
{
    const struct try *row = *state;
    struct outcome out = call_in_child(true, row->number, row->args);
    assert_true(out.is_known);
    assert_int_equal(out.error, row->error);
}

static void on_signal(int signal)
{
    (void)signal;
}

static void test_sigreturn(void **state)
{
    (void)state;
    pid_t pid = fork();
    int status;
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGUSR1, on_signal);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || apply() < 0)
            _exit(2);
        _exit(raise(SIGUSR1) == 0 ? 7 : 3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

#ifdef __x86_64__
/* getpid by the 32-bit gate; the signal that ended it, or 0. */
static int signal_of_int80(bool is_filtered)
{
    pid_t pid = fork();
    int status;
    assert_true(pid >= 0);
    if (pid == 0) {
        long result = 20;
        signal(SIGSEGV, SIG_DFL);
        signal(SIGSYS, SIG_IGN); /* must not help */
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || (is_filtered && apply() < 0))
            _exit(2);
        __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_int80(void **state)
{
    (void)state;
    if (signal_of_int80(false) != 0)
        check_skip("this kernel runs no 32-bit calls");
    assert_int_equal(signal_of_int80(true), SIGSYS);
}
#endif

static void try_sealing(void)
{
    for (size_t i = 0; i < seccomp_sealing_count; i++) {
        const struct seccomp_sealing *row = &seccomp_sealing[i];
        assert_non_null(rule_of(row->number));
        for (size_t c = 0; c < row->case_count; c++) {
            for (size_t k = 0; k < ARRAY_LEN(fillings); k++)
                try_case(row->number, &row->cases[c], fillings[k]);
        }
    }
}

static void check_answers(void **state)
{
    try_sealing();
    test_every_number(state);
    test_every_case(state);
    test_mixed_cases(state);
    test_high_numbers(state);
    test_foreign_arch(state);
}

static void test_uncounted_memory(void **state)
{
    compile(false, false);
    const struct seccomp_data memfd = {.nr = SYS_memfd_create, .arch = NATIVE_ARCH};
    const struct seccomp_data shm = {.nr = SYS_shmget, .arch = NATIVE_ARCH};
    assert_int_equal(interpret(&memfd), SECCOMP_RET_ERRNO | ENOSYS);
    assert_int_equal(interpret(&shm), SECCOMP_RET_ERRNO | ENOSYS);
    check_answers(state);
    compile(false, true);
}

/* --- a zygote's part, and that of its sandboxes ---------------------------------------------- */

static void test_two_parts(void **state)
{
    static const bool both[] = {false, true};
    for (size_t i = 0; i < ARRAY_LEN(both); i++) {
        compile(true, both[i]);
        assert_true(filters[1].len < filters[0].len / 2); /* or it is for nothing */
        check_answers(state);
    }
    compile(false, true);
}

static void test_two_parts_in_the_kernel(void **state)
{
    (void)state;
    compile(true, true);
    for (size_t i = 0; i < seccomp_rule_count; i++) {
        if (!why_untried(&seccomp_rules[i]))
            check_row(&seccomp_rules[i]);
    }
#ifdef __x86_64__
    if (signal_of_int80(false) == 0)
        assert_int_equal(signal_of_int80(true), SIGSYS);
#endif
    compile(false, true);
}

/* The first part alone lets through what sealing needs, and refuses all else as both do. */
static void test_first_part(void **state)
{
    (void)state;
    uint64_t args[ARGS];
    fill_args(args, UINT64_MAX);
    compile(true, true);
    filter_count = 1;
    for (int number = 0; number <= NUMBER_TOP; number++) {
        struct seccomp_data data = {.nr = number, .arch = NATIVE_ARCH};
        bool is_needed = false;
        memcpy(data.args, args, sizeof(data.args));
        for (size_t i = 0; i < seccomp_sealing_count; i++)
            is_needed =
                is_needed || (seccomp_sealing[i].number == number && !seccomp_sealing[i].cases);
        assert_int_equal(interpret(&data), is_needed ? SECCOMP_RET_ALLOW : expected(number, args));
    }
    struct seccomp_data drop = {.nr = SYS_prctl, .arch = NATIVE_ARCH, .args = {PR_CAPBSET_DROP, 7}};
    assert_int_equal(interpret(&drop), SECCOMP_RET_ALLOW);
    compile(false, true);
}

static void test_needs_no_new_privs(void **state)
{
    (void)state;
    pid_t pid = fork();
    int status;
    assert_true(pid >= 0);
    if (pid == 0) {
        bool is_plain = geteuid() != 0 || setresuid(65534, 65534, 65534) == 0;
        int result = apply();
        _exit(is_plain && result < 0 && errno == EACCES ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    struct check check = {.count = 0};
    compile(false, true);
    check_one(&check, "the table holds no number twice and fits the filter", test_table);
    check_one(&check, "every call of the kernel's headers is in the table", test_complete);
    check_one(&check, "the filter answers every number as the table says", test_every_number);
    check_one(&check, "each case holds, and not with one bit wrong", test_every_case);
    check_one(&check, "cases do not mix", test_mixed_cases);
    check_one(&check, "x32 calls and numbers beyond the table are unknown", test_high_numbers);
    check_one(&check, "a call of another architecture kills", test_foreign_arch);
    check_one(&check, "without a cgroup there is no memory that it alone would count",
              test_uncounted_memory);
    check_one(&check, "the filter in two parts answers as the whole does", test_two_parts);
    check_one(&check, "and so does the kernel that has both", test_two_parts_in_the_kernel);
    check_one(&check, "the first part alone lets sealing through, and nothing else",
              test_first_part);
    check_one(&check, "a signal handler can return", test_sigreturn);
#ifdef __x86_64__
    check_one(&check, "the 32-bit gate kills, whatever SIGSYS is set to", test_int80);
#endif
    check_one(&check, "without no_new_privs there is no filter", test_needs_no_new_privs);
    check_rows(&check, tries, test_try);
    check_table(&check, seccomp_rules, seccomp_rule_count, sizeof(seccomp_rules[0]), test_row);
    return check_run(&check, "seccomp");
}
