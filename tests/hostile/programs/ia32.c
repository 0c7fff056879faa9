/* B60 B61: the 32-bit and x32 doors to the kernel, which an argument filter does not see. */
#include "guard.h"

#include <sys/mman.h>

static long int80(long nr, long a, long b, long c)
{
    long rc;
    __asm__ volatile("int $0x80"
                     : "=a"(rc)
                     : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(0L), "D"(0L)
                     : "memory", "r8", "r9", "r10", "r11");
    int answer = (int)rc;
    if (answer < 0 && answer > -4096) {
        errno = -answer;
        return -1;
    }
    return 0;
}

static const struct {
    const char *name;
    long nr, a, b, c;
} calls[] = {
    {"getpid", 20, 0, 0, 0},
    {"write", 4, 1, 0, 0},
    {"ptrace", 26, 0, 0, 0},
    {"mount", 21, 0, 0, 0},
    {"unshare", 310, 0x10000000, 0, 0},
    {"setns", 346, -1, 0, 0},
    {"keyctl", 288, 0, -3, 0},
    {"bpf", 357, 0, 0, 0},
    {"socket", 359, 38, 5, 0},
    {"io_uring_setup", 425, 1, 0, 0},
    {"personality", 136, 0, 0, 0},
    {"vm86", 166, 0, 0, 0},
    {"vm86old", 113, 0, 0, 0},
    {"exit_free", 999, 0, 0, 0},
};

static void try_int80(void)
{
    char name[64];
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        snprintf(name, sizeof name, "int80.%s", calls[i].name);
        TRY(name, int80(calls[i].nr, calls[i].a, calls[i].b, calls[i].c));
    }
    /* socketcall takes its arguments from memory below 4 GB. */
    int *args =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (args == MAP_FAILED) {
        say("int80.socketcall_memory", -1);
        return;
    }
    for (int family = 1; family <= 45; family++) {
        args[0] = family;
        args[1] = family == 38 ? 5 : 3;
        args[2] = 0;
        snprintf(name, sizeof name, "int80.socketcall_%d", family);
        TRY(name, int80(102, 1, (long)args, 0));
    }
}

/* Calls every x32 number with harmless arguments; counts what was not refused. */
static void try_x32(void)
{
    unsigned answered = 0;
    for (long nr = 0; nr < 600; nr++) {
        char name[64];
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            alarm(2);
            long rc = syscall(0x40000000L | nr, -1L, 0L, 0L, 0L, 0L, 0L);
            _exit(rc == -1 ? errno : 0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        bool refused =
            WIFSIGNALED(status) ? WTERMSIG(status) == SIGSYS : WEXITSTATUS(status) == ENOSYS;
        if (refused)
            continue;
        answered++;
        snprintf(name, sizeof name, "x32.%ld", nr);
        if (WIFSIGNALED(status))
            fact(name, "killed-%d", WTERMSIG(status));
        else
            say_errno(name, WEXITSTATUS(status));
    }
    fact("x32.answered", "%u", answered);
}

int main(void)
{
    guard();
    try_int80();
    try_x32();
    return finish();
}
