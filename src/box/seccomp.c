/* seccomp.c - compiles the table into a filter: a binary search over the call's number
 *
 * Runs of neighbouring numbers with the same plain answer share one leaf. The search compares only
 * the number, so the kernel can precompute the plain answers (its action cache) and most calls
 * never run the filter at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUMBERS_MAX 1024 /* above every call's number */
#define X32_BIT     0x40000000u

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "no seccomp architecture for this machine yet"
#endif

struct range {
    uint16_t first;
    uint32_t answer;                 /* SECCOMP_RET_... */
    const struct seccomp_rule *rule; /* when the answer depends on arguments */
};

struct compiler {
    struct sock_filter *filter;
    size_t len;
    struct range ranges[NUMBERS_MAX];
    size_t range_count;
};

static size_t emit(struct compiler *c, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
    BUG_ON(c->len >= SECCOMP_FILTER_MAX);
    c->filter[c->len] = (struct sock_filter){code, jt, jf, k};
    return c->len++;
}

static uint32_t answer_errno(int error)
{
    return SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA);
}

static struct range range_of(int number, const struct seccomp_rule *rule, bool has_memory_cgroup)
{
    struct range r = {.first = (uint16_t)number, .answer = answer_errno(ENOSYS)};
    if (!rule)
        return r;
    switch (rule->action) {
    case SECCOMP_ALLOW:
        r.answer = SECCOMP_RET_ALLOW;
        break;
    case SECCOMP_ALLOW_COUNTED:
        if (has_memory_cgroup)
            r.answer = SECCOMP_RET_ALLOW;
        break;
    case SECCOMP_REFUSE:
        r.answer = answer_errno(rule->error);
        break;
    case SECCOMP_ALLOW_CASES:
    case SECCOMP_REFUSE_CASES:
        r.rule = rule;
        break;
    case SECCOMP_REFUSE_CASES_UNCOUNTED:
        r.answer = SECCOMP_RET_ALLOW;
        r.rule = has_memory_cgroup ? NULL : rule;
        break;
    }
    return r;
}

static void find_ranges(struct compiler *c, bool has_memory_cgroup)
{
    const struct seccomp_rule *rules[NUMBERS_MAX] = {NULL};
    for (size_t i = 0; i < seccomp_rule_count; i++)
        rules[seccomp_rules[i].number] = &seccomp_rules[i];
    for (int number = 0; number < NUMBERS_MAX; number++) {
        struct range r = range_of(number, rules[number], has_memory_cgroup);
        const struct range *last = c->range_count ? &c->ranges[c->range_count - 1] : NULL;
        if (!last || last->rule || r.rule || last->answer != r.answer)
            c->ranges[c->range_count++] = r;
    }
}

/* All tests of a case, or on to the next case. */
static void emit_case(struct compiler *c, const struct seccomp_case *sc, uint32_t answer)
{
    for (uint8_t i = 0; i < sc->count; i++) {
        const struct seccomp_test *t = &sc->tests[i];
        uint8_t left =
            (uint8_t)(sc->count - i - 1); /* tests behind this one, 3 instructions each */
        size_t word = 2 * (size_t)t->arg + t->is_upper; /* both machines are little-endian */
        emit(c, BPF_LD | BPF_W | BPF_ABS,
             (uint32_t)(offsetof(struct seccomp_data, args) + word * sizeof(uint32_t)), 0, 0);
        emit(c, BPF_ALU | BPF_AND | BPF_K, t->mask, 0, 0);
        emit(c, BPF_JMP | BPF_JEQ | BPF_K, t->value, 0, (uint8_t)(3 * left + 1));
    }
    emit(c, BPF_RET | BPF_K, answer, 0, 0);
}

static void emit_leaf(struct compiler *c, const struct range *r)
{
    if (!r->rule) {
        emit(c, BPF_RET | BPF_K, r->answer, 0, 0);
        return;
    }
    bool allows = r->rule->action == SECCOMP_ALLOW_CASES;
    uint32_t refused = answer_errno(r->rule->error);
    for (size_t i = 0; i < r->rule->case_count; i++)
        emit_case(c, &r->rule->cases[i], allows ? SECCOMP_RET_ALLOW : refused);
    emit(c, BPF_RET | BPF_K, allows ? refused : SECCOMP_RET_ALLOW, 0, 0);
}

/* The recursion is as deep as the logarithm of a constant table. The jump over the lower half can
 * be longer than a conditional jump reaches, hence the unconditional one. */
static void emit_search(struct compiler *c, size_t first, size_t count)
{
    if (count == 1) {
        emit_leaf(c, &c->ranges[first]);
        return;
    }
    size_t half = count / 2;
    emit(c, BPF_JMP | BPF_JGE | BPF_K, c->ranges[first + half].first, 0, 1);
    size_t jump = emit(c, BPF_JMP | BPF_JA, 0, 0, 0);
    emit_search(c, first, half);
    c->filter[jump].k = (uint32_t)(c->len - jump - 1);
    emit_search(c, first + half, count - half);
}

size_t seccomp_compile(struct sock_filter filter[SECCOMP_FILTER_MAX], bool has_memory_cgroup)
{
    struct compiler c = {.filter = filter};
    find_ranges(&c, has_memory_cgroup);

    emit(&c, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    emit(&c, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
    emit(&c, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    emit(&c, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    /* x32 calls carry a bit of their own; like every number that is too high they are unknown. */
    emit(&c, BPF_JMP | BPF_JGE | BPF_K, NUMBERS_MAX, 0, 1);
    emit(&c, BPF_RET | BPF_K, answer_errno(ENOSYS), 0, 0);
    _Static_assert(NUMBERS_MAX < X32_BIT, "x32 calls are above every number of ours");
    emit_search(&c, 0, c.range_count);
    return c.len;
}

int seccomp_apply(const struct sock_filter *filter, size_t len)
{
    struct sock_fprog program = {.len = (unsigned short)len,
                                 .filter = (struct sock_filter *)filter};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}
