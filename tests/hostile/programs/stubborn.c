/* A2 A36 A37 A38 B85: processes that do not want to end. Each mode says "ready" first. */
#include "guard.h"

#include <sched.h>
#include <sys/prctl.h>

static void ignore_everything(void)
{
    sigset_t all;
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_IGN);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
}

_Noreturn static void spin(void)
{
    for (volatile unsigned long i = 0;; i++)
        ;
}

/* Children in sessions of their own, orphaned, deaf to signals and to their parent's death. */
static void scatter(int count)
{
    for (int i = 0; i < count; i++) {
        if (fork() != 0)
            continue;
        setsid();
        if (fork() != 0)
            _exit(0);
        prctl(PR_SET_PDEATHSIG, 0);
        prctl(PR_SET_DUMPABLE, 0);
        prctl(PR_SET_NAME, "kworker/0:0");
        ignore_everything();
        for (;;)
            pause();
    }
    while (wait(NULL) > 0)
        ;
}

/* An orphan that kills whatever is started after the program's end, such as a fetcher of files. */
static void leave_assassin(void)
{
    int fd = open("/workspace/left", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, "left", 4) != 4)
        exit(1);
    close(fd);
    if (fork() != 0)
        return;
    setsid();
    while (getppid() != 1)
        sched_yield();
    for (;;)
        kill(-1, SIGKILL);
}

static void storm(void)
{
    TRY("kill.init", kill(1, SIGKILL));
    TRY("kill.init_term", kill(1, SIGTERM));
    TRY("kill.init_stop", kill(1, SIGSTOP));
    signal(SIGTERM, SIG_IGN);
    for (int i = 0; i < 2000; i++) {
        kill(0, SIGTERM);
        kill(-1, SIGCONT);
    }
    say("kill.everyone", kill(-1, SIGKILL));
}

int main(int argc, char **argv)
{
    guard();
    const char *mode = argc > 1 ? argv[1] : "";
    puts("ready ok");
    guard_count++;
    if (strcmp(mode, "deaf") == 0) {
        ignore_everything();
        spin();
    }
    if (strcmp(mode, "scatter") == 0)
        scatter(20);
    if (strcmp(mode, "scatter-bomb") == 0) {
        ignore_everything();
        for (;;) {
            if (fork() == 0)
                setsid();
        }
    }
    if (strcmp(mode, "vfork") == 0 && vfork() == 0)
        for (;;)
            pause();
    if (strcmp(mode, "stopped") == 0)
        kill(0, SIGSTOP);
    if (strcmp(mode, "storm") == 0)
        storm();
    if (strcmp(mode, "assassin") == 0)
        leave_assassin();
    if (strcmp(mode, "suicide") == 0)
        kill(0, SIGKILL);
    if (strcmp(mode, "orphan-exit") == 0) {
        scatter(5);
        exit(7);
    }
    return finish();
}
