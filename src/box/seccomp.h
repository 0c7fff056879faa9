/* seccomp.h - the system calls that code in a sandbox may make
 *
 * One table (seccomp_rules.c) says it per call; seccomp_compile() turns the table into a filter. A
 * call that the table does not know (newer than this code) answers ENOSYS, so that programs fall
 * back; a call of another architecture kills. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

#define SECCOMP_FILTER_MAX 1024 /* instructions; the kernel takes 4096 */
#define SECCOMP_TESTS_MAX  4    /* tests that must all hold */
#define SECCOMP_CASES_MAX  24   /* alternatives of one rule */

enum seccomp_action {
    SECCOMP_ALLOW,
    SECCOMP_ALLOW_COUNTED,         /* where a memory cgroup counts what it makes, else ENOSYS */
    SECCOMP_REFUSE,                /* answers `error`; 0 pretends success without doing anything */
    SECCOMP_ALLOW_CASES,           /* allowed when one of the cases holds, else `error` */
    SECCOMP_REFUSE_CASES,          /* `error` when one of the cases holds, else allowed */
    SECCOMP_REFUSE_CASES_UNCOUNTED /* the same, but only where no memory cgroup counts */
};

/* (low 32 bits of argument `arg` & mask) == value. The kernel reads most arguments as int, so what
 * stands in the upper half must not matter; of a pointer it does, and gets a test of its own. */
struct seccomp_test {
    uint8_t arg;
    uint32_t mask;
    uint32_t value;
    bool is_upper; /* the upper 32 bits instead */
};

struct seccomp_case {
    struct seccomp_test tests[SECCOMP_TESTS_MAX];
    uint8_t count;
};

struct seccomp_rule {
    const char *name;
    int number;
    enum seccomp_action action;
    int error;
    const char *reason;
    const struct seccomp_case *cases;
    size_t case_count;
};

/* Sorted by nothing in particular. A number has one row, or several that all refuse cases: the
 * first with a case that holds gives the answer. */
extern const struct seccomp_rule seccomp_rules[];
extern const size_t seccomp_rule_count;

/* What nobody in a sandbox may do, but who seals one must: calls that are refused to all others, or
 * cases of a call that has others for all. */
struct seccomp_sealing {
    int number;
    const struct seccomp_case *cases; /* NULL: every use of it */
    size_t case_count;
};

extern const struct seccomp_sealing seccomp_sealing[];
extern const size_t seccomp_sealing_count;

/* A filter costs what it is long, each time that it is put on. So a zygote has the long part of it
 * once, for itself and all that it makes, and each sandbox only what is left. Of two filters the
 * kernel takes the answer that forbids more: BASE with REST on top of it answers as WHOLE does. */
enum seccomp_part {
    SECCOMP_WHOLE,
    SECCOMP_BASE, /* WHOLE, but with all that sealing needs, and as if memory were counted */
    SECCOMP_REST, /* what BASE leaves out, and nothing else: never without it */
};

/* Fills `filter` and answers the number of instructions. Allocates nothing. */
size_t seccomp_compile(struct sock_filter filter[SECCOMP_FILTER_MAX], enum seccomp_part part,
                       bool has_memory_cgroup);

/* Puts the filter on this process; needs no_new_privs. 0, or -1 with errno. */
MUST_CHECK int seccomp_apply(const struct sock_filter *filter, size_t len);
