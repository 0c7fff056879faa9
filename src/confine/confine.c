/* confine.c - the steps as a table: files by landlock, calls by seccomp, itself by prctl
 *
 * Nothing of src/box is used here: that is code of the privileged side, and is linked into nothing
 * that talks to strangers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/scoped.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#define CALLS_END   0x40000000u /* where those of x32 begin */
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#define CALLS_END   0x40000000u
#else
#error "no seccomp architecture for this machine yet"
#endif

/* --- files ------------------------------------------------------------------------------------ */

/* Rights by the ABI that brought them; Debian 12's headers know only the first ones. */
#define FS_V1        ((1ull << 13) - 1)
#define FS_REFER     (1ull << 13) /* ABI 2 */
#define FS_TRUNCATE  (1ull << 14) /* ABI 3 */
#define FS_IOCTL_DEV (1ull << 15) /* ABI 5 */

#define NET_BIND       (1ull << 0) /* ABI 4 */
#define NET_CONNECT    (1ull << 1)
#define SCOPE_ABSTRACT (1ull << 0) /* ABI 6 */
#define SCOPE_SIGNAL   (1ull << 1)

#define READ (uint64_t)(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE                                                                                      \
    (READ | LANDLOCK_ACCESS_FS_REMOVE_FILE | FS_TRUNCATE | LANDLOCK_ACCESS_FS_WRITE_FILE |         \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR |   \
     FS_REFER) /* a blob is moved from the folder in which it was written to its place */
/* What a rule for something that is no directory may say. */
#define OF_FILES (uint64_t)(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE)

struct ruleset_attr {
    uint64_t fs, net, scoped;
};

static int landlock_abi(void)
{
    long abi =
        syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 0 ? 0 : (int)abi;
}

static int open_ruleset(int abi, bool may_connect, struct ruleset_attr *attr)
{
    size_t size = sizeof(attr->fs);
    *attr = (struct ruleset_attr){.fs = FS_V1};
    if (abi >= 2)
        attr->fs |= FS_REFER;
    if (abi >= 3)
        attr->fs |= FS_TRUNCATE;
    if (abi >= 4) {
        attr->net = NET_BIND | (may_connect ? 0 : NET_CONNECT); /* without a rule: no port */
        size = offsetof(struct ruleset_attr, scoped);
    }
    if (abi >= 5)
        attr->fs |= FS_IOCTL_DEV;
    if (abi >= 6) {
        attr->scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
        size = sizeof(*attr);
    }
    return (int)syscall(SYS_landlock_create_ruleset, attr, size, 0);
}

static int allow_path(int ruleset, const struct ruleset_attr *attr, const char *path,
                      uint64_t rights)
{
    scoped_fd int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    struct landlock_path_beneath_attr rule = {.allowed_access = rights & attr->fs, .parent_fd = fd};
    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0)
        return 0;
    rule.allowed_access &= OF_FILES;
    return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

static int allow_paths(int ruleset, const struct ruleset_attr *attr, const char *const *paths,
                       uint64_t rights, struct error *err)
{
    for (; *paths; paths++) {
        if (allow_path(ruleset, attr, *paths, rights) < 0)
            return error_sys(err, "landlock: allow '%s'", *paths);
    }
    return 0;
}

struct net_port_attr { /* headers of Debian 12 have none */
    uint64_t access, port;
};

#define RULE_NET_PORT 2
#define PORT_DNS      53 /* by TCP, when an answer was too long */

/* Older kernels cannot tell ports apart; there it is seccomp alone. */
static int allow_ports(int ruleset, const struct ruleset_attr *attr, unsigned port,
                       struct error *err)
{
    const struct net_port_attr rules[] = {{NET_CONNECT, port}, {NET_CONNECT, PORT_DNS}};
    for (size_t i = 0; port != 0 && attr->net != 0 && i < ARRAY_LEN(rules); i++) {
        if (syscall(SYS_landlock_add_rule, ruleset, RULE_NET_PORT, &rules[i], 0) < 0)
            return error_sys(err, "landlock: allow port %u", (unsigned)rules[i].port);
    }
    return 0;
}

static int limit_files(const struct confine_order *o, struct error *err)
{
    const char *const sockets[] = {o->socket_dir, NULL};
    int abi = landlock_abi();
    struct ruleset_attr attr;
    if (abi == 0 && o->allow_degraded)
        return 0;
    if (abi == 0) {
        error_set(err, ERROR_ISOLATION, "the kernel has no landlock to confine %s with", o->who);
        return error_hint(err, "boot with lsm=...,landlock, or go on without by --allow-degraded");
    }
    scoped_fd int ruleset = open_ruleset(abi, o->may_connect, &attr);
    if (ruleset < 0)
        return error_sys(err, "landlock: make a ruleset");
    if (allow_paths(ruleset, &attr, o->writable, WRITE, err) < 0 ||
        allow_paths(ruleset, &attr, o->readable, READ, err) < 0 ||
        allow_paths(ruleset, &attr, sockets, LANDLOCK_ACCESS_FS_REMOVE_FILE, err) < 0 ||
        allow_ports(ruleset, &attr, o->connect_port, err) < 0)
        return -1;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return error_sys(err, "landlock");
    return 0;
}

/* --- calls ------------------------------------------------------------------------------------ */

struct program {
    struct sock_filter *filter;
    size_t len;
};

static void emit(struct program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
    BUG_ON(p->len >= CONFINE_FILTER_MAX);
    p->filter[p->len++] = (struct sock_filter){code, yes, no, k};
}

static void emit_answer(struct program *p, uint32_t answer)
{
    emit(p, BPF_RET | BPF_K, answer, 0, 0);
}

static uint32_t answer_errno(int error)
{
    return SECCOMP_RET_ERRNO | (uint32_t)error;
}

#define TEST_LEN 4 /* load, and, compare, allow */

/* `count` rows of one call. Its number is in the accumulator, and is again behind it. */
static void emit_call(struct program *p, const struct confine_call *rows, size_t count)
{
    if (!rows->has_test) {
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)rows->number, 0, 1);
        emit_answer(p, SECCOMP_RET_ALLOW);
        return;
    }
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)rows->number, 0, (uint8_t)(count * TEST_LEN + 1));
    for (size_t i = 0; i < count; i++) {
        /* both machines are little-endian: the low half comes first */
        emit(p, BPF_LD | BPF_W | BPF_ABS,
             (uint32_t)(offsetof(struct seccomp_data, args) + 8u * rows[i].arg), 0, 0);
        emit(p, BPF_ALU | BPF_AND | BPF_K, rows[i].mask, 0, 0);
        uint32_t value = rows[i].is_own ? (uint32_t)getpid() : rows[i].value;
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
        emit_answer(p, SECCOMP_RET_ALLOW);
    }
    emit_answer(p, answer_errno(EPERM));
}

size_t confine_compile(struct sock_filter filter[CONFINE_FILTER_MAX],
                       const struct confine_call *calls, size_t call_count)
{
    struct program p = {.filter = filter};
    emit(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    emit(&p, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
    emit_answer(&p, SECCOMP_RET_KILL_PROCESS);
    emit(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    emit(&p, BPF_JMP | BPF_JGE | BPF_K, CALLS_END, 0, 1);
    emit_answer(&p, SECCOMP_RET_KILL_PROCESS);
    /* Its flags are behind a pointer; the C library falls back to clone(). */
    emit(&p, BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 0, 1);
    emit_answer(&p, answer_errno(ENOSYS));
    for (size_t i = 0, count; i < call_count; i += count) {
        count = 1;
        while (i + count < call_count && calls[i + count].number == calls[i].number)
            count++;
        emit_call(&p, &calls[i], count);
    }
    emit_answer(&p, answer_errno(EPERM));
    return p.len;
}

static int limit_calls(const struct confine_order *o, struct error *err)
{
    struct sock_filter filter[CONFINE_FILTER_MAX];
    size_t len = confine_compile(filter, o->calls, o->call_count);
    struct sock_fprog program = {.len = (unsigned short)len, .filter = filter};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        return error_sys(err, "seccomp");
    return 0;
}

/* --- itself ----------------------------------------------------------------------------------- */

static int hide_memory(const struct confine_order *o, struct error *err)
{
    const struct rlimit none = {0, 0};
    (void)o;
    if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        return error_sys(err, "hide the memory from debuggers");
    return 0;
}

static int refuse_privileges(const struct confine_order *o, struct error *err)
{
    if (geteuid() == 0)
        return error_set(err, ERROR_ISOLATION, "%s must not run as root", o->who);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? error_sys(err, "no_new_privs") : 0;
}

/* Each session and each client costs some. */
static int raise_files(const struct confine_order *o, struct error *err)
{
    struct rlimit limit;
    (void)o;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return error_sys(err, "ask for the limit of open files");
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? error_sys(err, "raise the limit of open files")
                                                : 0;
}

/* In this order: landlock and seccomp need no_new_privs, and the filter refuses what the steps
 * before it do. */
static int (*const steps[])(const struct confine_order *o, struct error *err) = {
    hide_memory, raise_files, refuse_privileges, limit_files, limit_calls,
};

int confine_apply(const struct confine_order *order, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        if (steps[i](order, err) < 0)
            return error_wrap(err, "confine %s", order->who);
    }
    return 0;
}

#ifdef __SANITIZE_ADDRESS__
/* The leak checker starts a tracer when the program ends, which is just what is forbidden here; its
 * failure would take the place of our exit status. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}
#endif
