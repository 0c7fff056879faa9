/* filter.c - gives Cove's seccomp filter to the programs it is compared with
 *
 * `filter bpf` writes the compiled filter as bubblewrap reads it, `filter oci` writes the same
 * table as crun and runc read it. bench/run compiles this together with the table of src/box. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "box/seccomp.h"

static int write_bpf(void)
{
    static struct sock_filter filter[SECCOMP_FILTER_MAX];
    size_t count = seccomp_compile(filter, SECCOMP_WHOLE, true);
    return fwrite(filter, sizeof(*filter), count, stdout) == count ? 0 : 1;
}

static void print_case(const struct seccomp_rule *rule, const struct seccomp_case *one)
{
    printf(",\n{\"names\":[\"%s\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[", rule->name);
    for (unsigned i = 0; i < one->count; i++) {
        const struct seccomp_test *test = &one->tests[i];
        printf("%s{\"index\":%u,\"value\":%u,\"valueTwo\":%u,\"op\":\"SCMP_CMP_MASKED_EQ\"}",
               i > 0 ? "," : "", test->arg, test->mask, test->value);
    }
    printf("]}");
}

static void print_rule(const struct seccomp_rule *rule)
{
    switch (rule->action) {
    case SECCOMP_REFUSE:
        printf(",\n{\"names\":[\"%s\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":%d}", rule->name,
               rule->error);
        break;
    case SECCOMP_ALLOW_CASES:
        for (size_t i = 0; i < rule->case_count; i++)
            print_case(rule, &rule->cases[i]);
        break;
    case SECCOMP_ALLOW:
    case SECCOMP_ALLOW_COUNTED: /* they have a memory cgroup */
    case SECCOMP_REFUSE_CASES_UNCOUNTED:
    case SECCOMP_REFUSE_CASES: /* these runtimes cannot test one argument against several values */
        printf(",\n{\"names\":[\"%s\"],\"action\":\"SCMP_ACT_ALLOW\"}", rule->name);
        break;
    }
}

static int write_oci(void)
{
    printf("{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38,\n"
           "\"architectures\":[\"SCMP_ARCH_X86_64\"],\n"
           "\"syscalls\":[{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\"}");
    for (size_t i = 0; i < seccomp_rule_count; i++) {
        if (strcmp(seccomp_rules[i].name, "read") != 0)
            print_rule(&seccomp_rules[i]);
    }
    printf("]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "bpf") == 0)
        return write_bpf();
    if (argc == 2 && strcmp(argv[1], "oci") == 0)
        return write_oci();
    fprintf(stderr, "usage: filter bpf|oci\n");
    return 2;
}
