/* fence.c - one landlock rule */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/fence.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/scoped.h"

/* Rights by the ABI that brought them; Debian 12's headers know only the first ones. */
#define FS_REFER    (1ull << 13) /* ABI 2 */
#define FS_TRUNCATE (1ull << 14) /* ABI 3 */

#define MAKE_PLAIN                                                                                 \
    (uint64_t)(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |                    \
               LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                       \
               LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM)
#define MAKE_SPECIAL                                                                               \
    (uint64_t)(LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK |                      \
               LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SOCK)

static uint64_t rights_of(long abi)
{
    return MAKE_PLAIN | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0);
}

int fence_writes(const char *directory, struct error *err)
{
    long abi =
        syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi <= 0)
        return 0;
    scoped_fd int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, "open '%s'", directory);
    const uint64_t handled = rights_of(abi) | MAKE_SPECIAL;
    const struct landlock_path_beneath_attr rule = {.allowed_access = rights_of(abi),
                                                    .parent_fd = fd};
    scoped_fd int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);
    if (rules < 0 ||
        syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_landlock_restrict_self, rules, 0) < 0)
        return error_sys(err, "write below '%s' alone", directory);
    return 0;
}
