/* landlock.c - the rules as a table, trimmed to what the running kernel knows
 *
 * It holds alone: with every mount writable and the uid that of root, a process in this domain
 * could still write nowhere but below the places of the table. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>

#include "base/scoped.h"
#include "box/syscalls.h"

/* Rights by the ABI that brought them; Debian 12's headers know only the first ones. */
#define FS_V1        ((1ull << 13) - 1)
#define FS_REFER     (1ull << 13) /* ABI 2 */
#define FS_TRUNCATE  (1ull << 14) /* ABI 3 */
#define FS_IOCTL_DEV (1ull << 15) /* ABI 5 */

#define SCOPE_ABSTRACT_UNIX (1ull << 0) /* ABI 6 */
#define SCOPE_SIGNAL        (1ull << 1)

#define READ  (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define EXEC  LANDLOCK_ACCESS_FS_EXECUTE
#define WRITE (LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)
/* Everything but new device nodes, which nobody in here may make anyway. */
#define OWN                                                                                        \
    ((FS_V1 & ~(uint64_t)(LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)) |         \
     FS_REFER | FS_TRUNCATE)

/* A rule is about a directory, not about its name: that of the workspace holds wherever else the
 * workspace is seen. */
static const struct {
    const char *path;
    uint64_t rights;
} places[] = {
    {"/", READ | EXEC},
    {"/workspace", OWN},
    {"/tmp", OWN},
    {"/dev/shm", OWN},
    {"/dev", READ | WRITE | FS_IOCTL_DEV},
    {"/proc", READ}, /* or code would put its oom_score_adj beside the server's */
};

struct ruleset_attr {
    uint64_t fs;
    uint64_t net;    /* ABI 4: left open, the network namespace is empty */
    uint64_t scoped; /* ABI 6 */
};

static uint64_t known_rights(int abi)
{
    uint64_t rights = FS_V1;
    if (abi >= 2)
        rights |= FS_REFER;
    if (abi >= 3)
        rights |= FS_TRUNCATE;
    if (abi >= 5)
        rights |= FS_IOCTL_DEV;
    return rights;
}

int landlock_abi(void)
{
    int abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 0 ? 0 : abi;
}

/* *rights: those that the rules may speak of. */
static int make_ruleset(uint64_t *rights)
{
    int abi = landlock_abi();
    if (abi == 0) {
        errno = EOPNOTSUPP;
        return -1;
    }
    struct ruleset_attr attr = {.fs = known_rights(abi)};
    size_t size = sizeof(attr.fs);
    if (abi >= 6) {
        attr.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
        size = sizeof(attr);
    }
    *rights = attr.fs;
    return sys_landlock_create_ruleset(&attr, size, 0);
}

static int add_rule(int ruleset, int fd, uint64_t rights)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    return fd < 0 ? -1 : sys_landlock_add_rule(ruleset, &rule);
}

int landlock_apply(void)
{
    uint64_t known;
    scoped_fd int ruleset = make_ruleset(&known);
    if (ruleset < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        scoped_fd int fd = open(places[i].path, O_PATH | O_CLOEXEC);
        if (add_rule(ruleset, fd, places[i].rights & known) < 0)
            return -1;
    }
    return sys_landlock_restrict_self(ruleset);
}

int landlock_apply_copy(int from_fd, int to_fd)
{
    uint64_t known;
    scoped_fd int ruleset = make_ruleset(&known);
    if (ruleset < 0 || add_rule(ruleset, from_fd, READ & known) < 0 ||
        add_rule(ruleset, to_fd, OWN & known) < 0)
        return -1;
    return sys_landlock_restrict_self(ruleset);
}
