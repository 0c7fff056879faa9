/* A39 B71 B72 B85: raising priority, identity, capabilities or devices out of nothing. */
#include "guard.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

struct deadline_attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static void priority(void)
{
    struct sched_param one = {.sched_priority = 1};
    struct deadline_attr dl = {.size = sizeof dl,
                               .policy = 6,
                               .runtime = 1000000,
                               .deadline = 10000000,
                               .period = 10000000};
    struct rlimit more = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    TRY("priority.nice", setpriority(PRIO_PROCESS, 0, -20));
    TRY("priority.nice_init", setpriority(PRIO_PROCESS, 1, -20));
    TRY("priority.fifo", syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &one));
    TRY("priority.rr", syscall(SYS_sched_setscheduler, 0, SCHED_RR, &one));
    TRY("priority.deadline", syscall(SYS_sched_setattr, 0, &dl, 0));
    TRY("priority.ioprio_rt", syscall(SYS_ioprio_set, 1, 0, (1 << 13) | 0));
    TRY("priority.mlockall", mlockall(MCL_CURRENT | MCL_FUTURE));
    TRY("priority.rlimit_core", setrlimit(RLIMIT_CORE, &more));
    TRY("priority.rlimit_nproc", setrlimit(RLIMIT_NPROC, &more));
    TRY("priority.rlimit_nofile", setrlimit(RLIMIT_NOFILE, &more));
    TRY("priority.rlimit_rtprio", setrlimit(RLIMIT_RTPRIO, &more));
    TRY("priority.rlimit_memlock", setrlimit(RLIMIT_MEMLOCK, &more));
    TRY("priority.rlimit_msgqueue", setrlimit(RLIMIT_MSGQUEUE, &more));
    TRY("priority.rlimit_sigpending", setrlimit(RLIMIT_SIGPENDING, &more));
}

static void identity(void)
{
    gid_t zero = 0;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct all[2] = {{~0U, ~0U, ~0U}, {~0U, ~0U, ~0U}};
    TRY("identity.setuid", syscall(SYS_setuid, 0));
    TRY("identity.setresuid", syscall(SYS_setresuid, 0, 0, 0));
    TRY("identity.setreuid", syscall(SYS_setreuid, 1001, 1001));
    TRY("identity.setgid", syscall(SYS_setgid, 0));
    TRY("identity.setresgid", syscall(SYS_setresgid, 0, 0, 0));
    TRY("identity.setgroups", syscall(SYS_setgroups, 1, &zero));
    TRY("identity.capset", syscall(SYS_capset, &head, all));
    TRY("identity.keepcaps_ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN));
    TRY("identity.drop_no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    TRY("identity.securebits", prctl(PR_SET_SECUREBITS, 0));
    TRY("identity.mm_exe", prctl(PR_SET_MM, PR_SET_MM_EXE_FILE, 0, 0, 0));
    TRY("identity.mm_arg", prctl(PR_SET_MM, PR_SET_MM_ARG_START, 4096, 0, 0));
    TRY("identity.seccomp_off", prctl(PR_SET_SECCOMP, 0, 0, 0, 0));
    TRY("identity.chown_root", chown("/workspace", 0, 0));
    TRY("identity.chown_other", chown("/workspace", 1001, 1001));
    fact("groups", "%d", getgroups(0, NULL));
}

static void set_id_files(void)
{
    /* A version 2 file capability that grants everything permitted and effective. */
    static const unsigned char caps[20] = {1, 0, 0,   2,   255, 255, 255, 255, 0, 0,
                                           0, 0, 255, 255, 255, 255, 0,   0,   0, 0};
    int fd = open("/workspace/set-id", O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    if (fd >= 0)
        close(fd);
    TRY("file.capability", setxattr("/workspace/set-id", "security.capability", caps, 20, 0));
    TRY("file.trusted_xattr", setxattr("/workspace/set-id", "trusted.overlay.opaque", "y", 1, 0));
}

static void devices(void)
{
    static const struct {
        const char *name;
        mode_t kind;
        unsigned major, minor;
    } nodes[] = {{"mem", S_IFCHR, 1, 1},     {"null", S_IFCHR, 1, 3},   {"kmsg", S_IFCHR, 1, 11},
                 {"fuse", S_IFCHR, 10, 229}, {"kvm", S_IFCHR, 10, 232}, {"tun", S_IFCHR, 10, 200},
                 {"loop", S_IFBLK, 7, 0},    {"sda", S_IFBLK, 8, 0},    {"vda", S_IFBLK, 254, 0}};
    static const char *const dirs[] = {"/workspace", "/tmp", "/dev/shm", "/dev", "/"};
    for (size_t d = 0; d < sizeof dirs / sizeof *dirs; d++) {
        for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
            char path[128], name[128];
            snprintf(path, sizeof path, "%s/hostile-%s", dirs[d], nodes[i].name);
            snprintf(name, sizeof name, "mknod.%s.%s", dirs[d], nodes[i].name);
            TRY(name, mknod(path, nodes[i].kind | 0666, makedev(nodes[i].major, nodes[i].minor)));
            snprintf(name, sizeof name, "opendev.%s.%s", dirs[d], nodes[i].name);
            TRY(name, open(path, O_RDONLY | O_NONBLOCK));
            unlink(path);
        }
    }
    /* Anyone may make a 0:0 node; nobody may open it. */
    mknod("/workspace/whiteout", S_IFCHR | 0666, makedev(0, 0));
    TRY("opendev.whiteout", open("/workspace/whiteout", O_RDONLY | O_NONBLOCK));
    unlink("/workspace/whiteout");
}

/* Prints the lines of /proc/self/status that say what this process may do. */
static void status(void)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f)) {
        char key[32], value[64];
        if (sscanf(line, "%31[^:]: %63s", key, value) != 2)
            continue;
        if (strncmp(key, "Cap", 3) == 0 || strcmp(key, "NoNewPrivs") == 0 ||
            strcmp(key, "Seccomp") == 0)
            fact(key, "%s", value);
    }
    if (f)
        fclose(f);
}

int main(int argc, char **argv)
{
    guard();
    if (argc > 1 && strcmp(argv[1], "status") == 0) {
        status();
        return finish();
    }
    priority();
    identity();
    set_id_files();
    devices();
    status();
    return finish();
}
