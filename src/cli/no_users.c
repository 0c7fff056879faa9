/* no_users.c - what keeps the user database out of a static program
 *
 * libuv can look up home directories, which nothing here asks it for. The C library's function
 * would bring the name service along, which loads shared libraries when it is called; this one says
 * that there is none. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pwd.h>

int getpwuid_r(uid_t uid, struct passwd *entry, char *buffer, size_t size, struct passwd **out)
{
    (void)uid;
    (void)entry;
    (void)buffer;
    (void)size;
    *out = NULL;
    return ENOSYS;
}
