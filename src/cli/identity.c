/* identity.c - /etc/passwd, read without the functions of the C library, which would load others */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/scoped.h"

#define PROXY_NAME       "cove-egress"
#define PROXY_BELOW      2           /* coved is the first below */
#define SANDBOX_FIRST    1900000000u /* the numbers of sandboxes, as in src/box/power.c */
#define SANDBOX_COUNT    65536u
#define PASSWD           "/etc/passwd"
#define TEXT_MAX_BYTES   (64 * KIB)
#define PASSWD_MAX_BYTES (16 * MIB)

/* The line of this name: name:password:uid:gid:... */
bool identity_find(const char *name, struct identity *out)
{
    struct error err;
    scoped_free char *text = NULL;
    if (fd_read_file(PASSWD, &text, PASSWD_MAX_BYTES, &err) < 0)
        return false;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        const char *found = strsep(&line, ":");
        (void)strsep(&line, ":");
        const char *uid_text = strsep(&line, ":"), *gid_text = strsep(&line, ":");
        uint64_t uid, gid;
        if (strcmp(found, name) != 0 || !uid_text || !gid_text || !parse_u64(uid_text, &uid) ||
            !parse_u64(gid_text, &gid) || uid >= UINT32_MAX || gid >= UINT32_MAX)
            continue;
        *out = (struct identity){(uid_t)uid, (gid_t)gid};
        return true;
    }
    return false;
}

/* Where this user namespace maps no such numbers, sandboxes have the upper half of its largest
 * range. */
static uid_t first_of_sandboxes(void)
{
    struct error err;
    scoped_free char *text = NULL;
    uint64_t first = SANDBOX_FIRST, best = 0;
    if (fd_read_file("/proc/self/uid_map", &text, TEXT_MAX_BYTES, &err) < 0)
        return (uid_t)first;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        uint64_t inside, count;
        if (sscanf(line, "%" SCNu64 " %*u %" SCNu64, &inside, &count) != 2)
            continue;
        if (inside < SANDBOX_FIRST && inside + count >= SANDBOX_FIRST + SANDBOX_COUNT)
            return SANDBOX_FIRST;
        if (count > best) {
            best = count;
            first = inside + count - MIN(count / 2, SANDBOX_COUNT);
        }
    }
    return (uid_t)first;
}

struct identity identity_of_nobody(unsigned below)
{
    uid_t uid = first_of_sandboxes() - below;
    return (struct identity){uid, uid};
}

struct identity identity_of_proxy(void)
{
    struct identity who;
    if (geteuid() != 0)
        return (struct identity){geteuid(), getegid()};
    return identity_find(PROXY_NAME, &who) && who.uid && who.gid ? who
                                                                 : identity_of_nobody(PROXY_BELOW);
}
