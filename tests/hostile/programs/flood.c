/* A26 A27: output without end. flood WHERE BYTES [line]: WHERE is out, err or both. */
#include "guard.h"

static void put(int fd, const char *block, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, block, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            _exit(3);
        block += n;
        size -= (size_t)n;
    }
}

int main(int argc, char **argv)
{
    static char block[1 << 16];
    guard();
    if (argc < 3)
        return 2;
    bool to_out = strcmp(argv[1], "err") != 0, to_err = strcmp(argv[1], "out") != 0;
    bool lines = argc > 3;
    memset(block, 'y', sizeof block);
    for (size_t i = 79; lines && i < sizeof block; i += 80)
        block[i] = '\n';
    /* The first and the last bytes are different, so that the runner sees what was kept. */
    unsigned long long left = strtoull(argv[2], NULL, 10);
    bool first = true;
    while (left > 0) {
        size_t part = left < sizeof block ? (size_t)left : sizeof block;
        memcpy(block, first ? "HEAD" : "yyyy", 4);
        left -= part;
        if (left == 0)
            memcpy(block + part - 4, "TAIL", 4);
        if (to_out)
            put(1, block, part);
        if (to_err)
            put(2, block, part);
        first = false;
    }
    return 0;
}
