/* keepsake.c - written under another name, made durable, then moved into place */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coved/keepsake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/memory.h"
#include "base/scoped.h"

#define TEXT_MAX_BYTES (4 * KIB)

static int write_new(int dir_fd, const char *name, const char *text, struct error *err)
{
    scoped_free char *draft = xasprintf("%s.new", name);
    if (unlinkat(dir_fd, draft, 0) < 0 && errno != ENOENT) /* of one that was killed here */
        return error_sys(err, "remove '%s'", draft);
    scoped_fd int fd =
        openat(dir_fd, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_sys(err, "make '%s'", draft);
    if (fd_write_all(fd, text, strlen(text), err) < 0 || fd_write_all(fd, "\n", 1, err) < 0)
        return error_wrap(err, "write '%s'", draft);
    if (fsync(fd) < 0 || renameat(dir_fd, draft, dir_fd, name) < 0 || fsync(dir_fd) < 0)
        return error_sys(err, "write '%s'", name);
    return 0;
}

static int read_old(int fd, char **out, const char *name, struct error *err)
{
    struct stat st;
    scoped_free char *text = NULL;
    if (fstat(fd, &st) < 0)
        return error_sys(err, "look at '%s'", name);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return error_set(err, ERROR_DENIED, "'%s' is not a file of the server's own", name);
    if ((st.st_mode & 077) && fchmod(fd, 0600) < 0)
        return error_sys(err, "keep '%s' from others", name);
    if (fd_read_text(fd, &text, TEXT_MAX_BYTES, err) < 0)
        return error_wrap(err, "read '%s'", name);
    text[strcspn(text, "\r\n")] = '\0';
    if (!*text) {
        error_set(err, ERROR_INVALID, "'%s' is empty", name);
        return error_hint(err, "remove it: another one is made at the next start");
    }
    *out = take_ptr(&text);
    return 0;
}

int keepsake_get(char **out, const char *dir, const char *name, const char *preset,
                 struct error *err)
{
    char letters[KEEPSAKE_LETTERS + 1];
    scoped_fd int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir_fd < 0)
        return error_sys(err, "open '%s'", dir);
    scoped_fd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0)
        return read_old(fd, out, name, err);
    if (errno != ENOENT)
        return error_sys(err, "open '%s'", name);
    if (!preset && id_random(letters, KEEPSAKE_LETTERS, err) < 0)
        return -1;
    const char *text = preset ? preset : letters;
    if (write_new(dir_fd, name, text, err) < 0)
        return error_wrap(err, "keep '%s' in '%s'", name, dir);
    *out = xstrdup(text);
    return 0;
}
