/* checkpoint_module.c - makes a kernel able to copy itself, the copy to bear kernels, and an heir
 * to fork it
 *
 * A checkpoint is a process: a copy-on-write fork of the kernel that waits on a channel of its own.
 * Asked for a kernel, it forks once more and stays as it was, so it can be asked again. Both are
 * children of cove-init and not of the process that they were cloned from: code that waits for its
 * children never meets them.
 *
 * The interpreter's fork handlers do not run: there is one thread, which stands in our own call, so
 * all locks are as they should be, and the state of the random numbers belongs to the checkpoint.
 * Nothing of Python runs in the copy. Stable ABI, no library but libc. */
/* SPDX-License-Identifier: Apache-2.0 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/kernel.h"

#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif

#define SAVED_MAX 4096 /* open descriptors */

/* One descriptor of the kernel, as it was at the checkpoint. */
struct saved {
    int fd;
    int fd_flags;
    int flags;    /* of the open file */
    off_t offset; /* -1: has none */
    char *path;   /* NULL: cannot be opened again, a dead socket takes its place */
};

static struct {
    struct saved *items;
    size_t count;
    char directory[PATH_MAX];
    char name[16];
} saved;

/* --- may it be copied? ----------------------------------------------------------------------- */

static bool refuse(const char *why)
{
    PyErr_SetString(PyExc_RuntimeError, why);
    return false;
}

static bool has_one_thread(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *e; dir && (e = readdir(dir));)
        count += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    if (count == 1)
        return true;
    if (count == 0)
        return refuse("its threads cannot be counted");
    char why[100];
    snprintf(why, sizeof(why), "%d threads are running, and only one could be saved", count);
    return refuse(why);
}

static bool is_zombie(const char *pid)
{
    char path[40], text[200];
    snprintf(path, sizeof(path), "/proc/%.12s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = '\0';
    const char *name_end = strrchr(text, ')'); /* "17 (name) Z ..." */
    return name_end && strncmp(name_end, ") Z", 3) == 0;
}

/* They would not be copied, and write on while the workspace is. */
static bool has_no_children(void)
{
    char path[60], text[4096];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return refuse("nobody can tell whether processes that the code has started are running");
    text[n] = '\0';
    for (char *save = NULL, *pid = strtok_r(text, " ", &save); pid;
         pid = strtok_r(NULL, " ", &save)) {
        if (!is_zombie(pid))
            return refuse("processes that the code has started are running");
    }
    return true;
}

/* Who makes a copy of this process. The fork of an heir's lives in another sandbox, with a
 * workspace of its own. */
enum copier { BY_CLONE, BY_HEIR };

struct map {
    bool is_shared; /* whatever its rights are just now: they can be changed */
    const char *name;
};

/* Nothing that anybody could write to, as the files of an image. */
static bool is_read_only(const char *path)
{
    struct statvfs fs;
    return path[0] == '/' && statvfs(path, &fs) == 0 && fs.f_flag & ST_RDONLY;
}

/* What is shared would not be a copy. A map of the workspace would show a fork what the other
 * writes there later; files in memory are the spawner's to judge, for ours are among them. */
static bool stays_shared(const struct map *m, enum copier by)
{
    bool is_of_memory = strncmp(m->name, "/memfd:", strlen("/memfd:")) == 0;
    if (!m->is_shared && (by == BY_CLONE || is_of_memory))
        return false;
    return !is_read_only(m->name);
}

/* Since Linux 6.11 maps can be searched without being printed, which takes a millisecond less. */
struct map_query {
    uint64_t size, flags, address;
    uint64_t from, to, found, page, offset, inode;
    uint32_t device[2], name_size, id_size;
    uint64_t name, id;
};

#define MAP_QUERY     _IOWR('f', 17, struct map_query)
#define MAP_IS_SHARED 0x08
#define MAP_OR_NEXT   0x10
#define MAP_OF_FILE   0x20 /* memory that is shared has one, too */

/* 1: there is memory that stays shared, 0: there is none, -1: cannot be asked. A name takes longer
 * than all the rest, and the maps of a file follow each other. */
static int query_shared(int fd, enum copier by)
{
    char name[PATH_MAX];
    uint64_t good = 0; /* an inode, of the last file that was found to be */
    struct map_query q = {.size = sizeof(q), .flags = MAP_OF_FILE | MAP_OR_NEXT};
    if (by == BY_CLONE)
        q.flags |= MAP_IS_SHARED;
    for (;; q.address = q.to) {
        q.name = q.name_size = 0;
        if (ioctl(fd, MAP_QUERY, &q) < 0)
            return errno == ENOENT ? 0 : -1;
        bool is_shared = q.found & MAP_IS_SHARED;
        if (!is_shared && q.inode == good)
            continue;
        q.address = q.from;
        q.name = (uintptr_t)name;
        q.name_size = sizeof(name);
        if (ioctl(fd, MAP_QUERY, &q) < 0)
            return -1;
        struct map m = {is_shared, q.name_size ? name : ""};
        if (stays_shared(&m, by))
            return 1;
        good = is_shared ? 0 : q.inode;
    }
}

/* The same from the text, "from-to rw-s offset device inode name" in each line. */
static int read_shared(int fd, enum copier by)
{
    int copy = dup(fd);
    FILE *file = copy < 0 ? NULL : fdopen(copy, "r");
    char *line = NULL;
    size_t room = 0;
    int found = 0;
    if (!file) {
        if (copy >= 0)
            close(copy);
        return -1;
    }
    while (found == 0 && getline(&line, &room, file) > 0) {
        const char *rights = strchr(line, ' '), *name = strchr(line, '/');
        line[strcspn(line, "\n")] = '\0';
        struct map m = {rights && strlen(rights) > 4 && rights[4] == 's', name ? name : ""};
        found = (m.is_shared || name) && stays_shared(&m, by);
    }
    if (ferror(file))
        found = -1;
    free(line);
    fclose(file);
    return found;
}

static bool shares_no_memory(enum copier by)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    int found = fd < 0 ? -1 : query_shared(fd, by);
    if (fd >= 0 && found < 0)
        found = read_shared(fd, by);
    if (fd >= 0)
        close(fd);
    if (found > 0)
        return refuse(by == BY_CLONE
                          ? "memory is shared with a file or another process (mmap), which cannot "
                            "be saved"
                          : "memory is shared with a file of the workspace (a module that was "
                            "loaded from it, mmap) or another process, which cannot be forked");
    return found == 0 ? true : refuse("its memory map cannot be read");
}

/* The C library keeps the thread's number, and fork() renews it there. */
static bool find_tid(int **out)
{
    unsigned long at = 0;
    if (prctl(PR_GET_TID_ADDRESS, &at, 0, 0, 0) < 0 || !at ||
        *(int *)at != (int)syscall(SYS_gettid))
        return refuse("this C library, or the host's kernel, is not known to work");
    *out = (int *)at;
    return true;
}

/* --- descriptors ----------------------------------------------------------------------------- */

static void forget(void)
{
    for (size_t i = 0; i < saved.count; i++)
        free(saved.items[i].path);
    saved.count = 0;
}

static bool save_path(struct saved *s)
{
    char link[40], path[PATH_MAX];
    static const char deleted[] = " (deleted)";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", s->fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n <= 0 || path[0] != '/')
        return refuse("an open file cannot be found again");
    path[n] = '\0';
    size_t tail = sizeof(deleted) - 1;
    if ((size_t)n > tail && strcmp(path + n - tail, deleted) == 0 && access(path, F_OK) < 0)
        return refuse("an open file has no name (any more), and could not be opened again");
    s->path = strdup(path);
    return s->path ? true : refuse("out of memory");
}

static bool is_of_proc(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* A copy has the devices that its kernel had open; a fork has nothing. */
static bool save_one(int fd, bool with_devices)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return refuse("an open file cannot be looked at");
    if (S_ISCHR(st.st_mode) && !with_devices)
        return true;
    if (with_devices && S_ISREG(st.st_mode) && is_of_proc(fd))
        return refuse("a file of /proc is open, and shows this process whoever has it");
    if (saved.count == SAVED_MAX)
        return refuse("too many files are open");
    struct saved *s = &saved.items[saved.count];
    *s = (struct saved){.fd = fd,
                        .fd_flags = fcntl(fd, F_GETFD),
                        .flags = fcntl(fd, F_GETFL),
                        .offset = lseek(fd, 0, SEEK_CUR)};
    if ((S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISCHR(st.st_mode)) && !save_path(s))
        return false;
    saved.count++;
    return true;
}

static bool save_all(int copy_fd, int channel_fd, bool with_devices)
{
    forget();
    if (!saved.items)
        saved.items = malloc(SAVED_MAX * sizeof(*saved.items));
    if (!saved.items || !getcwd(saved.directory, sizeof(saved.directory)))
        return refuse("its working directory is gone");
    DIR *dir = opendir("/proc/self/fd");
    bool is_good = dir != NULL, is_whole = false;
    while (is_good && !is_whole) {
        errno = 0;
        struct dirent *e = readdir(dir);
        is_whole = !e;
        int fd = e ? (int)strtol(e->d_name, NULL, 10) : -1;
        if (is_whole)
            is_good = errno == 0;
        else if (e->d_name[0] != '.' && fd != dirfd(dir) && fd != copy_fd && fd != channel_fd)
            is_good = save_one(fd, with_devices);
    }
    if (dir)
        closedir(dir);
    if (!is_good && !PyErr_Occurred())
        return refuse("its open files cannot be listed");
    return is_good;
}

static bool open_again(const struct saved *s)
{
    int flags = s->flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_DIRECTORY | O_DIRECT | O_SYNC);
    int fd = open(s->path, flags | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (s->offset > 0)
        lseek(fd, s->offset, SEEK_SET);
    bool is_good = fd == s->fd || dup3(fd, s->fd, s->fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0) >= 0;
    if (fd != s->fd)
        close(fd);
    return is_good;
}

/* A socket whose other end is closed: readers see the end, writers an error. */
static int make_dead(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    close(pair[1]);
    return pair[0];
}

/* --- the copy -------------------------------------------------------------------------------- */

static long clone_sibling(int *tid)
{
    unsigned long flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
#ifdef __x86_64__
    return syscall(SYS_clone, flags, 0, NULL, tid, 0);
#else
    return syscall(SYS_clone, flags, 0, NULL, 0, tid);
#endif
}

/* Keeps nothing open that others could wait for, or that could be written through it. */
static bool settle_copy(int channel_fd)
{
    int dead = make_dead();
    if (dead < 0 || setsid() < 0 || chdir("/") < 0 || dup3(dead, channel_fd, O_CLOEXEC) < 0)
        return false;
    for (size_t i = 0; i < saved.count; i++) {
        const struct saved *s = &saved.items[i];
        if (dup3(dead, s->fd, s->fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
            return false;
    }
    close(dead);
    prctl(PR_SET_NAME, "cove-checkpoint");
    return true;
}

static bool settle_kernel(int fd, int copy_fd, int channel_fd)
{
    if (setsid() < 0 || dup3(fd, channel_fd, O_CLOEXEC) < 0)
        return false;
    close(fd);
    close(copy_fd);
    for (size_t i = 0; i < saved.count; i++) {
        if (saved.items[i].path)
            (void)!open_again(&saved.items[i]); /* gone: it stays dead */
    }
    prctl(PR_SET_NAME, saved.name);
    return chdir(saved.directory) == 0 || chdir("/workspace") == 0;
}

/* What is asked for, and the fd that came with it or -1. Who asks no more ends us. */
static char receive(int from, int *fd)
{
    char order;
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } rights;
    struct iovec bytes = {&order, 1};
    struct msghdr m = {.msg_iov = &bytes,
                       .msg_iovlen = 1,
                       .msg_control = &rights,
                       .msg_controllen = sizeof(rights)};
    ssize_t n;
    do
        n = recvmsg(from, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        _exit(0);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *fd = -1;
    if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(fd, CMSG_DATA(c), sizeof(*fd));
    return order;
}

static bool pass_on(int to, int fd)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } rights = {.header = {.cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS,
                           .cmsg_len = CMSG_LEN(sizeof(int))}};
    char order = KERNEL_COPY_BEAR;
    struct iovec bytes = {&order, 1};
    struct msghdr m = {.msg_iov = &bytes,
                       .msg_iovlen = 1,
                       .msg_control = &rights,
                       .msg_controllen = sizeof(rights)};
    memcpy(CMSG_DATA(&rights.header), &fd, sizeof(fd));
    return sendmsg(to, &m, MSG_NOSIGNAL) == 1;
}

/* A copy, and the fork that it has made in advance: when it is needed, it only has to wake up. */
struct copy {
    int fd;         /* the channel */
    int channel_fd; /* where its kernels have theirs */
    int *tid;
    int32_t spare; /* 0: none */
    int spare_fd;
};

static void drop_spare(struct copy *c)
{
    if (c->spare)
        close(c->spare_fd);
    c->spare = 0;
}

/* True in the kernel that the spare has become. */
static bool make_spare(struct copy *c)
{
    int pair[2], fd = -1;
    drop_spare(c);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    long pid = clone_sibling(c->tid);
    if (pid != 0) {
        close(pair[1]);
        if (pid < 0)
            close(pair[0]);
        c->spare = pid < 0 ? 0 : (int32_t)pid;
        c->spare_fd = pair[0];
        return false;
    }
    close(c->fd); /* or nobody would see the copy's end */
    close(pair[0]);
    prctl(PR_SET_NAME, "cove-spare");
    while (fd < 0)
        receive(pair[1], &fd);
    if (!settle_kernel(fd, pair[1], c->channel_fd))
        _exit(1);
    return true;
}

/* True in the kernel; -errno or its pid in *pid for the copy. */
static bool bear(struct copy *c, int fd, int32_t *pid)
{
    if (c->spare && pass_on(c->spare_fd, fd)) {
        *pid = c->spare;
        drop_spare(c);
        return false;
    }
    drop_spare(c); /* it was killed */
    long made = clone_sibling(c->tid);
    *pid = made < 0 ? -errno : (int32_t)made;
    if (made == 0 && !settle_kernel(fd, c->fd, c->channel_fd))
        _exit(1);
    return made == 0;
}

/* Returns in each kernel that it bears, and nowhere else. */
static void be_copy(int copy_fd, int channel_fd, int *tid)
{
    struct copy c = {.fd = copy_fd, .channel_fd = channel_fd, .tid = tid};
    if (!settle_copy(channel_fd))
        _exit(1);
    for (;;) {
        int fd;
        struct kernel_copy_answer answer = {0};
        char order = receive(copy_fd, &fd);
        if (order == KERNEL_COPY_BEAR && fd >= 0 && bear(&c, fd, &answer.pid))
            return;
        if (order == KERNEL_COPY_SPARE && make_spare(&c))
            return;
        if (fd >= 0)
            close(fd);
        if (order == KERNEL_COPY_DROP)
            drop_spare(&c);
        answer.spare = c.spare;
        if (order != KERNEL_COPY_DROP && send(copy_fd, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
            _exit(0);
    }
}

/* checkpoint(copy_fd, channel_fd): the pid of a new copy; 0 in a kernel that a copy has borne,
 * whose channel is channel_fd again. copy_fd is taken. */
static PyObject *checkpoint(PyObject *self, PyObject *args)
{
    (void)self;
    int copy_fd, channel_fd, *tid;
    if (!PyArg_ParseTuple(args, "ii", &copy_fd, &channel_fd))
        return NULL;
    if (!has_one_thread() || !has_no_children() || !shares_no_memory(BY_CLONE) || !find_tid(&tid) ||
        !save_all(copy_fd, channel_fd, false)) {
        close(copy_fd);
        return NULL;
    }
    prctl(PR_GET_NAME, saved.name);
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    long pid = clone_sibling(tid);
    int error = errno;
    if (pid == 0)
        be_copy(copy_fd, channel_fd, tid);
    else
        close(copy_fd);
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(pid);
}

/* --- forks ----------------------------------------------------------------------------------- */

/* What a process has beside its memory and its files, and an heir does not. */
static struct {
    struct sigaction actions[NSIG];
    mode_t mask;
} habits;

static void save_habits(void)
{
    for (int sig = 1; sig < NSIG; sig++)
        (void)!sigaction(sig, NULL, &habits.actions[sig]);
    habits.mask = umask(0);
    umask(habits.mask);
    prctl(PR_GET_NAME, saved.name);
}

static void take_habits(void)
{
    for (int sig = 1; sig < NSIG; sig++)
        (void)!sigaction(sig, &habits.actions[sig], NULL); /* two are the C library's own */
    umask(habits.mask);
    prctl(PR_SET_NAME, saved.name);
}

/* To a number that none of the saved descriptors has. */
static int lift(int fd, int channel_fd)
{
    int above = channel_fd + 1;
    for (size_t i = 0; i < saved.count; i++) {
        if (saved.items[i].fd >= above)
            above = saved.items[i].fd + 1;
    }
    int high = fcntl(fd, F_DUPFD_CLOEXEC, above);
    close(fd);
    return high;
}

/* In the fork, which has the descriptors of the heir: its channel, and the one it was given. */
static bool settle_fork(int given_fd, int channel_fd)
{
    int channel = lift(given_fd, channel_fd), dead = lift(make_dead(), channel_fd);
    close(KERNEL_CHANNEL_FD); /* the heir's */
    if (channel < 0 || dead < 0 || setsid() < 0 || dup3(channel, channel_fd, O_CLOEXEC) < 0)
        return false;
    for (size_t i = 0; i < saved.count; i++) {
        const struct saved *s = &saved.items[i];
        if (dup3(dead, s->fd, s->fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
            return false;
    }
    for (size_t i = 0; i < saved.count; i++) {
        if (saved.items[i].path)
            (void)!open_again(&saved.items[i]); /* not in this sandbox: it stays dead */
    }
    close(channel);
    close(dead);
    take_habits();
    return chdir(saved.directory) == 0 || chdir("/workspace") == 0;
}

/* Until the host says that it goes on, or is gone. */
static void stand(int gate_fd)
{
    char byte = KERNEL_GATE_STANDS;
    if (send(gate_fd, &byte, 1, MSG_NOSIGNAL) == 1)
        while (recv(gate_fd, &byte, 1, 0) < 0 && errno == EINTR)
            ;
}

/* True in a fork: an heir in another sandbox shares this memory, and copies it while we stand. */
static __attribute__((noinline)) bool stand_or_fork(struct kernel_fork_point *point, int gate_fd)
{
    if (__builtin_setjmp(point->resume))
        return true;
    point->is_set = 1;
    stand(gate_fd);
    point->is_set = 0;
    return false;
}

/* fork(gate_fd, channel_fd, point): True in the kernel that goes on, False in its fork, whose
 * channel is channel_fd, too. gate_fd is taken. */
static PyObject *fork_kernel(PyObject *self, PyObject *args)
{
    (void)self;
    int gate_fd, channel_fd, *tid;
    PyObject *where;
    if (!PyArg_ParseTuple(args, "iiO", &gate_fd, &channel_fd, &where))
        return NULL;
    struct kernel_fork_point *point = PyLong_AsVoidPtr(where);
    if (!point || !has_one_thread() || !has_no_children() || !shares_no_memory(BY_HEIR) ||
        !find_tid(&tid) || !save_all(gate_fd, channel_fd, true)) {
        close(gate_fd);
        return NULL;
    }
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    save_habits();
    bool is_fork = stand_or_fork(point, gate_fd);
    if (is_fork && !settle_fork(point->channel_fd, channel_fd))
        _exit(1);
    if (is_fork)
        point->is_set = 0;
    else
        close(gate_fd);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return PyBool_FromLong(!is_fork);
}

static PyMethodDef methods[] = {
    {"fork", fork_kernel, METH_VARARGS, "Stand still until an heir has forked this kernel."},
    {"checkpoint", checkpoint, METH_VARARGS, "Make a copy that waits, and can bear kernels."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "cove_checkpoint", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_cove_checkpoint(void);
PyMODINIT_FUNC PyInit_cove_checkpoint(void)
{
    return PyModule_Create(&module);
}
