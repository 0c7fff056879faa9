/* test_netns.c - which network namespaces are as good as new */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/netns.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/in6.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
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

static int join(void)
{
    struct ip_mreqn group = {.imr_address = loopback(0).sin_addr};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    inet_pton(AF_INET, "239.1.2.3", &group.imr_multiaddr);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &group, sizeof(group)), 0);
    return fd;
}

static int join6(void)
{
    struct ipv6_mreq group = {.ipv6mr_interface = 1};
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    inet_pton(AF_INET6, "ff01::1234", &group.ipv6mr_multiaddr);
    assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &group, sizeof(group)), 0);
    return fd;
}

/* It is delivered here, and the interface does not count it. */
static int do_send_to_itself(void)
{
    int fd = join(), none = 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    inet_pton(AF_INET, "239.1.2.3", &to.sin_addr);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &none, sizeof(none)), 0);
    assert_int_equal(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
    return fd;
}

static int do_connect_nowhere(void)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
    inet_pton(AF_INET6, "2001:db8::1", &to.sin6_addr);
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), -1);
    assert_int_equal(
        sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof(to)), -1);
    return fd;
}

struct act {
    const char *name;
    int (*run)(void); /* -> a socket, or -1 */
    bool is_held;     /* it stays open during the look */
    bool is_fresh;
    bool is_announced; /* by packets of the kernel, within two seconds: with them it is not fresh */
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
    {"a group was joined", join, false, true, true},
    {"a group is joined", join, true, false},
    {"a group of version 6 was joined", join6, false, true, true},
    {"a group of version 6 is joined", join6, true, false},
    {"a datagram was sent that never left", do_send_to_itself, false, false},
    {"a connection failed", do_connect_nowhere, false, false},
};

static void need_root(void)
{
    if (geteuid() != 0)
        check_skip("only root finds back to its own");
}

/* Of the namespace that we are in. */
static void read_files(const char *const *names, size_t count, char *out, size_t room)
{
    memset(out, 0, room);
    for (size_t i = 0; i < count; i++) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/thread-self/net/%s", names[i]);
        scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
        size_t used = strlen(out);
        assert_true(fd < 0 || read(fd, out + used, room - used - 1) >= 0);
    }
}

/* What the judge need not look at, as it says. */
static void read_rest(char *out, size_t room)
{
    static const char *const names[] = {"netstat", "ipv6_route", "igmp",     "igmp6",    "tcp6",
                                        "udp",     "udp6",       "raw6",     "unix",     "mcfilter",
                                        "route",   "anycast6",   "if_inet6", "mcfilter6"};
    read_files(names, ARRAY_LEN(names), out, room);
}

static void read_packets(char *out, size_t room)
{
    static const char *const names[] = {"dev", "snmp", "snmp6"};
    read_files(names, ARRAY_LEN(names), out, room);
}

static size_t count_fds(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Judged once by files that are opened for it, and once by such that were open before. */
static void test_act(void **state)
{
    need_root();
    const struct act *act = *state;
    struct netns_judge judge;
    size_t fds = count_fds();
    static char fresh[NETNS_LOOK_BYTES], rest[NETNS_LOOK_BYTES];
    static char silence[NETNS_LOOK_BYTES], packets[NETNS_LOOK_BYTES];
    char before[64] = "", after[64] = "";
    assert_true(netns_judge_open(&judge));
    assert_true(readlink("/proc/thread-self/ns/net", before, sizeof(before) - 1) > 0);

    assert_int_equal(unshare(CLONE_NEWNET), 0);
    assert_int_equal(seal_raise_loopback(), 0);
    read_rest(fresh, sizeof(fresh));
    read_packets(silence, sizeof(silence));
    struct netns used = netns_open(getpid()), held = netns_open(getpid());
    assert_true(used.fd >= 0 && held.fd >= 0);
    assert_true(netns_is_fresh(&judge, &held));
    assert_true(held.has_files && !used.has_files);
    assert_int_equal(setns(held.fd, CLONE_NEWNET), 0);
    int left = act->run();
    if (!act->is_held && left >= 0) {
        close(left);
        left = -1;
    }
    read_rest(rest, sizeof(rest));
    assert_int_equal(setns(judge.own_fd, CLONE_NEWNET), 0);

    bool is_fresh = netns_is_fresh(&judge, &used);
    bool is_still_fresh = netns_is_fresh(&judge, &held);
    assert_int_equal(setns(held.fd, CLONE_NEWNET), 0);
    read_packets(packets, sizeof(packets));
    assert_int_equal(setns(judge.own_fd, CLONE_NEWNET), 0);
    bool is_heard = act->is_announced && strcmp(packets, silence) != 0;
    if (is_heard) { /* before or behind the looks: but the next one refuses it */
        assert_false(netns_is_fresh(&judge, &held));
    } else {
        assert_int_equal(is_fresh, act->is_fresh);
        assert_int_equal(is_still_fresh, act->is_fresh);
    }
    if (act->is_fresh && !is_heard)
        assert_string_equal(rest, fresh);
    assert_true(readlink("/proc/thread-self/ns/net", after, sizeof(after) - 1) > 0);
    assert_string_equal(before, after);
    struct netns taken = netns_take(&held);
    assert_int_equal(held.fd, -1);
    for (int twice = 0; twice < 2; twice++) {
        netns_close(&used);
        netns_close(&taken);
        netns_close(&held);
    }
    scoped_close_fd(&left);
    netns_judge_close(&judge);
    assert_int_equal(count_fds(), fds);
}

/* What cannot be read is not as new, whatever it was before. */
static void test_unreadable(void **state)
{
    (void)state;
    need_root();
    struct netns_judge judge;
    assert_true(netns_judge_open(&judge));
    assert_int_equal(unshare(CLONE_NEWNET), 0);
    assert_int_equal(seal_raise_loopback(), 0);
    struct netns net = netns_open(getpid());
    assert_true(netns_is_fresh(&judge, &net)); /* and we are back */
    for (size_t i = 0; i < NETNS_FILES; i++) {
        int good = net.files[i];
        scoped_fd int bad = open("/proc/thread-self/net", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        net.files[i] = bad;
        assert_false(netns_is_fresh(&judge, &net));
        net.files[i] = good;
    }
    assert_true(netns_is_fresh(&judge, &net));
    netns_close(&net);
    netns_judge_close(&judge);
}

static void test_no_judge(void **state)
{
    (void)state;
    struct netns_judge none = {.own_fd = -1};
    struct netns own = netns_open(getpid());
    assert_true(own.fd >= 0);
    assert_false(netns_is_fresh(&none, &own));
    netns_close(&own);
}

static void test_gone(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(netns_open(pid).fd, -1);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
    struct check check = {0};
    check_rows(&check, acts, test_act);
    check_one(&check, "a file that cannot be read speaks against it", test_unreadable);
    check_one(&check, "nobody to judge: none is", test_no_judge);
    check_one(&check, "the dead are in none", test_gone);
    return check_run(&check, "netns");
}
