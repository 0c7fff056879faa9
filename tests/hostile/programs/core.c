/* A40 A45: crashes. No core is written, no helper of the host is started. */
#include "guard.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static void crash(const char *how)
{
    if (strcmp(how, "abort") == 0)
        abort();
    raise(strcmp(how, "quit") == 0 ? SIGQUIT : SIGSEGV);
}

static struct rlimit core_limit(void)
{
    struct rlimit core = {.rlim_cur = 12345, .rlim_max = 12345};
    syscall(SYS_getrlimit, RLIMIT_CORE, &core);
    return core;
}

/* A limit of 0 would let a core dump helper of the host run again; only 1 keeps it away. The last
 * ways hide behind what a filter may not look at: the upper half of an argument. */
static void lower(void)
{
    static const struct rlimit none = {0, 0};
    uint64_t upper = UINT64_C(1) << 32;
    say("lower.setrlimit", syscall(SYS_setrlimit, RLIMIT_CORE, &none));
    say("lower.prlimit", syscall(SYS_prlimit64, 0, RLIMIT_CORE, &none, NULL));
    say("lower.own_pid", syscall(SYS_prlimit64, getpid(), RLIMIT_CORE, &none, NULL));
    say("lower.upper_resource", syscall(SYS_prlimit64, 0, RLIMIT_CORE | upper, &none, NULL));
    say("lower.upper_pid", syscall(SYS_prlimit64, upper, RLIMIT_CORE, &none, NULL));
    struct rlimit *high = mmap((void *)upper, 4096, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (high == MAP_FAILED)
        return;
    *high = none; /* its address has a lower half of 0, like NULL */
    say("lower.round_address", syscall(SYS_prlimit64, 0, RLIMIT_CORE, high, NULL));
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {"abort", "quit", "segv"};
    guard();
    struct rlimit core = core_limit(), seen;
    fact("core.soft", "%ld", (long)core.rlim_cur);
    fact("core.hard", "%ld", (long)core.rlim_max);
    say("control.getrlimit", getrlimit(RLIMIT_CORE, &seen));
    lower();
    fact("core.after", "%ld", (long)core_limit().rlim_cur);
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    for (int i = 0; i < rounds; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            core.rlim_cur = core.rlim_max;
            setrlimit(RLIMIT_CORE, &core);
            prctl(PR_SET_DUMPABLE, 1);
            if (i < 3) {
                char *big = malloc(50 << 20);
                memset(big, i, 50 << 20);
                crash(ways[i]);
            }
            *(volatile int *)16 = 1; /* a fault that the kernel logs */
        }
        int status = 0;
        waitpid(pid, &status, 0);
        if (WCOREDUMP(status))
            fact("dumped", "%d", i);
    }
    return finish();
}
