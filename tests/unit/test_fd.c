/* test_fd.c - whole reads and writes, fds across sockets */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

struct text_case {
    const char *name;
    const char *data;
    size_t len;
    size_t max;
    int code; /* of the error; -1: none */
};

static const struct text_case texts[] = {
    {"an empty file is empty text", "", 0, 10, -1},
    {"text of exactly the limit is read", "0123456789", 10, 10, -1},
    {"one byte more is too large", "0123456789a", 11, 10, ERROR_TOO_LARGE},
    {"a NUL byte is refused", "a\0b", 3, 10, ERROR_INVALID},
    {"a limit of nothing allows an empty file", "", 0, 0, -1},
    {"and refuses any byte", "a", 1, 0, ERROR_TOO_LARGE},
};

static void test_text(void **state)
{
    const struct text_case *row = *state;
    int pair[2];
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    struct error err;
    assert_int_equal(fd_write_all(pair[1], row->data, row->len, &err), 0);
    close(pair[1]);
    scoped_free char *text = NULL;
    int result = fd_read_text(pair[0], &text, row->max, &err);
    close(pair[0]);
    if (row->code < 0) {
        assert_int_equal(result, 0);
        assert_string_equal(text, row->data);
    } else {
        assert_int_equal(result, -1);
        assert_int_equal((int)err.code, row->code);
        assert_null(text);
    }
}

#define LARGE (3 * MIB + 17)

static void *write_large(void *fd)
{
    char *data = xmalloc(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        data[i] = (char)('a' + i % 23);
    struct error err;
    int result = fd_write_all(*(int *)fd, data, LARGE, &err);
    close(*(int *)fd);
    free(data);
    return result == 0 ? fd : NULL;
}

static void test_large(void **state)
{
    (void)state;
    int pair[2];
    pthread_t writer;
    void *wrote;
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_large, &pair[1]), 0);
    scoped_free char *text = NULL;
    struct error err;
    assert_int_equal(fd_read_text(pair[0], &text, 4 * MIB, &err), 0);
    pthread_join(writer, &wrote);
    assert_non_null(wrote);
    assert_int_equal(strlen(text), LARGE);
    for (size_t i = 0; i < LARGE; i++)
        assert_int_equal(text[i], 'a' + i % 23);
    close(pair[0]);
}

static void test_pass(void **state)
{
    (void)state;
    int pair[2], fds[FD_PASS_MAX];
    size_t count;
    char data[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    const int sent[2] = {pair[0], pair[1]};
    assert_int_equal(fd_send(pair[0], "hello", 5, sent, 2), 0);
    assert_int_equal(fd_recv(pair[1], data, sizeof(data), fds, &count), 5);
    assert_memory_equal(data, "hello", 5);
    assert_int_equal(count, 2);
    for (size_t i = 0; i < count; i++) {
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        close(fds[i]);
    }
    assert_int_equal(fd_send(pair[0], "x", 1, NULL, 0), 0);
    assert_int_equal(fd_recv(pair[1], data, sizeof(data), fds, &count), 1);
    assert_int_equal(count, 0);
    close(pair[0]);
    assert_int_equal(fd_recv(pair[1], data, sizeof(data), fds, &count), 0);
    close(pair[1]);
}

static void test_pass_cut(void **state)
{
    (void)state;
    int pair[2], fds[FD_PASS_MAX];
    size_t count;
    char data[4];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    int next = dup(0); /* the lowest free number: it must be free again afterwards */
    close(next);
    assert_int_equal(fd_send(pair[0], "hello", 5, pair, 2), 0);
    assert_int_equal(fd_recv(pair[1], data, sizeof(data), fds, &count), -1);
    assert_int_equal(errno, EMSGSIZE);
    assert_int_equal(count, 0);
    int again = dup(0);
    assert_int_equal(again, next);
    close(again);
    close(pair[0]);
    close(pair[1]);
}

static void test_pass_full(void **state)
{
    (void)state;
    int pair[2], fds[FD_PASS_MAX];
    size_t count;
    char data[16];
    struct rlimit usual, low;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    int next = dup(0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    low = usual;
    low.rlim_cur = (rlim_t)next + 1; /* for one of them */
    assert_int_equal(fd_send(pair[0], "hello", 5, pair, 2), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    ssize_t n = fd_recv(pair[1], data, sizeof(data), fds, &count);
    int error = errno;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    assert_int_equal(n, -1);
    assert_int_equal(error, EMFILE);
    assert_int_equal(count, 0);
    assert_memory_equal(data, "hello", 5);
    int again = dup(0);
    assert_int_equal(again, next);
    close(again);
    close(pair[0]);
    close(pair[1]);
}

/* A FIFO that nobody writes to would hold up whoever opens it. */
static void send_nothing_with(int sock, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(fd))];
    } control = {.header = {.cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS,
                            .cmsg_len = CMSG_LEN(sizeof(fd))}};
    const struct msghdr msg = {.msg_control = &control, .msg_controllen = sizeof(control.bytes)};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    assert_int_equal(sendmsg(sock, &msg, 0), 0);
}

static const struct queue_case {
    const char *name;
    bool has_ids; /* as sockets of ours have before Linux 6.16 */
    bool is_over;
    size_t empty, with_fd; /* datagrams without a byte */
    bool may_hold;
} queues[] = {
    {"somebody may send one", true, false, 0, 0, true},
    {"nobody can any more", true, true, 0, 0, false},
    {"whether there is one is not seen", false, true, 0, 0, true},
    {"one is there", true, true, 0, 1, true},
    {"one is behind a datagram of no bytes", true, true, 1, 1, true},
    {"a datagram of no bytes is no end", true, true, 1, 0, true},
};

static void test_queue(void **state)
{
    const struct queue_case *queue = *state;
    int pair[2], on = queue->has_ids;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
    for (size_t i = 0; i < queue->empty; i++)
        assert_int_equal(send(pair[1], "", 0, 0), 0);
    for (size_t i = 0; i < queue->with_fd; i++)
        send_nothing_with(pair[1], 0);
    if (queue->is_over)
        close(pair[1]);
    assert_int_equal(fd_may_hold_others(pair[0]), queue->may_hold);
    assert_int_equal(fd_may_hold_others(pair[0]), queue->may_hold); /* a look changes nothing */
    close(pair[0]);
    if (!queue->is_over)
        close(pair[1]);
}

static void test_no_queue(void **state)
{
    (void)state;
    int ends[2], sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_false(fd_may_hold_others(ends[0]));
    assert_false(fd_may_hold_others(sock));
    assert_false(fd_may_hold_others(-1));
    close(sock);
    close(ends[0]);
    close(ends[1]);
}

static void test_open_regular(void **state)
{
    (void)state;
    struct error err;
    char *dir = check_temp_dir(), *file = check_temp_file(dir, "text");
    scoped_free char *fifo = xasprintf("%s/fifo", dir), *none = xasprintf("%s/none", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    scoped_fd int fd = fd_open_regular(file, &err);
    assert_true(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    const char *const wrong[] = {fifo, dir, "/dev/null"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(fd_open_regular(wrong[i], &err), -1);
        assert_int_equal(err.code, ERROR_INVALID);
        assert_non_null(strstr(err.msg, wrong[i]));
    }
    assert_int_equal(fd_open_regular(none, &err), -1);
    assert_int_equal(err.sys_errno, ENOENT);
    free(file);
    check_remove_dir(dir);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, texts, test_text);
    check_one(&check, "text larger than a pipe comes through whole", test_large);
    check_one(&check, "only a regular file is opened as one", test_open_regular);
    check_one(&check, "fds cross a socket and are closed on exec", test_pass);
    check_one(&check, "a cut message is refused and leaves no fd behind", test_pass_cut);
    check_one(&check, "fds that there is no room for are told apart", test_pass_full);
    check_rows(&check, queues, test_queue);
    check_one(&check, "what is no unix socket holds nobody's", test_no_queue);
    return check_run(&check, "fd");
}
