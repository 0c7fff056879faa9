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
#include <string.h>
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

/* The filter is written from its end to its start, so that all a jump can lead to is there already.
 * A label is a place counted from the end. Nothing falls through but a load into its test. */
struct compiler {
    struct sock_filter *filter; /* SECCOMP_FILTER_MAX of them, filled from the last */
    size_t len;
    struct range ranges[NUMBERS_MAX];
    size_t range_count;
};

#define REACH 250 /* what a conditional jump spans, less some room for what comes between */

static size_t emit(struct compiler *c, uint16_t code, uint32_t k, size_t yes, size_t no)
{
    BUG_ON(c->len >= SECCOMP_FILTER_MAX);
    c->len++;
    c->filter[SECCOMP_FILTER_MAX - c->len] =
        (struct sock_filter){code, (uint8_t)yes, (uint8_t)no, k};
    return c->len;
}

static const struct sock_filter *at(const struct compiler *c, size_t label)
{
    return &c->filter[SECCOMP_FILTER_MAX - label];
}

/* The nearest place that gives this answer, a new one if none is in reach. */
static size_t emit_answer(struct compiler *c, uint32_t answer)
{
    for (size_t label = c->len; label > 0 && c->len - label < REACH; label--) {
        if (at(c, label)->code == (BPF_RET | BPF_K) && at(c, label)->k == answer)
            return label;
    }
    return emit(c, BPF_RET | BPF_K, answer, 0, 0);
}

/* A place in reach that leads to `label`. */
static size_t emit_near(struct compiler *c, size_t label)
{
    if (c->len - label < REACH)
        return label;
    if (at(c, label)->code == (BPF_RET | BPF_K))
        return emit_answer(c, at(c, label)->k);
    return emit(c, BPF_JMP | BPF_JA, (uint32_t)(c->len - label), 0, 0);
}

static size_t emit_branch(struct compiler *c, uint16_t test, uint32_t k, size_t yes, size_t no)
{
    yes = emit_near(c, yes);
    no = emit_near(c, no);
    return emit(c, BPF_JMP | test | BPF_K, k, c->len - yes, c->len - no);
}

static size_t emit_load(struct compiler *c, size_t offset)
{
    return emit(c, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
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

/* When all tests of the case hold to `yes`, else to `no`. */
static size_t emit_case(struct compiler *c, const struct seccomp_case *sc, size_t yes, size_t no)
{
    for (uint8_t i = sc->count; i-- > 0;) {
        const struct seccomp_test *t = &sc->tests[i];
        size_t word = 2 * (size_t)t->arg + t->is_upper; /* both machines are little-endian */
        emit_branch(c, BPF_JEQ, t->value, yes, no);
        if (t->mask != UINT32_MAX)
            emit(c, BPF_ALU | BPF_AND | BPF_K, t->mask, 0, 0);
        yes = emit_load(c, offsetof(struct seccomp_data, args) + word * sizeof(uint32_t));
    }
    return yes;
}

static size_t emit_leaf(struct compiler *c, const struct range *r)
{
    if (!r->rule)
        return emit_answer(c, r->answer);
    bool allows = r->rule->action == SECCOMP_ALLOW_CASES;
    uint32_t refused = answer_errno(r->rule->error);
    size_t next = emit_answer(c, allows ? refused : SECCOMP_RET_ALLOW);
    for (size_t i = r->rule->case_count; i-- > 0;) {
        size_t hit = emit_answer(c, allows ? SECCOMP_RET_ALLOW : refused);
        next = emit_case(c, &r->rule->cases[i], hit, next);
    }
    return next;
}

/* The recursion is as deep as the logarithm of a constant table. */
static size_t emit_search(struct compiler *c, size_t first, size_t count)
{
    if (count == 1)
        return emit_leaf(c, &c->ranges[first]);
    size_t half = count / 2;
    size_t upper = emit_search(c, first + half, count - half);
    size_t lower = emit_search(c, first, half);
    return emit_branch(c, BPF_JGE, c->ranges[first + half].first, upper, lower);
}

size_t seccomp_compile(struct sock_filter filter[SECCOMP_FILTER_MAX], bool has_memory_cgroup)
{
    struct compiler c = {.filter = filter};
    find_ranges(&c, has_memory_cgroup);

    size_t search = emit_search(&c, 0, c.range_count);
    /* x32 calls carry a bit of their own; like every number that is too high they are unknown. */
    _Static_assert(NUMBERS_MAX < X32_BIT, "x32 calls are above every number of ours");
    emit_branch(&c, BPF_JGE, NUMBERS_MAX, emit_answer(&c, answer_errno(ENOSYS)), search);
    size_t number = emit_load(&c, offsetof(struct seccomp_data, nr));
    size_t alien = emit_answer(&c, SECCOMP_RET_KILL_PROCESS);
    emit_branch(&c, BPF_JEQ, NATIVE_ARCH, number, alien);
    emit_load(&c, offsetof(struct seccomp_data, arch));
    memmove(filter, filter + SECCOMP_FILTER_MAX - c.len, c.len * sizeof(*filter));
    return c.len;
}

int seccomp_apply(const struct sock_filter *filter, size_t len)
{
    struct sock_fprog program = {.len = (unsigned short)len,
                                 .filter = (struct sock_filter *)filter};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}
