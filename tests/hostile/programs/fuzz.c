/* B87: random system calls with random arguments, from seeded children, for a bounded time.
 *
 * fuzz SEED SECONDS. Each child makes a few hundred calls and is replaced when it ends or hangs;
 * the number of children and of those that died of a signal is reported. A round can be made again
 * from its seed. Whatever happens to this sandbox is its own affair; the runner looks at the host.
 */
#include "guard.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

enum { NR_MAX = 600, CALLS_PER_CHILD = 400, CHILDREN = 4, CHILD_MS = 300, PAGES = 16 };

static uint64_t state;
static unsigned char *arena; /* PAGES pages, then one that is not mapped */

static uint64_t random_word(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t random_argument(void)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     4095,
                                     4096,
                                     4097,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     UINT64_C(0x100000000),
                                     UINT64_C(0x7fffffffffffffff),
                                     UINT64_C(0x8000000000000000),
                                     UINT64_C(0xffffffffffffffff),
                                     UINT64_C(0xffffffff80000000),
                                     UINT64_C(0x7fffffffe000),
                                     UINT64_C(0xffffffffff600000),
                                     (uint64_t)AT_FDCWD,
                                     (uint64_t)-4096};
    static const char *const paths[] = {
        "/",          ".",      "/proc/self/mem", "/proc/1/root", "/dev/ptmx",
        "/dev/shm/f", "/tmp/f", "/workspace/f",   "..",           ""};
    uint64_t r = random_word();
    switch (r % 10) {
    case 0:
    case 1:
        return (r >> 8) % 64; /* a descriptor, a small flag, a pid */
    case 2:
    case 3:
        return (uint64_t)(uintptr_t)(arena + (r >> 8) % (PAGES * 4096));
    case 4:
        return (uint64_t)(uintptr_t)(arena + PAGES * 4096 - (r >> 8) % 64); /* runs off the end */
    case 5:
        return edges[(r >> 8) % (sizeof edges / sizeof *edges)];
    case 6:
        return UINT64_C(1) << ((r >> 8) % 64);
    case 7:
        return (uint64_t)(uintptr_t)paths[(r >> 8) % (sizeof paths / sizeof *paths)];
    case 8:
        return (r >> 8) & 0xffffffff;
    default:
        return r;
    }
}

/* Calls that would only end or stop the fuzzer itself, again and again. */
static bool is_boring(long nr)
{
    switch (nr) {
    case SYS_exit:
    case SYS_exit_group:
    case SYS_pause:
    case SYS_rt_sigreturn:
    case SYS_rt_sigsuspend:
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo:
    case SYS_pidfd_send_signal:
    case SYS_alarm:
        return true;
    default:
        return false;
    }
}

_Noreturn static void child(uint64_t seed)
{
    state = seed | 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    /* What the calls write to descriptors 1 and 2 is noise: it goes nowhere. */
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
    for (size_t i = 0; i < PAGES * 4096 / 8; i++)
        ((uint64_t *)arena)[i] = i % 3 ? random_word() : i % 64;
    for (int i = 0; i < CALLS_PER_CHILD; i++) {
        long nr = (long)(random_word() % NR_MAX);
        if (is_boring(nr))
            continue;
        uint64_t a[6];
        for (int j = 0; j < 6; j++)
            a[j] = random_argument();
        pid_t before = getpid();
        syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
        if ((pid_t)syscall(SYS_getpid) != before)
            _exit(0); /* a fork that worked: one fuzzer is enough */
    }
    _exit(0);
}

static long now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

struct slot {
    pid_t pid;
    long deadline;
};

int main(int argc, char **argv)
{
    guard();
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    long end = now_ms() + 1000 * (argc > 2 ? strtol(argv[2], NULL, 10) : 5);
    struct slot slots[CHILDREN] = {{0, 0}};
    unsigned long started = 0, died = 0;
    arena =
        mmap(NULL, (PAGES + 1) * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED || munmap(arena + PAGES * 4096, 4096) != 0)
        return 1;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fact("seed", "%llu", (unsigned long long)seed);
    while (now_ms() < end) {
        for (int i = 0; i < CHILDREN; i++) {
            if (slots[i].pid > 0 && now_ms() > slots[i].deadline)
                kill(slots[i].pid, SIGKILL);
            if (slots[i].pid > 0)
                continue;
            pid_t pid = fork();
            if (pid == 0)
                child(seed * 1000003 + started * 7919);
            if (pid > 0) {
                slots[i] = (struct slot){pid, now_ms() + CHILD_MS};
                started++;
            }
        }
        int status;
        pid_t gone;
        while ((gone = waitpid(-1, &status, WNOHANG)) > 0) {
            died += WIFSIGNALED(status);
            for (int i = 0; i < CHILDREN; i++)
                if (slots[i].pid == gone)
                    slots[i].pid = 0;
        }
        poll(NULL, 0, 2);
    }
    fact("children", "%lu", started);
    fact("died", "%lu", died);
    return finish();
}
