/* failcall.c - runs cove-spawner and makes one chosen system call of its create path fail
 *
 *   failcall child|start|create INDEX ERRNO LOG PROGRAM ARGUMENTS...
 *   failcall warm INDEX ERRNO LOG PID
 *   failcall tree INDEX|NUMBER:TURN:TEXT ERRNO LOG PID
 *
 * strace can inject errors too, but counts per process and in every process at once: the fifth
 * openat() of the sealing child could not fail without the fifth one of everybody before it. Here
 * one stretch of one process is meant:
 *   child   who is cloned into a pid namespace, from its first call to the exec of cove-init
 *   start   the spawner, from its first signalfd4() until it waits for a request
 *   create  the spawner, from the second request until it has answered
 *   warm    as child, but cloned by a zygote that runs: its pid stands in place of PROGRAM. Says so
 *           on standard output when it watches, and ends with the child's seal
 *   tree    the process whose pid stands in place of PROGRAM, from the end of the call in which it
 *           sleeps, and all that it clones from then on. NUMBER:TURN:TEXT means the call of that
 *           number whose line has that text, for the TURNth time, from 0. Says so when it watches;
 * killed, it lets go of them Each call becomes a line of LOG: index, number, fd's file, texts among
 * the arguments. INDEX -1 only lists. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENT_FD 3
#define OPTIONS                                                                                    \
    (PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK |         \
     PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE)

static enum { CHILD, START, CREATE, WARM, TREE } role;
static int wanted, error_number;
static FILE *log_file; /* the line of a call, in memory; in the end, all of them */
static struct {
    int number, turn;
    const char *text; /* NULL: the index says which */
} wanted_call;
static pid_t spawner, zygote, target; /* target: whose calls are counted; 0 = not born yet */
static int next_index;
/* Processes of a tree, in the order in which they were seen, with the calls of each. Their calls
 * have indices of their own, PER_PROCESS apart: how they take turns differs from time to time. */
static struct {
    pid_t pid;
    int next;
} members[64];
#define PER_PROCESS 100000
static int requests; /* that the spawner has taken */
static bool is_counting, is_over;
static pid_t failing; /* whose call fails, from its entry to its exit; 0: nobody's */

static void die(const char *what)
{
    perror(what);
    exit(99);
}

static void resume(pid_t pid, int signal)
{
    /* The tracee may have been killed meanwhile. */
    bool is_traced = pid == target || role == TREE;
    if (ptrace(is_traced ? PTRACE_SYSCALL : PTRACE_CONT, pid, NULL, (void *)(long)signal) < 0 &&
        errno != ESRCH)
        die("resume");
}

static void release(pid_t pid)
{
    if (pid == target)
        target = -1;
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

/* --- the log --------------------------------------------------------------------------------- */

/* Memory of the tracee that reads as a short text is printed as one. */
static void log_text(pid_t pid, uint64_t address)
{
    char text[65] = {0};
    struct iovec here = {text, sizeof(text) - 1}, there = {(void *)address, sizeof(text) - 1};
    if (address < 65536 || process_vm_readv(pid, &here, 1, &there, 1, 0) < 1 || !text[0])
        return;
    for (const char *p = text; *p; p++) {
        if (!isprint((unsigned char)*p) && *p != '\n')
            return;
    }
    text[strcspn(text, "\n")] = '\0';
    fprintf(log_file, " \"%s\"", text);
}

static void log_file_of(pid_t pid, uint64_t fd)
{
    char path[64], file[256];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, (int)fd);
    ssize_t n = readlink(path, file, sizeof(file) - 1);
    if (n > 0)
        fprintf(log_file, " <%.*s>", (int)n, file);
}

/* Answers whether it is the one that shall fail by its looks. */
static bool log_call(pid_t pid, int index, const struct __ptrace_syscall_info *info)
{
    char *line = NULL;
    size_t len;
    FILE *file = log_file;
    log_file = open_memstream(&line, &len);
    if (!log_file)
        die("log");
    const uint64_t *args = (const uint64_t *)info->entry.args;
    uint64_t nr = info->entry.nr;
    fprintf(log_file, "%d %d", index, (int)nr);
    static const uint64_t with_fd[] = {SYS_write, SYS_read,  SYS_openat,     SYS_mkdirat,
                                       SYS_close, SYS_fcntl, SYS_newfstatat, SYS_getdents64};
    bool has_fd = false;
    for (size_t i = 0; i < sizeof(with_fd) / sizeof(with_fd[0]); i++)
        has_fd |= nr == with_fd[i];
    if (has_fd)
        log_file_of(pid, args[0]);
    else
        fprintf(log_file, " %#llx", (unsigned long long)args[0]);
    if (nr == SYS_prctl || nr == SYS_prlimit64 || nr == SYS_fcntl)
        fprintf(log_file, " %#llx", (unsigned long long)args[1]);
    for (int i = 0; i < 4; i++)
        log_text(pid, args[i]);
    fclose(log_file);
    log_file = file;
    fprintf(log_file, "%s\n", line);
    fflush(log_file);
    bool is_wanted = wanted_call.text && (int)nr == wanted_call.number &&
                     strstr(line, wanted_call.text) && wanted_call.turn-- == 0;
    free(line);
    return is_wanted;
}

/* --- the calls ------------------------------------------------------------------------------- */

static int take_member_index(pid_t pid)
{
    int i = 0;
    while (members[i].pid && members[i].pid != pid)
        i++;
    if (i + 1 == sizeof(members) / sizeof(members[0]))
        die("too many processes");
    members[i].pid = pid;
    return i * PER_PROCESS + members[i].next++;
}

static void on_entry(pid_t pid, const struct __ptrace_syscall_info *info)
{
    if (role == START && info->entry.nr == SYS_signalfd4)
        is_counting = true;
    if (role == START && info->entry.nr == SYS_recvmsg)
        is_over = true;
    if (role == CREATE && is_counting && info->entry.nr == SYS_sendmsg)
        is_over = true;
    if (role == CREATE && info->entry.nr == SYS_recvmsg && ++requests == 2)
        is_counting = true; /* this very call is the first: the request */
    if (!is_counting || is_over)
        return;
    int index = role == TREE ? take_member_index(pid) : next_index++;
    bool is_wanted = log_call(pid, index, info);
    if (wanted_call.text ? !is_wanted : index != wanted)
        return;
    failing = pid;
    if (info->entry.nr == SYS_close) /* lets go of the descriptor even when it fails */
        return;
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
        die("read registers");
    regs.orig_rax = SYS_getpid; /* does nothing, and no filter refuses it */
    if (ptrace(PTRACE_SETREGS, pid, NULL, &regs) < 0)
        die("write registers");
}

static void on_exit_of_call(pid_t pid)
{
    if (failing == pid) {
        struct user_regs_struct regs;
        if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
            die("read registers");
        regs.rax = (unsigned long long)-error_number;
        if (ptrace(PTRACE_SETREGS, pid, NULL, &regs) < 0)
            die("write registers");
        failing = 0;
    }
    is_counting |= role == TREE; /* it has woken up */
    if (is_over) {
        release(pid);
        return;
    }
    resume(pid, 0);
}

static void on_call(pid_t pid)
{
    struct __ptrace_syscall_info info = {0};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) < 0 && errno != ESRCH)
        die("look at a system call");
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        on_entry(pid, &info);
        resume(pid, 0);
    } else {
        on_exit_of_call(pid);
    }
}

/* --- the processes --------------------------------------------------------------------------- */

static bool is_in_pid_namespace(pid_t pid)
{
    char path[64], line[256];
    bool found = false;
    int ids;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *status = fopen(path, "re");
    while (status && !found && fgets(line, sizeof(line), status))
        found = sscanf(line, "NSpid: %*d %d", &ids) == 1;
    if (status)
        fclose(status);
    return found;
}

static void on_born(pid_t pid)
{
    if ((role == CHILD || role == WARM) && target == 0 && is_in_pid_namespace(pid)) {
        target = pid;
        is_counting = true;
        resume(pid, 0);
    } else {
        ptrace(PTRACE_DETACH, pid, NULL, NULL);
    }
}

static void on_new(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, __WALL) < 0)
        die("wait for a new process");
    on_born(pid);
}

static void on_event(pid_t pid, int event)
{
    unsigned long message = 0;
    if (role == TREE) { /* new ones are attached by themselves */
        resume(pid, 0);
        return;
    }
    if (role == WARM && event != PTRACE_EVENT_EXEC) {
        /* Whoever was attached, and not traced from its start, has new children say so themselves.
         */
        if (event == PTRACE_EVENT_STOP && pid != zygote && pid != target)
            on_born(pid);
        else
            resume(pid, 0);
        return;
    }
    if (event == PTRACE_EVENT_EXEC) {
        if ((role == CHILD || role == WARM) && pid == target) {
            release(pid);
            return;
        }
        if (role == START || role == CREATE)
            target = pid; /* the spawner's own calls begin */
    } else if (ptrace(PTRACE_GETEVENTMSG, pid, NULL, &message) == 0) {
        on_new((pid_t)message);
    }
    resume(pid, 0);
}

static void on_stop(pid_t pid, int status)
{
    int signal = WSTOPSIG(status), event = status >> 16;
    if (signal == (SIGTRAP | 0x80))
        on_call(pid);
    else if (event)
        on_event(pid, event);
    else
        resume(pid, signal);
}

static pid_t start(char **argv)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
            die("be traced");
        raise(SIGSTOP);
        execv(argv[0], argv);
        die(argv[0]);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0 ||
        ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(long)OPTIONS) < 0)
        die("trace");
    close(CLIENT_FD); /* so that the client sees the spawner's end */
    return pid;
}

static pid_t attach(const char *number)
{
    pid_t pid = atoi(number);
    if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)(long)(OPTIONS & ~PTRACE_O_EXITKILL)) < 0)
        die("attach");
    puts("watching");
    fflush(stdout);
    return pid;
}

static _Noreturn void watch_tree(const char *number)
{
    target = atoi(number);
    if (ptrace(PTRACE_SEIZE, target, NULL, (void *)(long)(OPTIONS & ~PTRACE_O_EXITKILL)) < 0 ||
        ptrace(PTRACE_INTERRUPT, target, NULL, NULL) < 0)
        die("attach");
    for (bool is_told = false;;) {
        int status;
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0)
            pause(); /* they are all gone; who started us ends us */
        else if (WIFSTOPPED(status))
            on_stop(pid, status);
        if (!is_told)
            puts("watching");
        is_told = true;
        fflush(stdout);
    }
}

static int watch_zygote(const char *number)
{
    zygote = attach(number);
    while (target >= 0) {
        int status;
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0)
            return 98;
        if (WIFSTOPPED(status))
            on_stop(pid, status);
        else if (pid == target || pid == zygote)
            target = -1;
    }
    return 0; /* and lets go of the zygote */
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 99;
    static const char *const roles[] = {"child", "start", "create", "warm", "tree"};
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (strcmp(argv[1], roles[i]) == 0)
            role = (typeof(role))i;
    }
    wanted = atoi(argv[2]);
    char *text = strrchr(argv[2], ':');
    if (text && sscanf(argv[2], "%d:%d:", &wanted_call.number, &wanted_call.turn) == 2)
        wanted_call.text = text + 1;
    error_number = atoi(argv[3]);
    log_file = fopen(argv[4], "we");
    if (!log_file)
        die(argv[4]);
    if (role == WARM)
        return watch_zygote(argv[5]);
    if (role == TREE)
        watch_tree(argv[5]);
    spawner = start(argv + 5);
    resume(spawner, 0);
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0)
            return 98;
        if (WIFSTOPPED(status))
            on_stop(pid, status);
        else if (pid == spawner)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        else if (pid == target)
            target = -1;
    }
}
