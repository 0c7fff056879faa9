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
    uint32_t answer;                       /* SECCOMP_RET_... */
    const struct seccomp_rule *rule;       /* when the answer depends on arguments */
    const struct seccomp_sealing *sealing; /* when it depends on whether sealing needs it */
};

/* The filter is written from its end to its start, so that all a jump can lead to is there already.
 * A label is a place counted from the end. Nothing falls through but a load into its test. */
struct compiler {
    struct sock_filter *filter; /* SECCOMP_FILTER_MAX of them, filled from the last */
    size_t len;
    enum seccomp_part part;
    bool has_memory_cgroup; /* true also where that is left to REST */
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
        r.rule = rule;
        break;
    case SECCOMP_REFUSE_CASES:
    case SECCOMP_REFUSE_CASES_UNCOUNTED:
        r.answer = SECCOMP_RET_ALLOW; /* where no row is in force */
        break;
    }
    return r;
}

static const struct seccomp_sealing *find_sealing(int number)
{
    for (size_t i = 0; i < seccomp_sealing_count; i++) {
        if (seccomp_sealing[i].number == number)
            return &seccomp_sealing[i];
    }
    return NULL;
}

static bool refuses_cases(const struct seccomp_rule *rule)
{
    return rule->action == SECCOMP_REFUSE_CASES || rule->action == SECCOMP_REFUSE_CASES_UNCOUNTED;
}

/* The next row of a call whose rows refuse cases, from `rule` on, that this part has; or NULL. */
static const struct seccomp_rule *find_refusal(const struct compiler *c,
                                               const struct seccomp_rule *rule, int number)
{
    for (; rule < seccomp_rules + seccomp_rule_count; rule++) {
        bool is_in_force = rule->action == SECCOMP_REFUSE_CASES_UNCOUNTED ? !c->has_memory_cgroup
                                                                          : c->part != SECCOMP_REST;
        if (rule->number == number && is_in_force)
            return rule;
    }
    return NULL;
}

/* The range of WHOLE, as this part has it. */
static void take_part(struct range *r, const struct seccomp_rule *rule, enum seccomp_part part,
                      bool has_memory_cgroup)
{
    const struct seccomp_sealing *sealing = find_sealing(r->first);
    bool is_rest = sealing || (rule && rule->action == SECCOMP_ALLOW_COUNTED && !has_memory_cgroup);
    if (part == SECCOMP_WHOLE)
        return;
    if (sealing && sealing->cases) {
        BUG_ON(r->rule != rule || rule->action != SECCOMP_ALLOW_CASES);
        r->sealing = sealing;
    } else if (is_rest == (part == SECCOMP_BASE)) {
        *r = (struct range){.first = r->first, .answer = SECCOMP_RET_ALLOW};
    }
}

static void find_ranges(struct compiler *c)
{
    const struct seccomp_rule *rules[NUMBERS_MAX] = {NULL};
    for (size_t i = 0; i < seccomp_rule_count; i++)
        rules[seccomp_rules[i].number] = &seccomp_rules[i];
    for (int number = 0; number < NUMBERS_MAX; number++) {
        struct range r = range_of(number, rules[number], c->has_memory_cgroup);
        if (rules[number] && refuses_cases(rules[number]))
            r.rule = find_refusal(c, seccomp_rules, number);
        else
            take_part(&r, rules[number], c->part, c->has_memory_cgroup);
        const struct range *last = c->range_count ? &c->ranges[c->range_count - 1] : NULL;
        if (!last || last->rule || r.rule || last->answer != r.answer)
            c->ranges[c->range_count++] = r;
    }
}

static size_t word_of(const struct seccomp_test *t)
{
    return 2 * (size_t)t->arg + t->is_upper; /* both machines are little-endian */
}

static bool asks_same(const struct seccomp_test *a, const struct seccomp_test *b)
{
    return word_of(a) == word_of(b) && a->mask == b->mask;
}

/* When all tests of a case hold, from the one of number `depth` on, to `yes`; else to `no`. Cases
 * that follow each other and ask for the same word share its load, and those that want the same
 * value of it share the test: what fails behind that is left to no other value. The recursion is as
 * deep as a case has tests. */
static size_t emit_cases(struct compiler *c, const struct seccomp_case *cases, size_t count,
                         size_t depth, size_t yes, size_t no)
{
    while (count > 0) {
        const struct seccomp_test *asked = &cases[count - 1].tests[depth];
        size_t next = no;
        while (count > 0 && asks_same(&cases[count - 1].tests[depth], asked)) {
            uint32_t value = cases[count - 1].tests[depth].value;
            size_t first = count - 1, hit = yes;
            while (first > 0 && asks_same(&cases[first - 1].tests[depth], asked) &&
                   cases[first - 1].tests[depth].value == value)
                first--;
            for (size_t i = first; i < count; i++)
                BUG_ON((cases[i].count > depth + 1) != (cases[first].count > depth + 1));
            if (cases[first].count > depth + 1)
                hit = emit_cases(c, cases + first, count - first, depth + 1, yes, no);
            next = emit_branch(c, BPF_JEQ, value, hit, next);
            count = first;
        }
        if (asked->mask != UINT32_MAX)
            emit(c, BPF_ALU | BPF_AND | BPF_K, asked->mask, 0, 0);
        no = emit_load(c, offsetof(struct seccomp_data, args) + word_of(asked) * sizeof(uint32_t));
    }
    return no;
}

/* One row after the other; the recursion is as deep as a call has rows. */
static size_t emit_refusals(struct compiler *c, const struct seccomp_rule *rule)
{
    const struct seccomp_rule *next = find_refusal(c, rule + 1, rule->number);
    size_t miss = next ? emit_refusals(c, next) : emit_answer(c, SECCOMP_RET_ALLOW);
    size_t hit = emit_answer(c, answer_errno(rule->error));
    return emit_cases(c, rule->cases, rule->case_count, 0, hit, miss);
}

static size_t emit_leaf(struct compiler *c, const struct range *r)
{
    if (!r->rule)
        return emit_answer(c, r->answer);
    if (refuses_cases(r->rule))
        return emit_refusals(c, r->rule);
    size_t miss = emit_answer(c, answer_errno(r->rule->error));
    size_t hit = emit_answer(c, SECCOMP_RET_ALLOW);
    if (r->sealing && c->part == SECCOMP_REST)
        return emit_cases(c, r->sealing->cases, r->sealing->case_count, 0, miss, hit);
    size_t usual = emit_cases(c, r->rule->cases, r->rule->case_count, 0, hit, miss);
    if (!r->sealing)
        return usual;
    return emit_cases(c, r->sealing->cases, r->sealing->case_count, 0, hit, usual);
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

/* Calls with numbers of other machines, and with numbers that nobody has. */
static void emit_strangers(struct compiler *c, size_t search)
{
    /* x32 calls carry a bit of their own; like every number that is too high they are unknown. */
    _Static_assert(NUMBERS_MAX < X32_BIT, "x32 calls are above every number of ours");
    emit_branch(c, BPF_JGE, NUMBERS_MAX, emit_answer(c, answer_errno(ENOSYS)), search);
    size_t number = emit_load(c, offsetof(struct seccomp_data, nr));
    size_t alien = emit_answer(c, SECCOMP_RET_KILL_PROCESS);
    emit_branch(c, BPF_JEQ, NATIVE_ARCH, number, alien);
    emit_load(c, offsetof(struct seccomp_data, arch));
}

size_t seccomp_compile(struct sock_filter filter[SECCOMP_FILTER_MAX], enum seccomp_part part,
                       bool has_memory_cgroup)
{
    struct compiler c = {.filter = filter,
                         .part = part,
                         .has_memory_cgroup = has_memory_cgroup || part == SECCOMP_BASE};
    find_ranges(&c);

    size_t search = emit_search(&c, 0, c.range_count);
    if (part == SECCOMP_REST) /* strangers are BASE's */
        emit_load(&c, offsetof(struct seccomp_data, nr));
    else
        emit_strangers(&c, search);
    memmove(filter, filter + SECCOMP_FILTER_MAX - c.len, c.len * sizeof(*filter));
    return c.len;
}

int seccomp_apply(const struct sock_filter *filter, size_t len)
{
    struct sock_fprog program = {.len = (unsigned short)len,
                                 .filter = (struct sock_filter *)filter};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}
