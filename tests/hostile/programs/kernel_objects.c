/* A4 A18 A19: threads, timers, watchers of files, queued signals, message queues, semaphores, as
 * many as can be had. Each kind is asked for far more than any honest program needs; the runner
 * reads the counts. */
#include "guard.h"

#include <mqueue.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <time.h>

static void *sleep_forever(void *unused)
{
    while (unused == NULL)
        pause();
    return NULL;
}

static void count(const char *name, int got, int error)
{
    char key[64];
    snprintf(key, sizeof key, "%s.count", name);
    fact(key, "%d", got);
    snprintf(key, sizeof key, "%s.end", name);
    say_errno(key, error);
}

static void threads(void)
{
    pthread_attr_t attr;
    int got = 0, error = 0;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 1 << 16);
    for (; got < 10000 && error == 0; got++) {
        pthread_t thread;
        error = pthread_create(&thread, &attr, sleep_forever, NULL);
    }
    count("threads", got - (error != 0), error);
}

static void vforks(void)
{
    int got = 0;
    for (; got < 10000; got++) {
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0)
            for (;;)
                pause();
    }
    count("processes", got, errno);
    kill(-1, SIGKILL);
    while (wait(NULL) > 0)
        ;
}

static void timers(void)
{
    int got = 0;
    for (; got < 100000; got++) {
        timer_t id;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
        if (timer_create(CLOCK_MONOTONIC, &event, &id) != 0)
            break;
    }
    count("timers", got, errno);
}

static void queued_signals(void)
{
    sigset_t set;
    int got = 0;
    union sigval value = {.sival_int = 1};
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (; got < 100000; got++) {
        if (sigqueue(getpid(), SIGRTMIN + 2, value) != 0)
            break;
    }
    count("signals", got, errno);
}

static void message_queues(void)
{
    int got = 0;
    for (; got < 10000; got++) {
        char name[32];
        struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 8192};
        snprintf(name, sizeof name, "/hostile-%d", got);
        if (mq_open(name, O_CREAT | O_RDWR, 0600, &attr) == (mqd_t)-1)
            break;
    }
    count("mqueue", got, errno);
    got = 0;
    for (; got < 100000; got++) {
        struct {
            long type;
            char text[4096];
        } message = {.type = 1};
        int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
        if (id < 0)
            break;
        while (msgsnd(id, &message, sizeof message.text, IPC_NOWAIT) == 0)
            ;
    }
    count("msg", got, errno);
    got = 0;
    for (; got < 400; got++) { /* some 2 MB each */
        if (semget(IPC_PRIVATE, 32000, IPC_CREAT | 0600) < 0)
            break;
    }
    count("sem", got, errno);
}

static void inotify_instances(void)
{
    int got = 0;
    for (; got < 300; got++) {
        if (inotify_init1(IN_CLOEXEC) < 0)
            break;
    }
    count("inotify", got, errno);
}

/* Takes all that it can have of what is counted for its user and for whoever made its user
 * namespace, says so by its name, which the host can read, and keeps it. */
static _Noreturn void hoard(void)
{
    inotify_instances();
    timers();
    queued_signals();
    prctl(PR_SET_NAME, "hoarder");
    for (;;)
        pause();
}

static void descriptors(void)
{
    int got = 0;
    for (; got < 2000000; got++) {
        if (eventfd(0, 0) < 0)
            break;
    }
    count("fds", got, errno);
}

int main(int argc, char **argv)
{
    guard();
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "threads") == 0)
        threads();
    else if (strcmp(mode, "processes") == 0)
        vforks();
    else if (strcmp(mode, "hoard") == 0)
        hoard();
    else if (strcmp(mode, "timers") == 0) {
        inotify_instances();
        timers();
        queued_signals();
    } else if (strcmp(mode, "queues") == 0)
        message_queues();
    else if (strcmp(mode, "fds") == 0)
        descriptors();
    return finish();
}
