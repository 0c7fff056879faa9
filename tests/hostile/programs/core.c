/* A40 A45: crashes. No core is written, no helper of the host is started. */
#include "guard.h"

#include <sys/prctl.h>
#include <sys/resource.h>

static void crash(const char *how)
{
    if (strcmp(how, "abort") == 0)
        abort();
    raise(strcmp(how, "quit") == 0 ? SIGQUIT : SIGSEGV);
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {"abort", "quit", "segv"};
    guard();
    struct rlimit core = {.rlim_cur = 12345, .rlim_max = 12345};
    getrlimit(RLIMIT_CORE, &core);
    fact("core.soft", "%ld", (long)core.rlim_cur);
    fact("core.hard", "%ld", (long)core.rlim_max);
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
