/* test_netns.c - which network namespaces are as good as new */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/netns.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/in6.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scoped.h"
#include "box/seal_steps.h"
#include "check.h"

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int bound(int kind)
{
    struct sockaddr_in at = loopback(5000);
    int fd = socket(AF_INET, kind, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static int do_nothing(void)
{
    return -1;
}

static int do_listen(void)
{
    int fd = bound(SOCK_STREAM);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static int do_bind_name(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "\0name"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, 8), 0);
    return fd;
}

static int do_send(void)
{
    int fd = bound(SOCK_DGRAM);
    struct sockaddr_in to = loopback(5000);
    assert_int_equal(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
    return fd;
}

static int do_connect(void)
{
    scoped_fd int server = do_listen();
    struct sockaddr_in to = loopback(5000);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static int do_reach_nowhere(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)), -1);
    return fd;
}

/* Whoever leases a label next would find it taken. */
static int do_lease_flow_label(void)
{
    struct in6_flowlabel_req request = {.flr_label = htonl(0x12345),
                                        .flr_action = IPV6_FL_A_GET,
                                        .flr_share = IPV6_FL_S_EXCL,
                                        .flr_flags = IPV6_FL_F_CREATE,
                                        .flr_linger = 6,
                                        .flr_expires = 6};
    request.flr_dst.s6_addr[15] = 1;
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &request, sizeof(request)) < 0)
        check_skip("this kernel leases no flow labels");
    return fd;
}

struct act {
    const char *name;
    int (*run)(void); /* -> a socket, or -1 */
    bool is_held;     /* it stays open during the look */
    bool is_fresh;
};

static const struct act acts[] = {
    {"new", do_nothing, false, true},
    {"a server was there", do_listen, false, true},
    {"a server is there", do_listen, true, false},
    {"a name was taken", do_bind_name, false, true},
    {"a name is taken", do_bind_name, true, false},
    {"a datagram was sent", do_send, false, false},
    {"a connection was there", do_connect, false, false},
    {"an address was out of reach", do_reach_nowhere, false, false},
    {"a flow label was leased", do_lease_flow_label, false, false},
};

static void need_root(void)
{
    if (geteuid() != 0)
        check_skip("only root finds back to its own");
}

static void test_act(void **state)
{
    need_root();
    const struct act *act = *state;
    struct netns_judge judge;
    char before[64] = "", after[64] = "";
    assert_true(netns_judge_open(&judge));
    assert_true(readlink("/proc/thread-self/ns/net", before, sizeof(before) - 1) > 0);

    assert_int_equal(unshare(CLONE_NEWNET), 0);
    assert_int_equal(seal_raise_loopback(), 0);
    scoped_fd int used = netns_open(getpid());
    assert_true(used >= 0);
    scoped_fd int left = act->run();
    assert_int_equal(setns(judge.own_fd, CLONE_NEWNET), 0);
    if (!act->is_held && left >= 0) {
        close(left);
        left = -1;
    }

    assert_int_equal(netns_is_fresh(&judge, used), act->is_fresh);
    assert_true(readlink("/proc/thread-self/ns/net", after, sizeof(after) - 1) > 0);
    assert_string_equal(before, after);
    netns_judge_close(&judge);
}

static void test_no_judge(void **state)
{
    (void)state;
    struct netns_judge none = {.own_fd = -1};
    scoped_fd int own = netns_open(getpid());
    assert_true(own >= 0);
    assert_false(netns_is_fresh(&none, own));
}

static void test_gone(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(netns_open(pid), -1);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
    struct check check = {0};
    check_rows(&check, acts, test_act);
    check_one(&check, "nobody to judge: none is", test_no_judge);
    check_one(&check, "the dead are in none", test_gone);
    return check_run(&check, "netns");
}
