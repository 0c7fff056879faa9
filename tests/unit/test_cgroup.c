/* test_cgroup.c - groups of the real kernel where we may make them, and a made-up one for the rest
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/cgroup_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "box/syscalls.h"
#include "check.h"

#define SLOT 4242

static const struct spawn_limits limits = {
    .memory_bytes = 64 * MIB, .pids = 33, .cpu_milli = 1500, .disk_bytes = MIB, .inodes = 100};

/* --- a tree of the real kernel --------------------------------------------------------------- */

struct world {
    struct cgroup_tree tree;
    char parent[64];
};

/* Opens the tree under a name of this process's own, or skips the test. */
static void world_open(struct world *w)
{
    if (geteuid() != 0)
        check_skip("only root may make cgroups");
    snprintf(w->parent, sizeof(w->parent), "cove-unit-%d", getpid());
    cgroup_tree_open(&w->tree, &(struct cgroup_wish){.parent = w->parent});
    if (w->tree.count == 0) {
        cgroup_tree_close(&w->tree);
        check_skip("no cgroup hierarchy can be written here");
    }
}

static void world_close(struct world *w)
{
    for (size_t i = 0; i < w->tree.count; i++) {
        scoped_fd int up = openat(w->tree.parent_fd[i], "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(unlinkat(up, w->parent, AT_REMOVEDIR), 0);
    }
    cgroup_tree_close(&w->tree);
}

static void create(struct world *w, struct cgroup *cg)
{
    struct error err = {.msg = ""};
    if (cgroup_create(cg, &w->tree, SLOT, &limits, &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < w->tree.count; i++)
        assert_int_equal(faccessat(w->tree.parent_fd[i], "4242", F_OK, 0), 0);
}

static void rest(void)
{
    pause();
}

static void spin(void)
{
}

/* A process inside the group that does `live` over and over, until it is killed. */
static pid_t start_living(struct world *w, struct cgroup *cg, void (*live)(void))
{
    struct cgroup_entry entry;
    struct error err;
    int ready[2];
    char byte;
    assert_int_equal(cgroup_open_entry(&entry, cg, &w->tree, &err), 0);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    struct clone_args args = {.exit_signal = SIGCHLD};
    if (entry.into_fd >= 0) {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)entry.into_fd;
    }
    pid_t pid = sys_clone3(&args);
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)!write(ready[1], cgroup_enter(&entry) < 0 ? "n" : "y", 1);
        for (;;)
            live();
    }
    cgroup_entry_release(&entry);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    close(ready[0]);
    return pid;
}

static pid_t start_inside(struct world *w, struct cgroup *cg)
{
    return start_living(w, cg, rest);
}

static void assert_killed(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The kernel removes a group a little after its last process. */
static void remove_soon(struct world *w, struct cgroup *cg)
{
    int tries = 0;
    while (!cgroup_remove(cg, &w->tree) && ++tries < 5000)
        sched_yield();
    for (size_t i = 0; i < w->tree.count; i++)
        assert_int_equal(faccessat(w->tree.parent_fd[i], "4242", F_OK, 0), -1);
}

static bool exists(const struct world *w, unsigned slot)
{
    char name[32];
    bool any = false;
    snprintf(name, sizeof(name), "%u", slot);
    for (size_t i = 0; i < w->tree.count; i++)
        any = any || faccessat(w->tree.parent_fd[i], name, F_OK, 0) == 0;
    return any;
}

static void assert_limit(const struct world *w, const struct cgroup *cg,
                         enum cgroup_controller controller, const char *v1, const char *v2,
                         const char *right[2])
{
    if (!cgroup_tree_has(&w->tree, controller)) {
        print_message("# no %s here\n", v2);
        return;
    }
    bool is_v2 = w->tree.where[controller] == w->tree.where[CGROUP_UNIFIED];
    char text[64], name[CGROUP_NAME_BYTES];
    snprintf(name, sizeof(name), "%u/%s", cg->slot, is_v2 ? v2 : v1);
    scoped_fd int fd =
        openat(w->tree.parent_fd[w->tree.where[controller]], name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd_read_full(fd, text, sizeof(text) - 1);
    assert_true(n > 0);
    text[n - 1] = '\0'; /* the newline */
    assert_string_equal(text, right[is_v2]);
}

static void test_limits(void **state)
{
    (void)state;
    struct world w;
    struct cgroup cg;
    world_open(&w);
    create(&w, &cg);
    assert_limit(&w, &cg, CGROUP_MEMORY, "memory.limit_in_bytes", "memory.max",
                 (const char *[]){"67108864", "67108864"});
    assert_limit(&w, &cg, CGROUP_PIDS, "pids.max", "pids.max", (const char *[]){"33", "33"});
    assert_limit(&w, &cg, CGROUP_CPU, "cpu.cfs_quota_us", "cpu.max",
                 (const char *[]){"150000", "150000 100000"});
    if (!cgroup_is_v2(&w.tree, CGROUP_MEMORY) && cgroup_tree_counts_memory(&w.tree))
        assert_limit(&w, &cg, CGROUP_MEMORY, "memory.kmem.tcp.limit_in_bytes", NULL,
                     (const char *[]){"8388608", NULL});
    remove_soon(&w, &cg);
    assert_false(exists(&w, SLOT));
    world_close(&w);
}

struct burst_case {
    const char *name;
    uint64_t burst_milli;
    const char *quota[2], *share[2]; /* by version */
};

static const struct burst_case burst_cases[] = {
    {"who may use more has a share", 2500, {"250000", "250000 100000"}, {"150", "150"}},
    {"no limit becomes lower by it", 100, {"150000", "150000 100000"}, {"150", "150"}},
    {"without it all are alike", 0, {"150000", "150000 100000"}, {"1024", "100"}},
};

static void test_burst(void **state)
{
    const struct burst_case *c = *state;
    struct world w;
    struct cgroup cg;
    world_open(&w);
    w.tree.burst_milli = c->burst_milli;
    create(&w, &cg);
    assert_limit(&w, &cg, CGROUP_CPU, "cpu.cfs_quota_us", "cpu.max", (const char **)c->quota);
    assert_limit(&w, &cg, CGROUP_CPU, "cpu.shares", "cpu.weight", (const char **)c->share);
    remove_soon(&w, &cg);
    world_close(&w);
}

static void note_slot(void *ctx, unsigned slot)
{
    unsigned *seen = ctx;
    assert_int_equal(slot, SLOT);
    ++*seen;
}

static void test_life(void **state)
{
    (void)state;
    struct world w;
    struct cgroup cg;
    struct spawn_stats stats = {0};
    unsigned seen = 0;
    world_open(&w);
    create(&w, &cg);
    pid_t pid = start_inside(&w, &cg);
    cgroup_tree_each(&w.tree, note_slot, &seen);
    assert_int_equal(seen, w.tree.count); /* once per hierarchy */
    cgroup_read_stats(&cg, &w.tree, &stats);
    if (cgroup_tree_has(&w.tree, CGROUP_PIDS))
        assert_int_equal(stats.pids_now, 1);
    assert_int_equal(stats.oom_kills, 0);
    assert_false(cgroup_remove(&cg, &w.tree)); /* not with a process in it */
    cgroup_kill(&cg, &w.tree);
    assert_killed(pid);
    remove_soon(&w, &cg);
    assert_false(exists(&w, SLOT));
    world_close(&w);
}

/* A spawner that died left its group with a process in it; the slot's next owner comes. */
static void test_leftover(void **state)
{
    (void)state;
    struct world w;
    struct cgroup old, cg;
    struct spawn_stats stats = {0};
    world_open(&w);
    create(&w, &old);
    pid_t pid = start_inside(&w, &old);
    create(&w, &cg);
    assert_killed(pid);
    cgroup_read_stats(&cg, &w.tree, &stats);
    assert_int_equal(stats.pids_now, 0);
    remove_soon(&w, &cg);
    world_close(&w);
}

/* A limit that the kernel refuses must not leave a group without limits behind. */
static void test_bad_limit(void **state)
{
    (void)state;
    struct world w;
    struct cgroup cg;
    struct error err;
    world_open(&w);
    if (!cgroup_tree_has(&w.tree, CGROUP_CPU)) {
        world_close(&w);
        check_skip("no cpu controller");
    }
    const struct spawn_limits bad = {.memory_bytes = 64 * MIB, .pids = 10, .cpu_milli = UINT32_MAX};
    int result = cgroup_create(&cg, &w.tree, SLOT, &bad, &err);
    if (result == 0) {
        remove_soon(&w, &cg);
        world_close(&w);
        check_skip("this kernel takes any cpu limit");
    }
    assert_false(exists(&w, SLOT));
    world_close(&w);
}

/* --- no tree --------------------------------------------------------------------------------- */

/* Without cgroups there is nothing to make, and nothing fails. */
static void test_no_tree(void **state)
{
    (void)state;
    struct cgroup_tree none = {.where = {-1, -1, -1, -1, -1}};
    struct cgroup cg;
    struct cgroup_entry entry;
    struct spawn_stats stats = {.memory_peak_bytes = 5};
    struct error err;
    assert_int_equal(cgroup_create(&cg, &none, SLOT, &limits, &err), 0);
    assert_int_equal(cgroup_open_entry(&entry, &cg, &none, &err), 0);
    assert_int_equal(entry.into_fd, -1);
    assert_int_equal(cgroup_enter(&entry), 0);
    cgroup_entry_release(&entry);
    cgroup_read_stats(&cg, &none, &stats);
    assert_int_equal(stats.memory_peak_bytes, 5);
    cgroup_kill(&cg, &none);
    assert_true(cgroup_remove(&cg, &none));
}

#define ZYGOTE_SLOT 4243
#define ZYGOTE_UID  1900004243u

static bool is_owned_by(int dir_fd, const char *file, uid_t uid)
{
    struct stat st;
    return fstatat(dir_fd, file, &st, 0) == 0 && st.st_uid == uid;
}

static void test_nest(void **state)
{
    (void)state;
    struct world w;
    struct cgroup_tree nest;
    struct cgroup cg;
    struct error err = {.msg = ""};
    world_open(&w);
    int at = w.tree.where[CGROUP_UNIFIED];
    if (at < 0) {
        world_close(&w);
        check_skip("no version 2 tree");
    }
    assert_int_equal(cgroup_tree_nest(&nest, &w.tree, ZYGOTE_SLOT, ZYGOTE_UID, &err), 0);
    assert_true(is_owned_by(nest.parent_fd[at], "cgroup.procs", ZYGOTE_UID));
    assert_true(is_owned_by(nest.parent_fd[at], "cgroup.subtree_control", 0));
    assert_int_equal(cgroup_create(&cg, &nest, SLOT, &limits, &err), 0);
    assert_true(is_owned_by(nest.parent_fd[at], "4242/cgroup.procs", 0));
    assert_int_equal(cgroup_give(&cg, &nest, ZYGOTE_UID, &err), 0);
    assert_true(is_owned_by(nest.parent_fd[at], "4242/cgroup.procs", ZYGOTE_UID));
    assert_int_equal(faccessat(w.tree.parent_fd[at], "4243/4242/cgroup.procs", F_OK, 0), 0);

    /* Left as a crash leaves it, all of it goes with the zygote's slot. */
    struct cgroup again;
    assert_int_equal(cgroup_create(&again, &w.tree, ZYGOTE_SLOT, &limits, &err), 0);
    assert_int_equal(faccessat(w.tree.parent_fd[at], "4243/4242", F_OK, 0), -1);
    assert_true(cgroup_remove(&again, &w.tree));
    cgroup_tree_unnest(&nest, &w.tree, ZYGOTE_SLOT);
    assert_true(cgroup_remove(&cg, &w.tree));
    world_close(&w);
}

/* Where one tree has all, nothing is left out; beside version 1, what only counts. */
static void test_trim(void **state)
{
    (void)state;
    struct world w;
    struct cgroup_tree trimmed;
    struct cgroup cg;
    struct error err = {.msg = ""};
    struct spawn_stats stats = {0};
    world_open(&w);
    cgroup_tree_trim(&trimmed, &w.tree);
    assert_true(trimmed.count <= w.tree.count);
    for (int c = CGROUP_MEMORY; c <= CGROUP_CPU; c++)
        assert_int_equal(cgroup_tree_has(&trimmed, c), cgroup_tree_has(&w.tree, c));
    int at = w.tree.where[CGROUP_UNIFIED];
    bool is_hybrid = at >= 0 && w.tree.where[CGROUP_MEMORY] != at;
    if (is_hybrid)
        assert_false(cgroup_tree_has(&trimmed, CGROUP_UNIFIED));

    if (cgroup_create(&cg, &trimmed, SLOT, &limits, &err) < 0)
        fail_msg("%s", err.msg);
    if (is_hybrid)
        assert_int_equal(faccessat(w.tree.parent_fd[at], "4242", F_OK, 0), -1);
    struct world narrow = {.tree = trimmed};
    pid_t pid = start_inside(&narrow, &cg);
    cgroup_read_stats(&cg, &trimmed, &stats);
    if (cgroup_tree_has(&trimmed, CGROUP_PIDS))
        assert_int_equal(stats.pids_now, 1);
    cgroup_kill(&cg, &trimmed);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(cgroup_remove(&cg, &trimmed));

    /* What a crash left of a counted one goes with the slot's next use, whatever that is. */
    struct cgroup old, again;
    create(&w, &old);
    assert_int_equal(cgroup_create(&cg, &trimmed, SLOT, &limits, &err), 0);
    assert_true(cgroup_remove(&cg, &trimmed));
    assert_int_equal(cgroup_create(&again, &w.tree, SLOT, &limits, &err), 0);
    assert_true(cgroup_remove(&again, &w.tree));
    world_close(&w);
}

/* --- hosts that have version 1 only ---------------------------------------------------------- */

/* Takes the version 2 tree out of sight, in a mount namespace that is left again by `back_fd`. */
static void hide_version_2(int *back_fd)
{
    if (geteuid() != 0)
        check_skip("only root may make cgroups");
    *back_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    assert_true(*back_fd >= 0);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        close(*back_fd);
        check_skip("no mount namespace can be had here");
    }
    scoped_free char *mounts = check_read_file("/proc/self/mounts");
    for (char *save = NULL, *line = strtok_r(mounts, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char place[256], type[64];
        if (sscanf(line, "%*s %255s %63s", place, type) == 2 && strcmp(type, "cgroup2") == 0)
            assert_int_equal(umount2(place, MNT_DETACH), 0);
    }
}

static void go_back(int back_fd)
{
    assert_int_equal(setns(back_fd, CLONE_NEWNS), 0);
    close(back_fd);
}

static void open_version_1(struct world *w)
{
    int back_fd;
    hide_version_2(&back_fd);
    snprintf(w->parent, sizeof(w->parent), "cove-unit-%d", getpid());
    cgroup_tree_open(&w->tree, &(struct cgroup_wish){.parent = w->parent});
    go_back(back_fd);
    bool has_freezer = cgroup_tree_has(&w->tree, CGROUP_FREEZER);
    if (!has_freezer || !cgroup_tree_has(&w->tree, CGROUP_CPUACCT)) {
        world_close(w);
        check_skip("no freezer of version 1");
    }
    assert_int_equal(w->tree.version, 1);
    assert_false(cgroup_tree_has(&w->tree, CGROUP_UNIFIED));
}

static void assert_soon(const struct world *w, const struct cgroup *cg, const char *state)
{
    char text[32], path[64];
    snprintf(path, sizeof(path), "%u/freezer.state", cg->slot);
    for (int tries = 0; tries < 100000; tries++) {
        scoped_fd int fd =
            openat(w->tree.parent_fd[w->tree.where[CGROUP_FREEZER]], path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd_read_full(fd, text, sizeof(text) - 1);
        assert_true(n > 0);
        text[n - 1] = '\0'; /* the newline */
        if (strcmp(text, state) == 0)
            return;
        sched_yield();
    }
    fail_msg("it is %s, not %s", text, state);
}

/* While this process works for some time, has the group worked? */
static bool works_beside_us(const struct world *w, struct cgroup *cg)
{
    uint64_t before = cgroup_read_cpu_us(cg, &w->tree);
    struct timespec now, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    end.tv_sec++;
    do { /* a group that may work gets its turn long before that */
        if (cgroup_read_cpu_us(cg, &w->tree) > before + 1000)
            return true;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec < end.tv_sec);
    return false;
}

static void test_v1_freezer(void **state)
{
    (void)state;
    struct world w;
    struct cgroup cg;
    struct error err = {.msg = ""};
    open_version_1(&w);
    create(&w, &cg);
    pid_t pid = start_living(&w, &cg, spin);
    assert_true(works_beside_us(&w, &cg));

    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(cgroup_freeze(&cg, &w.tree, true, &err), 0);
    assert_soon(&w, &cg, "FROZEN");
    assert_false(works_beside_us(&w, &cg));
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(cgroup_freeze(&cg, &w.tree, false, &err), 0);
    assert_soon(&w, &cg, "THAWED");
    assert_true(works_beside_us(&w, &cg));

    assert_int_equal(cgroup_freeze(&cg, &w.tree, true, &err), 0);
    assert_soon(&w, &cg, "FROZEN");
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* what is frozen does not die of it */
    cgroup_kill(&cg, &w.tree);
    assert_killed(pid);
    remove_soon(&w, &cg);
    world_close(&w);
}

/* A spawner that died left it frozen. */
static void test_v1_frozen_leftover(void **state)
{
    (void)state;
    struct world w;
    struct cgroup old, cg;
    struct error err = {.msg = ""};
    open_version_1(&w);
    create(&w, &old);
    pid_t pid = start_inside(&w, &old);
    assert_int_equal(cgroup_freeze(&old, &w.tree, true, &err), 0);
    assert_soon(&w, &old, "FROZEN");
    create(&w, &cg);
    assert_killed(pid);
    assert_soon(&w, &cg, "THAWED");
    remove_soon(&w, &cg);
    world_close(&w);
}

/* --- groups that are used again -------------------------------------------------------------- */

static void open_renewing(struct world *w, struct cgroup *cg)
{
    world_open(w);
    if (!cgroup_tree_can_renew(&w->tree)) {
        world_close(w);
        check_skip("version 2 counts the memory here");
    }
    create(w, cg);
}

static void end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_killed(pid);
}

static void fill(void)
{
    memset(xmalloc(30 * MIB), 1, 30 * MIB);
    pause();
}

static uint64_t read_peak(const struct world *w, struct cgroup *cg)
{
    struct spawn_stats stats = {0};
    assert_true(cgroup_read_stats(cg, &w->tree, &stats));
    return stats.memory_peak_bytes;
}

/* Until the kernel has given back what it charged in advance. */
static void renew_soon(const struct world *w, struct cgroup *cg)
{
    while (!cgroup_renew(cg, &w->tree, &limits)) {
        cgroup_write_of(cg, &w->tree, CGROUP_MEMORY, "memory.force_empty", "0");
        sched_yield();
    }
}

static size_t count_fds(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

struct files_case {
    const char *name;
    bool are_kept;
};

static const struct files_case files_cases[] = {
    {"a group that is used again has no peak", false},
    {"nor has one whose files stayed open", true},
};

static void test_renew(void **state)
{
    const struct files_case *c = *state;
    struct world w;
    struct cgroup cg;
    struct spawn_stats last = {0};
    size_t fds = count_fds();
    open_renewing(&w, &cg);
    if (c->are_kept)
        cgroup_keep_files(&cg);
    pid_t pid = start_living(&w, &cg, fill);
    while (read_peak(&w, &cg) < 30 * MIB)
        sched_yield();
    end(pid);
    assert_true(cgroup_read_stats(&cg, &w.tree, &last));
    assert_true(cgroup_is_unmarked(&last));
    renew_soon(&w, &cg);
    /* what is charged in advance: a batch for each processor, of four at most */
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    assert_in_range(read_peak(&w, &cg), 0, 256 * KIB * (uint64_t)MIN(MAX(processors, 1), 4));
    assert_int_equal(cg.opened != 0, c->are_kept);
    cgroup_drop_files(&cg);
    remove_soon(&w, &cg);
    world_close(&w);
    assert_int_equal(count_fds(), fds);
}

/* What is open is the group's own, whoever has its number later. */
static void test_files_of_one_gone(void **state)
{
    (void)state;
    struct world w;
    struct cgroup old, cg;
    struct spawn_stats stats = {0};
    uint64_t count = 0;
    open_renewing(&w, &old);
    cgroup_keep_files(&old);
    renew_soon(&w, &old);
    assert_true(cgroup_read_stats(&old, &w.tree, &stats));
    assert_true(cgroup_count(&old, &w.tree, &count) && count == 0);
    remove_soon(&w, &old);

    create(&w, &cg);
    pid_t pid = start_inside(&w, &cg);
    stats = (struct spawn_stats){.memory_peak_bytes = 5};
    assert_false(cgroup_read_stats(&old, &w.tree, &stats));
    assert_int_equal(stats.memory_peak_bytes, 5);
    assert_int_equal(stats.pids_now, 0);
    assert_false(cgroup_count(&old, &w.tree, &count));
    assert_int_equal(cgroup_read_cpu_us(&old, &w.tree), 0);
    assert_false(cgroup_renew(&old, &w.tree, &limits));
    cgroup_drop_files(&old);
    end(pid);
    remove_soon(&w, &cg);
    world_close(&w);
}

static void test_way_in(void **state)
{
    (void)state;
    struct world w;
    struct cgroup cg;
    struct cgroup_entry entry, again;
    struct error err;
    world_open(&w);
    create(&w, &cg);
    size_t fds = count_fds();
    assert_int_equal(cgroup_open_entry(&entry, &cg, &w.tree, &err), 0);
    cgroup_give_entry(&cg, &entry); /* it keeps none */
    assert_int_equal(count_fds(), fds);

    cgroup_keep_files(&cg);
    assert_int_equal(cgroup_open_entry(&entry, &cg, &w.tree, &err), 0);
    const struct cgroup_entry same = entry;
    cgroup_give_entry(&cg, &entry);
    assert_int_equal(entry.into_fd, -1);
    assert_int_equal(entry.task_count, 0);
    cgroup_give_entry(&cg, &entry); /* nothing: what it has stays */
    assert_int_equal(cgroup_open_entry(&again, &cg, &w.tree, &err), 0);
    assert_memory_equal(&again, &same, sizeof(same));
    cgroup_give_entry(&cg, &again);
    for (int twice = 0; twice < 2; twice++)
        end(start_inside(&w, &cg)); /* who releases the way in */
    cgroup_drop_files(&cg);
    cgroup_drop_files(&cg);
    assert_int_equal(count_fds(), fds);
    remove_soon(&w, &cg);
    world_close(&w);
}

static void test_renew_in_use(void **state)
{
    (void)state;
    struct world w;
    struct cgroup cg;
    struct spawn_stats now = {0};
    struct error err;
    open_renewing(&w, &cg);
    pid_t pid = start_inside(&w, &cg);
    assert_true(cgroup_read_stats(&cg, &w.tree, &now));
    assert_false(cgroup_is_unmarked(&now));
    assert_false(cgroup_renew(&cg, &w.tree, &limits));
    end(pid);
    assert_int_equal(cgroup_freeze(&cg, &w.tree, true, &err), 0);
    assert_false(cgroup_renew(&cg, &w.tree, &limits));
    remove_soon(&w, &cg);
    assert_false(cgroup_read_stats(&cg, &w.tree, &now));
    assert_false(cgroup_renew(&cg, &w.tree, &limits));
    world_close(&w);
}

/* Datagrams that nobody reads, in a socket that outlives its maker in our hands. */
static void hold_datagrams(int out_fd)
{
    static char text[32 * KIB];
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(here);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, (struct sockaddr *)&here, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&here, &len) < 0 ||
        sendto(fd, text, sizeof(text), 0, (struct sockaddr *)&here, len) != sizeof(text) ||
        fd_send(out_fd, "f", 1, &fd, 1) < 0)
        _exit(1);
    _exit(0);
}

static int pair_for_datagrams[2];

static void make_datagrams(void)
{
    hold_datagrams(pair_for_datagrams[1]);
}

static void test_renew_with_sockets(void **state)
{
    (void)state;
    struct world w;
    struct cgroup cg;
    char byte;
    int fds[FD_PASS_MAX], status;
    size_t count;
    open_renewing(&w, &cg);
    if (!cgroup_tree_counts_memory(&w.tree)) {
        remove_soon(&w, &cg);
        world_close(&w);
        check_skip("this kernel does not count sockets by version 1");
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair_for_datagrams), 0);
    pid_t pid = start_living(&w, &cg, make_datagrams);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(fd_recv(pair_for_datagrams[0], &byte, 1, fds, &count), 1);
    assert_int_equal(count, 1);
    for (int tries = 0; tries < 100; tries++) { /* what else it held has long been given back */
        cgroup_write_of(&cg, &w.tree, CGROUP_MEMORY, "memory.force_empty", "0");
        assert_false(cgroup_renew(&cg, &w.tree, &limits));
        sched_yield();
    }
    close(fds[0]);
    renew_soon(&w, &cg);
    close(pair_for_datagrams[0]);
    close(pair_for_datagrams[1]);
    remove_soon(&w, &cg);
    world_close(&w);
}

static void test_unmarked(void **state)
{
    (void)state;
    static const struct spawn_stats marked[] = {
        {.oom_kills = 1}, {.pids_refused = 1}, {.pids_now = 1}};
    static const struct spawn_stats plain = {.cpu_us = 5, .memory_peak_bytes = 7};
    assert_true(cgroup_is_unmarked(&plain));
    for (size_t i = 0; i < ARRAY_LEN(marked); i++)
        assert_false(cgroup_is_unmarked(&marked[i]));
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "limits can be read back", test_limits);
    check_rows(&check, burst_cases, test_burst);
    check_one(&check, "a group is entered, counted, killed and removed", test_life);
    check_one(&check, "what a crash left is killed and removed", test_leftover);
    check_one(&check, "a limit that cannot be set leaves no group", test_bad_limit);
    check_one(&check, "without cgroups nothing is made, and nothing fails", test_no_tree);
    check_one(&check, "what is not counted has only the groups of its limits", test_trim);
    check_one(&check, "a zygote's groups lie in one that it may clone into", test_nest);
    check_one(&check, "the freezer of version 1 stops, lets go, and lets kill", test_v1_freezer);
    check_one(&check, "what a crash left frozen is killed, too", test_v1_frozen_leftover);
    check_rows(&check, files_cases, test_renew);
    check_one(&check, "open files of a group tell nothing of the next", test_files_of_one_gone);
    check_one(&check, "the way into a group can be used again", test_way_in);
    check_one(&check, "a group that is in use, frozen or gone is not renewed", test_renew_in_use);
    check_one(&check, "nor is one that pays for a socket, whoever has that",
              test_renew_with_sockets);
    check_one(&check, "counters that cannot be set back mark a group", test_unmarked);
    return check_run(&check, "cgroup");
}
