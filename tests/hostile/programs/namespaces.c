/* B49: every namespace flag, alone and with CLONE_NEWUSER, by unshare, clone and clone3; the upper
 * half of the flag word is set in one variant, because clone() drops it and a filter may not. */
#include "guard.h"

#include <linux/sched.h>
#include <sched.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static const struct {
    const char *name;
    uint64_t flag;
} kinds[] = {
    {"time", CLONE_NEWTIME}, {"mnt", CLONE_NEWNS},  {"cgroup", CLONE_NEWCGROUP},
    {"uts", CLONE_NEWUTS},   {"ipc", CLONE_NEWIPC}, {"user", CLONE_NEWUSER},
    {"pid", CLONE_NEWPID},   {"net", CLONE_NEWNET},
};

/* Answers in the parent as clone does; the child, should there be one, ends at once. */
static long clone_raw(uint64_t flags)
{
    long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return pid;
}

static long clone3_raw(uint64_t flags)
{
    struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        _exit(0);
    return pid;
}

static void try_all(const char *kind, uint64_t flags)
{
    char name[96];
    snprintf(name, sizeof name, "unshare.%s", kind);
    TRY(name, syscall(SYS_unshare, flags));
    snprintf(name, sizeof name, "clone3.%s", kind);
    TRY(name, clone3_raw(flags));
    if (flags & CLONE_NEWTIME)
        return; /* the bit is part of clone()'s exit signal */
    snprintf(name, sizeof name, "clone.%s", kind);
    TRY(name, clone_raw(flags));
    snprintf(name, sizeof name, "clone.%s+upper", kind);
    TRY(name, clone_raw(flags | (UINT64_C(0xdead) << 32)));
}

int main(void)
{
    guard();
    uint64_t all = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char pair[64];
        try_all(kinds[i].name, kinds[i].flag);
        snprintf(pair, sizeof pair, "user+%s", kinds[i].name);
        try_all(pair, kinds[i].flag | CLONE_NEWUSER);
        all |= kinds[i].flag;
    }
    try_all("all", all);
    try_all("all-but-time", all & ~(uint64_t)CLONE_NEWTIME);
    TRY("clone3.plain", clone3_raw(0));
    TRY("control.fork", clone_raw(0));
    return finish();
}
