/* linger.h - a socket whose close waits until its other end is closed */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#define LINGER_SECONDS 1000

/* Full, and nobody reads at *peer. */
static inline int linger_open(int *peer)
{
    static const char bytes[65536];
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_SECONDS};
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(where);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&where, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&where, &size), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&where, size), 0);
    *peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(*peer >= 0);
    close(listener);
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    return fd;
}
