/* memfile.c - memfd, filled and sealed */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "base/scoped.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u /* since 6.3; before, every memfd was executable */
#endif

int memfile_load(int *out, int dir_fd, const char *name, mode_t mode, struct error *err)
{
    scoped_fd int file = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (file < 0 || fstat(file, &st) < 0)
        return error_sys(err, "open '%s'", name);
    scoped_fd int copy = memfd_create("cove", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (copy < 0 && errno == EINVAL)
        copy = memfd_create("cove", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (copy < 0)
        return error_sys(err, "make a memory file");
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(copy, file, NULL, (size_t)left);
        if (n <= 0)
            return error_sys(err, "copy '%s'", name);
        left -= n;
    }
    if (fchmod(copy, mode) < 0 ||
        fcntl(copy, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_sys(err, "seal '%s'", name);
    *out = take_fd(&copy);
    return 0;
}
