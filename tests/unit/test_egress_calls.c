/* test_egress_calls.c - what a process can still do when it is confined as cove-egress is
 *
 * Each case runs in a child of its own, which is no longer root and then confined, and tells the
 * errno of what it tried. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scoped.h"
#include "check.h"

#define SOMEBODY     54321 /* any uid but root's */
#define NOT_CONFINED 255

static int spare_socket; /* made before the confinement */

static int result_of(long answer)
{
    return answer < 0 ? errno : 0;
}

static int make_socket(int family, int type)
{
    scoped_fd int fd = socket(family, type | SOCK_CLOEXEC, 0);
    return result_of(fd);
}

static int try_tcp(void)
{
    return make_socket(AF_INET, SOCK_STREAM) || make_socket(AF_INET6, SOCK_STREAM);
}

static int try_connect(void)
{
    const struct sockaddr_in nobody = {
        .sin_family = AF_INET, .sin_port = htons(1), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    return result_of(connect(spare_socket, (const struct sockaddr *)&nobody, sizeof(nobody)));
}

static int try_name(void)
{
    struct addrinfo *list = NULL;
    int status = getaddrinfo("localhost", NULL, NULL, &list);
    if (list)
        freeaddrinfo(list);
    return status ? EHOSTUNREACH : 0;
}

static int try_unix(void)
{
    return make_socket(AF_UNIX, SOCK_STREAM);
}

static int try_netlink(void)
{
    return make_socket(AF_NETLINK, SOCK_RAW);
}

static int try_packet(void)
{
    return make_socket(AF_PACKET, SOCK_RAW);
}

static int try_bind(void)
{
    const struct sockaddr_in any = {.sin_family = AF_INET};
    return result_of(bind(spare_socket, (const struct sockaddr *)&any, sizeof(any)));
}

static int try_listen(void)
{
    return result_of(listen(spare_socket, 1));
}

static int try_exec(void)
{
    char *const argv[] = {NULL};
    return result_of(execv("/bin/true", argv));
}

static int try_fork(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return result_of(pid);
}

static int try_write(void)
{
    scoped_fd int fd = open("/tmp/cove-egress-canary", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return result_of(fd);
}

static int try_read(void)
{
    scoped_fd int fd = open("/usr/bin/env", O_RDONLY | O_CLOEXEC);
    return result_of(fd);
}

static int try_signal(void)
{
    return result_of(kill(getpid(), 0));
}

/* EPERM whether there is such a process or not. */
static int try_thread(void)
{
    return result_of(syscall(SYS_tgkill, 0x3fffffff, 0x3fffffff, 0));
}

static int try_own_thread(void)
{
    return result_of(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0));
}

static int try_owner(void)
{
    return result_of(fcntl(spare_socket, F_SETOWN, getppid()));
}

static int try_trace(void)
{
    return result_of(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int try_code(void)
{
    void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? errno : 0;
}

struct attempt {
    const char *name;
    int (*act)(void);
    int expected;
};

static const struct attempt attempts[] = {
    {"makes sockets of the internet", try_tcp, 0},
    {"connects", try_connect, ECONNREFUSED},
    {"resolves names", try_name, 0},
    {"makes no unix socket", try_unix, EPERM},
    {"makes no netlink socket", try_netlink, EPERM},
    {"makes no packet socket", try_packet, EPERM},
    {"binds nothing", try_bind, EPERM},
    {"does not listen", try_listen, EPERM},
    {"starts no program", try_exec, EPERM},
    {"forks no process", try_fork, EPERM},
    {"writes no file", try_write, EPERM},
    {"reads no file that a resolver does not need", try_read, EACCES},
    {"sends no signal", try_signal, EPERM},
    {"signals no thread of others", try_thread, EPERM},
    {"signals its own threads", try_own_thread, 0},
    {"has no descriptor signal others", try_owner, EPERM},
    {"is nobody's tracer or tracee", try_trace, EPERM},
    {"makes no memory executable", try_code, EPERM},
};

static bool leave_root(void)
{
    return geteuid() != 0 ||
           (setgroups(0, NULL) == 0 && setresgid(SOMEBODY, SOMEBODY, SOMEBODY) == 0 &&
            setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0);
}

static _Noreturn void act_confined(const struct attempt *a)
{
    struct error err = {.msg = ""};
    spare_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!leave_root() || egress_confine(&err) < 0) {
        fprintf(stderr, "# %s\n", err.msg);
        _exit(NOT_CONFINED);
    }
    _exit(a->act());
}

static void test_attempt(void **state)
{
    const struct attempt *a = *state;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        act_confined(a);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), a->expected);
}

/* Rows of one call that stand apart would hide all but the first. */
static void test_table(void **state)
{
    struct sock_filter filter[CONFINE_FILTER_MAX];
    (void)state;
    for (size_t i = 0; i < egress_call_count; i++) {
        for (size_t j = i + 1; j < egress_call_count; j++) {
            if (egress_calls[j].number != egress_calls[i].number)
                continue;
            assert_true(egress_calls[i].has_test && egress_calls[j].has_test);
            assert_int_equal(egress_calls[j - 1].number, egress_calls[i].number);
        }
    }
    assert_true(confine_compile(filter, egress_calls, egress_call_count) > egress_call_count);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, attempts, test_attempt);
    check_one(&check, "has all rows of a call side by side", test_table);
    return check_run(&check, "egress_calls");
}
