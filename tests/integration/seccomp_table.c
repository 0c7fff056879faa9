/* seccomp_table.c - prints the table of system calls as it was compiled, for tools/compare-seccomp
 *
 * A line for each row: name, what becomes of the call, and why, or "-". */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "box/seccomp.h"

static const char *const actions[] = {
    [SECCOMP_ALLOW] = "allow",
    [SECCOMP_ALLOW_COUNTED] = "allow-if-counted",
    [SECCOMP_REFUSE] = "refuse",
    [SECCOMP_ALLOW_CASES] = "allow-cases",
    [SECCOMP_REFUSE_CASES] = "refuse-cases",
    [SECCOMP_REFUSE_CASES_UNCOUNTED] = "refuse-cases-uncounted",
};

int main(void)
{
    for (size_t i = 0; i < seccomp_rule_count; i++) {
        const struct seccomp_rule *rule = &seccomp_rules[i];
        printf("%s\t%s\t%s\n", rule->name, actions[rule->action],
               rule->reason ? rule->reason : "-");
    }
    return 0;
}
