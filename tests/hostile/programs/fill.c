/* A8 A9 A10 A14: memory that is not a process's own: memfd, shared mappings, SysV and POSIX shared
 * memory, socket buffers, pipes, page tables. Fills until refused or killed; what it got is said as
 * it grows. */
#include "guard.h"

#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>

/* 1 GB in all: far above any limit the runner sets, and nothing to a host that sets none. */
enum { CHUNK_BYTES = 16 << 20, CHUNKS_MAX = 64, FILES = 8 };

static void stop(const char *what, int got)
{
    int error = errno;
    fact("filled_mb", "%d", got * (CHUNK_BYTES >> 20));
    say_errno(what, error);
    exit(finish());
}

/* Writes one file's share of the whole; `before` chunks are filled already. */
static void fill_fd(int fd, const char *what, int before)
{
    static char block[1 << 20];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < CHUNKS_MAX / FILES; i++) {
        for (int done = 0; done < CHUNK_BYTES; done += (int)sizeof block) {
            if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
                stop(what, before + i);
        }
    }
}

static void fill_memfd(void)
{
    for (int i = 0; i < FILES; i++) {
        int fd = memfd_create("fill", MFD_ALLOW_SEALING);
        if (fd < 0)
            stop("memfd", i * CHUNKS_MAX / FILES);
        fill_fd(fd, "memfd", i * CHUNKS_MAX / FILES);
    }
}

static void fill_shared(void)
{
    for (int i = 0; i < CHUNKS_MAX; i++) {
        char *p =
            mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            stop("shared", i);
        memset(p, 'x', CHUNK_BYTES);
    }
}

static void fill_sysv(void)
{
    for (int i = 0; i < CHUNKS_MAX; i++) {
        int id = shmget(IPC_PRIVATE, CHUNK_BYTES, IPC_CREAT | 0600);
        char *p = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
        if (p == (void *)-1)
            stop("sysv", i);
        memset(p, 'x', CHUNK_BYTES);
        shmdt(p); /* the segment stays, though nobody maps it */
    }
}

static void fill_posix(const char *dir)
{
    for (int i = 0; i < FILES; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/fill-%d", dir, i);
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        if (fd < 0)
            stop("posix", i * CHUNKS_MAX / FILES);
        fill_fd(fd, "posix", i * CHUNKS_MAX / FILES);
    }
}

static void fill_sockets(void)
{
    static char block[1 << 16];
    int size = 16 << 20;
    long long filled = 0;
    while (filled < (long long)CHUNKS_MAX * CHUNK_BYTES) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) < 0)
            stop("sockets", (int)(filled / CHUNK_BYTES));
        for (int side = 0; side < 2; side++) {
            ssize_t n;
            setsockopt(pair[side], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
            while ((n = write(pair[side], block, sizeof block)) > 0)
                filled += n;
        }
    }
}

static void fill_pipes(void)
{
    static char block[1 << 16];
    long long filled = 0;
    while (filled < (long long)CHUNKS_MAX * CHUNK_BYTES) {
        int ends[2];
        ssize_t n;
        if (pipe2(ends, O_NONBLOCK) < 0)
            stop("pipes", (int)(filled / CHUNK_BYTES));
        fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        while ((n = write(ends[1], block, sizeof block)) > 0)
            filled += n;
    }
}

/* Tables for a map that is only read and has no page of its own: 4 kB for each byte that is
 * touched. With a rest now and then, so that a watch that looks every 10 ms has its look. */
static void fill_tables(void)
{
    enum { TABLES = 48 * 1024, AT_ONCE = 1024 };
    const size_t step = 2 << 20;
    const volatile char *map =
        mmap(NULL, TABLES * step, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        stop("tables", 0);
    for (int i = 0; i < TABLES; i++) {
        (void)map[i * step];
        if (i % AT_ONCE == 0)
            usleep(20000);
    }
    fact("tables_mb", "%d", TABLES / 256);
    for (;;)
        pause();
}

/* What is sent over the loopback and never read, until the kernel takes no more of it or it would
 * be three times as much as the runner lets a sandbox have; then it is held until the clock comes.
 */
enum { HELD_MAX = 192 << 20, HELD_SOCKETS = 160 };

static const struct sockaddr_in loopback = {.sin_family = AF_INET,
                                            .sin_addr = {.s_addr = 0x0100007f}};

static void want_buffers(int fd)
{
    int size = 16 << 20;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

static int bound_socket(int type, struct sockaddr_in *at)
{
    socklen_t len = sizeof *at;
    int fd = socket(AF_INET, type | SOCK_NONBLOCK, 0);
    *at = loopback;
    if (fd < 0 || bind(fd, (struct sockaddr *)at, len) < 0 ||
        getsockname(fd, (struct sockaddr *)at, &len) < 0)
        stop("bound", 0);
    want_buffers(fd);
    return fd;
}

static _Noreturn void hold(long long sent)
{
    fact("sent_mb", "%lld", sent >> 20);
    for (;;)
        pause();
}

static void fill_udp(void)
{
    static char block[60000];
    struct sockaddr_in at;
    long long sent = 0;
    for (int i = 0; i < HELD_SOCKETS; i++) {
        int fd = bound_socket(SOCK_DGRAM, &at), error = 0;
        socklen_t len = sizeof error;
        /* What finds no room there is dropped without a word, so the bound is one of what is sent.
         */
        for (int n = 0; n < 130 && sent < HELD_MAX; n++) {
            ssize_t done = sendto(fd, block, sizeof block, 0, (struct sockaddr *)&at, sizeof at);
            if (done < 0)
                break;
            sent += done;
        }
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    }
    hold(sent);
}

static void fill_tcp(void)
{
    static char block[1 << 16];
    static int fds[HELD_SOCKETS];
    struct sockaddr_in at;
    long long sent = 0;
    int door = bound_socket(SOCK_STREAM, &at), count = 0;
    if (listen(door, HELD_SOCKETS) < 0)
        stop("listen", 0);
    for (; count < HELD_SOCKETS && sent < HELD_MAX; count++) {
        struct sockaddr_in own;
        fds[count] = bound_socket(SOCK_STREAM, &own);
        fcntl(fds[count], F_SETFL, 0); /* until it is connected */
        if (connect(fds[count], (struct sockaddr *)&at, sizeof at) < 0 ||
            accept(door, NULL, NULL) < 0)
            break;
        fcntl(fds[count], F_SETFL, O_NONBLOCK);
        for (ssize_t n; sent < HELD_MAX && (n = write(fds[count], block, sizeof block)) > 0;)
            sent += n;
    }
    /* Some of it is under way, and makes room when it has arrived. */
    for (int round = 0; round < 200 && sent < HELD_MAX; round++) {
        for (int i = 0; i < count; i++) {
            ssize_t n = write(fds[i], block, sizeof block);
            sent += n > 0 ? n : 0;
        }
    }
    hold(sent);
}

int main(int argc, char **argv)
{
    guard();
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "memfd") == 0)
        fill_memfd();
    else if (strcmp(mode, "shared") == 0)
        fill_shared();
    else if (strcmp(mode, "sysv") == 0)
        fill_sysv();
    else if (strcmp(mode, "shm") == 0)
        fill_posix("/dev/shm");
    else if (strcmp(mode, "tmp") == 0)
        fill_posix("/tmp");
    else if (strcmp(mode, "sockets") == 0)
        fill_sockets();
    else if (strcmp(mode, "pipes") == 0)
        fill_pipes();
    else if (strcmp(mode, "tables") == 0)
        fill_tables();
    else if (strcmp(mode, "udp") == 0)
        fill_udp();
    else if (strcmp(mode, "tcp") == 0)
        fill_tcp();
    errno = 0;
    stop("nothing-stopped-it", CHUNKS_MAX);
}
