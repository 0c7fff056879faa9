/* B57 B59: every address family with every type, and every protocol of the families that stay.
 * Prints one line per socket that opened, and one per errno with how many answered it. */
#include "guard.h"

#include <sys/socket.h>

enum { FAMILY_MAX = 64, TYPE_MAX = 12, ERRNO_MAX = 256 };

static unsigned refused[ERRNO_MAX];
static unsigned tried;

static void try_socket(const char *how, long family, long type, long protocol)
{
    int pair[2];
    tried++;
    int fd = strcmp(how, "pair") == 0 ? (int)syscall(SYS_socketpair, family, type, protocol, pair)
                                      : (int)syscall(SYS_socket, family, type, protocol);
    if (fd == -1) {
        refused[errno < ERRNO_MAX ? errno : 0]++;
        return;
    }
    printf("%s:%#lx:%#lx:%ld ok\n", how, family, type, protocol);
    guard_count++;
    if (strcmp(how, "pair") != 0) {
        close(fd);
        return;
    }
    close(pair[0]);
    close(pair[1]);
}

static void try_family(long family)
{
    for (long type = 0; type <= TYPE_MAX; type++) {
        try_socket("socket", family, type, 0);
        try_socket("socket", family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        try_socket("pair", family, type, 0);
    }
}

int main(void)
{
    static const long inet[] = {AF_INET, AF_INET6};
    guard();
    for (long family = 0; family <= FAMILY_MAX; family++) {
        try_family(family);
        /* The kernel reads 32 bits of the argument; a filter that compares 64 is dodged. */
        try_socket("upper", family | (1L << 32), SOCK_RAW, 0);
        try_socket("upper", family | (1L << 32), SOCK_SEQPACKET, 0);
    }
    for (size_t i = 0; i < 2; i++)
        for (long type = 1; type <= 10; type++)
            for (long protocol = 0; protocol <= 270; protocol++)
                try_socket("socket", inet[i], type, protocol);
    for (int e = 0; e < ERRNO_MAX; e++) {
        if (refused[e])
            fact(e ? strerrorname_np(e) : "E?", "%u", refused[e]);
    }
    fact("tried", "%u", tried);
    return finish();
}
