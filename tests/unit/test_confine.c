/* test_confine.c - what a process can still do when it is confined as coved is
 *
 * Each case runs in a child of its own, which is no longer root and then confined, and tells the
 * errno of what it tried. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coved/coved_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define SOMEBODY     54321 /* any uid but root's */
#define NOT_CONFINED 255
#define MAY_PORT     9 /* discard: nobody listens there */

struct folder {
    char *base, *writable, *readable, *other;
};

static struct folder folder; /* made anew for each case */
static int spare_socket;

static int result_of(long answer)
{
    return answer < 0 ? errno : 0;
}

static int try_open(const char *dir, int flags)
{
    scoped_free char *path = xasprintf("%s/file", dir);
    scoped_fd int fd = open(path, flags | O_CLOEXEC, 0600);
    return result_of(fd);
}

/* --- what works ------------------------------------------------------------------------------- */

static int make_a_file(void)
{
    scoped_free char *from = xasprintf("%s/new", folder.writable);
    scoped_free char *to = xasprintf("%s/renamed", folder.writable);
    scoped_fd int fd = open(from, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) < 0 || ftruncate(fd, 0) < 0)
        return errno;
    return result_of(rename(from, to)) || result_of(unlink(to));
}

/* As a blob that is written in one folder and kept in another. */
static int move_between_its_folders(void)
{
    scoped_free char *from = xasprintf("%s/one", folder.writable);
    scoped_free char *to = xasprintf("%s/two", folder.writable);
    scoped_free char *file = xasprintf("%s/one/file", folder.writable);
    scoped_free char *moved = xasprintf("%s/two/file", folder.writable);
    if (mkdir(from, 0700) < 0 || mkdir(to, 0700) < 0)
        return errno;
    scoped_fd int fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? errno : result_of(rename(file, moved));
}

static int read_where_it_may(void)
{
    return try_open(folder.readable, O_RDONLY);
}

static void *nothing(void *ctx)
{
    return ctx;
}

static int start_a_thread(void)
{
    pthread_t thread;
    int status = pthread_create(&thread, NULL, nothing, NULL);
    return status ? status : pthread_join(thread, NULL);
}

static int pass_an_fd_on(void)
{
    int pair[2], pipes[2];
    scoped_fd int file = memfd_create("x", MFD_CLOEXEC);
    return file < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0 ||
                   pipe2(pipes, O_CLOEXEC) < 0
               ? errno
               : 0;
}

static int all_files_may_be_open(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur != limit.rlim_max ? EMFILE : 0;
}

/* --- what does not ---------------------------------------------------------------------------- */

static int write_where_it_reads(void)
{
    return try_open(folder.readable, O_WRONLY);
}

static int move_out_of_the_folder(void)
{
    scoped_free char *from = xasprintf("%s/file", folder.writable);
    scoped_free char *to = xasprintf("%s/moved", folder.other);
    return result_of(rename(from, to));
}

static int read_elsewhere(void)
{
    return try_open(folder.other, O_RDONLY);
}

static int write_elsewhere(void)
{
    return try_open(folder.other, O_WRONLY | O_CREAT);
}

static int read_the_users(void)
{
    scoped_fd int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    return result_of(fd);
}

static int link_out_of_the_folder(void)
{
    scoped_free char *path = xasprintf("%s/link", folder.writable);
    return result_of(symlink("/etc/passwd", path));
}

static int follow_a_link_that_is_there(void)
{
    scoped_free char *path = xasprintf("%s/trap", folder.writable);
    scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    return result_of(fd);
}

static int run_a_program(void)
{
    char *const argv[] = {(char *)"true", NULL};
    execv("/bin/true", argv);
    return errno;
}

static int fork_itself(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return result_of(pid);
}

static int make_a_namespace(void)
{
    return result_of(unshare(CLONE_NEWUSER));
}

static int look_into_its_parent(void)
{
    return result_of(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
}

static int signal_its_parent(void)
{
    return result_of(kill(getppid(), 0));
}

/* EPERM whether there is such a process or not: landlock, where it knows signals, looks only at
 * those that are there. */
static int signal_a_thread_of_others(void)
{
    return result_of(syscall(SYS_tgkill, 0x3fffffff, 0x3fffffff, 0));
}

static int signal_its_own_thread(void)
{
    return result_of(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0));
}

/* A descriptor that becomes ready sends any signal to who is named. */
static int signal_by_a_descriptor(void)
{
    return result_of(fcntl(spare_socket, F_SETOWN, getppid()));
}

static int choose_the_signal_of_a_descriptor(void)
{
    return result_of(fcntl(spare_socket, F_SETSIG, SIGKILL));
}

static int ask_about_a_descriptor(void)
{
    int flags = fcntl(spare_socket, F_GETFL);
    return flags < 0 ? errno : result_of(fcntl(spare_socket, F_SETFL, flags | O_NONBLOCK));
}

static int mount_something(void)
{
    return result_of(mount("none", folder.writable, "tmpfs", 0, NULL));
}

static int run_memory(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? 0 : result_of(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}

static int ask_the_kernel_about_networks(void)
{
    return result_of(socket(AF_NETLINK, SOCK_RAW, 0));
}

static int use_io_uring(void)
{
    return result_of(syscall(SYS_io_uring_setup, 1, NULL));
}

static int become_dumpable_again(void)
{
    return result_of(prctl(PR_SET_DUMPABLE, 1));
}

static int make_a_connection(void)
{
    return result_of(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static int make_a_local_connection(void)
{
    return result_of(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

/* Made before, as one that it was given would be. */
static int bind_what_is_open(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    return result_of(bind(spare_socket, (struct sockaddr *)&in, sizeof(in)));
}

static int connect_what_is_open(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(9)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return result_of(connect(spare_socket, (struct sockaddr *)&in, sizeof(in)));
}

struct attempt {
    const char *name;
    int (*act)(void);
    int expected;
    int abi; /* of landlock, which this needs */
};

static const struct attempt attempts[] = {
    {"writes in its own folder", make_a_file, 0, 1},
    {"moves a file between folders of its own", move_between_its_folders, 0, 2},
    {"reads images", read_where_it_may, 0, 1},
    {"starts threads", start_a_thread, 0, 1},
    {"makes sockets, pipes and memory files", pass_an_fd_on, 0, 1},
    {"may have as many files open as there are", all_files_may_be_open, 0, 1},

    {"does not write images", write_where_it_reads, EACCES, 1},
    {"moves nothing out of its folder", move_out_of_the_folder, EACCES, 2},
    {"does not read other files", read_elsewhere, EACCES, 1},
    {"does not write other files", write_elsewhere, EACCES, 1},
    {"does not read /etc", read_the_users, EACCES, 1},
    {"makes no links", link_out_of_the_folder, EPERM, 1},
    {"follows no link out of its folder", follow_a_link_that_is_there, EACCES, 1},
    {"runs no program", run_a_program, EPERM, 1},
    {"does not fork", fork_itself, EPERM, 1},
    {"makes no namespace", make_a_namespace, EPERM, 1},
    {"does not trace its parent", look_into_its_parent, EPERM, 1},
    {"does not signal its parent", signal_its_parent, EPERM, 1},
    {"does not signal threads of others", signal_a_thread_of_others, EPERM, 1},
    {"signals threads of its own", signal_its_own_thread, 0, 1},
    {"has no descriptor signal others", signal_by_a_descriptor, EPERM, 1},
    {"chooses no signal of a descriptor", choose_the_signal_of_a_descriptor, EPERM, 1},
    {"asks and sets flags of a descriptor", ask_about_a_descriptor, 0, 1},
    {"mounts nothing", mount_something, EPERM, 1},
    {"makes no memory executable", run_memory, EPERM, 1},
    {"has no netlink", ask_the_kernel_about_networks, EPERM, 1},
    {"has no io_uring", use_io_uring, EPERM, 1},
    {"cannot be made dumpable again", become_dumpable_again, EPERM, 1},
    {"opens no connection", make_a_connection, EPERM, 1},
    {"opens no local connection", make_a_local_connection, EPERM, 1},
    {"takes no port", bind_what_is_open, EPERM, 1},
    {"connects to nobody", connect_what_is_open, EPERM, 1},
};

/* What it may with a bucket, at MAY_PORT. */
static int connect_to(unsigned port)
{
    const struct sockaddr_in in = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    scoped_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? errno : result_of(connect(fd, (const struct sockaddr *)&in, sizeof(in)));
}

static int connect_where_it_may(void)
{
    return connect_to(MAY_PORT);
}

static int connect_elsewhere(void)
{
    return connect_to(MAY_PORT + 1);
}

static const struct attempt network_attempts[] = {
    {"reaches the port of its bucket", connect_where_it_may, ECONNREFUSED, 1},
    {"reaches no other port", connect_elsewhere, EACCES, 4},
    {"opens no local connection with a bucket", make_a_local_connection, EPERM, 1},
    {"has no netlink with a bucket", ask_the_kernel_about_networks, EPERM, 1},
    {"takes no port with a bucket", bind_what_is_open, EPERM, 1},
    {"runs no program with a bucket", run_a_program, EPERM, 1},
};

/* --- in a child ------------------------------------------------------------------------------- */

static int landlock_abi(void)
{
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
}

static bool leave_root(void)
{
    return geteuid() != 0 ||
           (setgroups(0, NULL) == 0 && setresgid(SOMEBODY, SOMEBODY, SOMEBODY) == 0 &&
            setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0);
}

static bool has_bucket(const struct attempt *a)
{
    return a >= network_attempts && a < network_attempts + ARRAY_LEN(network_attempts);
}

static _Noreturn void act_confined(const struct attempt *a)
{
    const char *const writable[] = {folder.writable, NULL};
    const char *const readable[] = {folder.readable, "/nonexistent/path", NULL};
    size_t count = coved_call_count;
    const struct confine_call *more = has_bucket(a) ? coved_calls_with_network(&count) : NULL;
    const struct confine_order order = {.who = "a test",
                                        .calls = more ? more : coved_calls,
                                        .call_count = count,
                                        .connect_port = more ? MAY_PORT : 0,
                                        .writable = writable,
                                        .readable = readable};
    struct error err = {.msg = ""};
    spare_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!leave_root() || confine_apply(&order, &err) < 0) {
        fprintf(stderr, "# %s\n", err.msg);
        _exit(NOT_CONFINED);
    }
    _exit(a->act());
}

static char *make_folder(const char *name)
{
    char *path = xasprintf("%s/%s", folder.base, name);
    scoped_free char *file = xasprintf("%s/file", path);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(chmod(path, 0777), 0);
    scoped_fd int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, 0666), 0);
    return path;
}

static void test_attempt(void **state)
{
    const struct attempt *a = *state;
    if (landlock_abi() < a->abi)
        check_skip("the kernel's landlock does not know this yet");
    folder.base = check_temp_dir();
    assert_int_equal(chmod(folder.base, 0755), 0);
    folder.writable = make_folder("writable");
    folder.readable = make_folder("readable");
    folder.other = make_folder("other");
    scoped_free char *trap = xasprintf("%s/trap", folder.writable);
    assert_int_equal(symlink("../other/file", trap), 0);
    pid_t pid = fork();
    if (pid == 0)
        act_confined(a);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    free(folder.writable);
    free(folder.readable);
    free(folder.other);
    check_remove_dir(folder.base);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), a->expected);
}

static void test_root(void **state)
{
    const char *const none[] = {NULL};
    const struct confine_order order = {.who = "a test",
                                        .calls = coved_calls,
                                        .call_count = coved_call_count,
                                        .writable = none,
                                        .readable = none};
    struct error err;
    (void)state;
    if (geteuid() != 0)
        check_skip("only root can try");
    pid_t pid = fork();
    if (pid == 0)
        _exit(confine_apply(&order, &err) == 0 ? 0 : 1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 1);
}

/* Rows of one call that stand apart would hide all but the first. */
static void test_table(void **state)
{
    struct sock_filter filter[CONFINE_FILTER_MAX];
    (void)state;
    for (size_t i = 0; i < coved_call_count; i++) {
        for (size_t j = i + 1; j < coved_call_count; j++) {
            if (coved_calls[j].number != coved_calls[i].number)
                continue;
            assert_true(coved_calls[i].has_test && coved_calls[j].has_test);
            assert_int_equal(coved_calls[j - 1].number, coved_calls[i].number);
        }
    }
    assert_true(confine_compile(filter, coved_calls, coved_call_count) > coved_call_count);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, attempts, test_attempt);
    check_rows(&check, network_attempts, test_attempt);
    check_one(&check, "does not let root pass", test_root);
    check_one(&check, "has all rows of a call side by side", test_table);
    return check_run(&check, "confine");
}
