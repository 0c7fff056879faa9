/* B70: typing into a terminal, and line disciplines, on every terminal within reach. The kernel
 * reads 32 bits of the command, so each is also tried with upper bits that a filter may compare. */
#include "guard.h"

#include <sys/ioctl.h>

static const int disciplines[] = {1, 2, 3, 5, 6, 13, 15, 21, 25, 29};

static void attack(const char *where, int fd)
{
    static const uint64_t uppers[] = {0, UINT64_C(1) << 32, UINT64_C(0xffffffff) << 32};
    char name[96];
    for (size_t u = 0; u < 3; u++) {
        char key = 'x', sub = 3;
        snprintf(name, sizeof name, "tiocsti.%s.%zu", where, u);
        TRY(name, syscall(SYS_ioctl, fd, (uint64_t)TIOCSTI | uppers[u], &key));
        snprintf(name, sizeof name, "tioclinux.%s.%zu", where, u);
        TRY(name, syscall(SYS_ioctl, fd, (uint64_t)TIOCLINUX | uppers[u], &sub));
        for (size_t d = 0; d < sizeof disciplines / sizeof *disciplines; d++) {
            snprintf(name, sizeof name, "tiocsetd.%s.%zu.%d", where, u, disciplines[d]);
            TRY(name, syscall(SYS_ioctl, fd, (uint64_t)TIOCSETD | uppers[u], &disciplines[d]));
        }
    }
}

static int open_own_pty(void)
{
    int unlock = 0, number = -1;
    char path[64];
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    say("control.ptmx", master);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) || ioctl(master, TIOCGPTN, &number))
        return -1;
    snprintf(path, sizeof path, "/dev/pts/%d", number);
    return open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

int main(void)
{
    guard();
    for (int fd = 0; fd <= 2; fd++) {
        char name[32];
        snprintf(name, sizeof name, "fd%d", fd);
        fact(name, "%s", isatty(fd) ? "tty" : "not-a-tty");
        attack(name, fd);
    }
    int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    say("controlling.tty", tty);
    if (tty >= 0)
        attack("tty", tty);
    int own = open_own_pty();
    say("control.pty", own);
    if (own >= 0)
        attack("own", own);
    return finish();
}
