/* floor.c - the least that an answer costs which another process has a part in
 *
 * Reads a request, sends a byte to a child, waits for one from it, and answers a constant: two
 * sockets, four wake-ups, and nothing else. What bench/http shows beyond that is Cove's own.
 *
 *     bench-floor        prints its port, and serves one connection after the other until its
 *                        standard input ends */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY                                                                                       \
    "{\"id\":\"exe_0\",\"state\":\"completed\",\"exit_code\":0,\"stdout\":\"1\\n\",\"stderr\":\"\"}"

static void check(int result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(1);
    }
}

static void echo(int fd)
{
    char byte;
    while (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1)
        ;
    _exit(0);
}

static int start_child(void)
{
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), "socketpair");
    pid_t pid = fork();
    check(pid, "fork");
    if (pid == 0) {
        close(pair[0]);
        echo(pair[1]);
    }
    close(pair[1]);
    return pair[0];
}

static int listen_somewhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(fd, "socket");
    check(bind(fd, (struct sockaddr *)&address, sizeof(address)), "bind");
    check(listen(fd, 16), "listen");
    check(getsockname(fd, (struct sockaddr *)&address, &len), "getsockname");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* A request of bench-load arrives whole, in one piece. */
static void serve(int connection, int child)
{
    char request[8192], answer[512];
    int yes = 1;
    int len =
        snprintf(answer, sizeof(answer),
                 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                 "\r\n%s",
                 strlen(BODY), BODY);
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    while (read(connection, request, sizeof(request)) > 0) {
        check(write(child, "", 1) == 1 ? 0 : -1, "ask the child");
        check(read(child, request, 1) == 1 ? 0 : -1, "hear from the child");
        if (write(connection, answer, (size_t)len) != len)
            return;
    }
}

int main(void)
{
    int child = start_child();
    int listener = listen_somewhere();
    for (;;) {
        struct pollfd fds[] = {{.fd = listener, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
        check(poll(fds, 2, -1), "poll");
        if (fds[1].revents)
            return 0;
        int connection = accept(listener, NULL, NULL);
        check(connection, "accept");
        serve(connection, child);
        close(connection);
    }
}
