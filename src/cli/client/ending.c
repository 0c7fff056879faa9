/* ending.c - one fd to read from or to write to, whatever stands behind it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/ending.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "cli/client/fence.h"

/* `theirs` becomes its standard input or output. */
static int start_tar(struct ending *e, const char *const *argv, int theirs, int as,
                     struct error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs, as);
    int error = posix_spawnp(&e->tar, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == 0)
        return 0;
    e->tar = 0;
    errno = error;
    return error_sys(err, "start tar");
}

/* A pipe, of which tar has one end. */
static int open_tar(struct ending *e, const char *const *argv, bool is_reader, struct error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_sys(err, "make pipe");
    scoped_fd int theirs = fds[is_reader ? 0 : 1];
    e->fd = fds[is_reader ? 1 : 0];
    return start_tar(e, argv, theirs, is_reader ? STDIN_FILENO : STDOUT_FILENO, err);
}

static int open_standard(struct ending *e, int fd, struct error *err)
{
    e->is_standard = true;
    e->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return e->fd < 0 ? error_sys(err, "use standard input or output") : 0;
}

static int open_source(struct ending *e, const char *path, struct error *err)
{
    struct stat st;
    if (strcmp(path, "-") == 0)
        return open_standard(e, STDIN_FILENO, err);
    e->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (e->fd < 0 || fstat(e->fd, &st) < 0)
        return error_sys(err, "open '%s'", path);
    e->mode = st.st_mode & 0777;
    if (S_ISREG(st.st_mode)) {
        e->size = st.st_size;
        return 0;
    }
    if (!S_ISDIR(st.st_mode))
        return error_set(err, ERROR_INVALID, "'%s' is neither file nor directory", path);
    scoped_close_fd(&e->fd);
    e->fd = -1;
    const char *const argv[] = {"tar", "-C", path, "--format=posix", "--hard-dereference", "-cf",
                                "-",   ".",  NULL};
    return open_tar(e, argv, false, err);
}

int ending_open_source(struct ending *out, const char *path, struct error *err)
{
    *out = (struct ending){.fd = -1, .size = -1, .mode = 0644};
    int status = open_source(out, path, err);
    if (status < 0)
        ending_release(out);
    return status;
}

int ending_open_file(struct ending *out, const char *path, struct error *err)
{
    *out = (struct ending){.fd = -1, .size = -1};
    if (strcmp(path, "-") == 0)
        return open_standard(out, STDOUT_FILENO, err);
    out->draft = xasprintf("%s.XXXXXX", path);
    out->fd = mkostemp(out->draft, O_CLOEXEC);
    if (out->fd < 0) {
        error_sys(err, "write '%s'", path);
        free(take_ptr(&out->draft));
        return -1;
    }
    out->path = xstrdup(path);
    return 0;
}

int ending_open_tree(struct ending *out, const char *path, struct error *err)
{
    /* Root's tar would make programs of its own of what was marked so inside; and a directory that
     * is there keeps its permissions, also one that a link stands for. */
    const char *const argv[] = {
        "tar", "-C", path, "--no-same-owner", "--no-same-permissions", "--no-overwrite-dir",
        "-xf", "-",  NULL};
    *out = (struct ending){.fd = -1, .size = -1};
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return error_sys(err, "make the directory '%s'", path);
    if (fence_writes(path, err) < 0)
        return -1;
    int status = open_tar(out, argv, true, err);
    if (status < 0)
        ending_release(out);
    return status;
}

static int finish_tar(struct ending *e, struct error *err)
{
    int status;
    scoped_close_fd(&e->fd); /* by which it knows that there is no more */
    e->fd = -1;
    pid_t pid = e->tar;
    e->tar = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return error_sys(err, "wait for tar");
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return error_set(err, ERROR_UNAVAILABLE, "tar has failed, with its reason above");
}

static int finish_file(struct ending *e, struct error *err)
{
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(e->fd, 0666 & ~mask) < 0 || rename(e->draft, e->path) < 0)
        return error_sys(err, "write '%s'", e->path);
    free(take_ptr(&e->draft));
    return 0;
}

int ending_finish(struct ending *e, struct error *err)
{
    if (e->tar)
        return finish_tar(e, err);
    return e->draft ? finish_file(e, err) : 0;
}

void ending_release(struct ending *e)
{
    scoped_close_fd(&e->fd);
    if (e->tar) {
        kill(e->tar, SIGTERM);
        waitpid(e->tar, NULL, 0);
    }
    if (e->draft)
        unlink(e->draft);
    free(e->draft);
    free(e->path);
}
