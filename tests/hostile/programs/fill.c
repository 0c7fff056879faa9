/* A8 A9 A10 A14: memory that is not a process's own: memfd, shared mappings, SysV and POSIX shared
 * memory, socket buffers. Fills until refused or killed; what it got is said as it grows. */
#include "guard.h"

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
    errno = 0;
    stop("nothing-stopped-it", CHUNKS_MAX);
}
