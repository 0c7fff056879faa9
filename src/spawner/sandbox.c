/* sandbox.c - making and removing one sandbox
 *
 * The client's numbers are checked here, against limits that it cannot change. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "wire/egress.h"
#include "wire/guest.h"
#include "wire/zygote.h"

/* So few are killed by the end of their pid 1 as soon as by their group. */
#define CALM_PROCESSES 8

/* A storage that holds more is taken down by a helper. */
#define STORAGE_FILES_AT_ONCE 2000
#define STORAGE_BYTES_AT_ONCE (64 * MIB)

#define HOST_LAYERS                                                                                \
    (LAYER_BIT(CG_MEMORY) | LAYER_BIT(CG_PIDS) | LAYER_BIT(CG_CPU) | LAYER_BIT(OVERLAY))

static int fail(struct spawn_failure *failure, enum error_code code, int sys_errno, int layer,
                const char *step)
{
    *failure = (struct spawn_failure){.code = code, .sys_errno = sys_errno, .layer = layer};
    memcpy(failure->step, step, MIN(strlen(step), sizeof(failure->step) - 1));
    return -1;
}

static int fail_error(struct spawn_failure *failure, const struct error *err)
{
    return fail(failure, err->code, err->sys_errno, -1, err->msg);
}

/* --- making ---------------------------------------------------------------------------------- */

static int check_limits(const struct host *host, const struct spawn_limits *l,
                        struct spawn_failure *failure)
{
    const struct host_options *o = host->options;
    const struct {
        const char *name;
        uint64_t value, min, max;
    } rows[] = {
        {"memory limit", l->memory_bytes, 4 * MIB, o->max_memory_bytes},
        {"disk limit", l->disk_bytes, 64 * KIB, o->max_disk_bytes},
        {"inode limit", l->inodes, 16, o->max_inodes},
        {"cpu limit", l->cpu_milli, 10, o->max_cpu_milli},
        {"process limit", l->pids, 2, o->max_pids},
        {"open file limit", l->open_files, 16, o->max_open_files},
        {"lifetime", l->lifetime_ms, 1, o->max_lifetime_ms},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].value < rows[i].min || rows[i].value > rows[i].max)
            return fail(failure, ERROR_INVALID, ERANGE, -1, rows[i].name);
    }
    return 0;
}

static int check_layers(const struct host *host, uint32_t flags, struct spawn_failure *failure)
{
    uint32_t missing = host_missing_layers(host);
    for (int layer = 0; layer < LAYER_COUNT; layer++) {
        const struct layer_info *info = layer_info((enum layer)layer);
        enum layer_need need = host->power.is_rootless ? info->as_user : info->as_root;
        if (missing & 1u << layer && need != LAYER_EXTRA &&
            !(need == LAYER_NEEDED && flags & SPAWN_ALLOW_DEGRADED))
            return fail(failure, ERROR_ISOLATION, ENODEV, layer, info->name);
    }
    return 0;
}

static int make_control(struct sandbox *sb, struct error *err)
{
    if (fd_make_channel(&sb->control_fd, &sb->plan.control_fd, err) < 0)
        return -1;
    /* A start carries up to GUEST_STRINGS_MAX bytes in one datagram. */
    int size = 2 * GUEST_STRINGS_MAX;
    setsockopt(sb->control_fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    return 0;
}

static void close_fd(int *fd)
{
    scoped_close_fd(fd);
    *fd = -1;
}

/* With the last descriptor the kernel takes down all that lies in it, about a microsecond for each
 * file and for each few pages; for a million files everybody else would wait more than a second. */
static void drop_storage(struct sandbox *sb, struct host *host)
{
    struct statfs fs;
    bool is_large = sb->root.storage_fd >= 0 && fstatfs(sb->root.storage_fd, &fs) == 0 &&
                    (fs.f_files - fs.f_ffree > STORAGE_FILES_AT_ONCE ||
                     (fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize > STORAGE_BYTES_AT_ONCE);
    if (is_large)
        discard_add(&host->discard, &sb->root.storage_fd);
    else
        close_fd(&sb->root.storage_fd);
}

/* What only the child needed. */
static void drop_plan(struct sandbox *sb)
{
    close_fd(&sb->root.image_fd);
    close_fd(&sb->root.packages_fd);
    close_fd(&sb->plan.control_fd);
    close_fd(&sb->plan.channel_fd);
    close_fd(&sb->plan.sysctl_fd);
    sb->plan.net_fd = -1; /* borrowed from sb->net */
    cgroup_give_entry(&sb->cgroup, &sb->plan.entry);
}

static void fill_plan(struct sandbox *sb, const struct host *host, const struct spawn_create *r)
{
    struct seal_plan *plan = &sb->plan;
    bool has_own_uid = host->power.uid_count > 0;
    plan->is_rootless = host->power.is_rootless;
    plan->allow_degraded = r->flags & SPAWN_ALLOW_DEGRADED;
    plan->has_own_uid = has_own_uid;
    plan->uid = has_own_uid ? host->power.uid_first + sb->slot : 0;
    plan->limits = r->limits;
    plan->filter = host->filter;
    plan->filter_len = host->filter_len;
    plan->init_fd = host->init_fd;
    plan->gate_fd = -1;
    plan->net_fd = -1;
    plan->has_memory_cgroup = cgroup_tree_counts_memory(sb->tree);
    plan->sysctl_fd =
        plan->has_memory_cgroup ? -1 : open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
    plan->has_pids_cgroup = cgroup_tree_has(sb->tree, CGROUP_PIDS);
}

static int prepare_storage(struct sandbox *sb, struct error *err)
{
    const struct spawn_limits *l = &sb->plan.limits;
    return rootfs_prepare_storage(&sb->root, l->disk_bytes, l->inodes, sb->plan.uid, err);
}

bool sandbox_wants_packages(const struct spawn_create *r)
{
    static const uint8_t none[SPAWN_DIGEST_BYTES];
    return memcmp(r->packages, none, sizeof(none)) != 0;
}

static int prepare_packages(struct sandbox *sb, struct host *host, const struct spawn_create *r,
                            struct error *err)
{
    if (!sandbox_wants_packages(r))
        return 0;
    if (layer_store_take(&host->layers, r->packages, &sb->packages, err) < 0)
        return -1;
    return layer_store_mount(sb->packages, &sb->root.packages_fd, err);
}

/* Ours are closed while the child has not been able to start anything: what a tenant does in its
 * file system, however much the kernel then has to put away, is never put away by us. */
static int give_root(struct sandbox *sb, struct error *err)
{
    int status = seal_give_root(&sb->child, &sb->root, err);
    close_fd(&sb->root.image_fd);
    close_fd(&sb->root.packages_fd);
    return status;
}

static int build_cold(struct sandbox *sb, struct host *host, const struct spawn_create *r,
                      bool has_storage, struct error *err)
{
    if (seal_start(&sb->child, &sb->plan, err) < 0 ||
        host_mount_image(host, r->image, &sb->root.image_fd, err) < 0)
        return -1;
    if (has_storage && (prepare_storage(sb, err) < 0 || prepare_packages(sb, host, r, err) < 0))
        return -1;
    return give_root(sb, err);
}

static int send_request(struct sandbox *sb, int zygote_fd, int report_fd, struct error *err)
{
    const struct seal_plan *plan = &sb->plan;
    const struct cgroup_entry *entry = &plan->entry;
    int fds[FD_PASS_MAX] = {report_fd, plan->control_fd, plan->channel_fd};
    size_t count = 3;
    _Static_assert(6 + CGROUP_HIERARCHIES_MAX <= FD_PASS_MAX, "the fds of a request fit");
    struct zygote_request request = {
        .limits = plan->limits,
        .uid = plan->uid,
        .flags = (plan->is_rootless ? ZYGOTE_ROOTLESS : 0u) |
                 (plan->allow_degraded ? ZYGOTE_ALLOW_DEGRADED : 0u) |
                 (plan->has_own_uid ? ZYGOTE_OWN_UID : 0u) |
                 (plan->has_memory_cgroup ? ZYGOTE_MEMORY_CGROUP : 0u) |
                 (plan->has_pids_cgroup ? ZYGOTE_PIDS_CGROUP : 0u) |
                 (plan->sysctl_fd >= 0 ? ZYGOTE_SYSCTL : 0u) |
                 (plan->net_fd >= 0 ? ZYGOTE_NET : 0u) |
                 (entry->into_fd >= 0 ? ZYGOTE_INTO_CGROUP : 0u),
    };
    if (plan->sysctl_fd >= 0)
        fds[count++] = plan->sysctl_fd;
    if (plan->net_fd >= 0)
        fds[count++] = plan->net_fd;
    if (entry->into_fd >= 0)
        fds[count++] = entry->into_fd;
    for (size_t i = 0; i < entry->task_count; i++)
        fds[count++] = entry->tasks_fds[i];
    if (fd_send(zygote_fd, &request, sizeof(request), fds, count) < 0)
        return error_sys(err, "ask the zygote");
    return 0;
}

/* One of those that sandboxes of the same zygote have left, and left as it was. */
static struct netns take_net(struct sandbox *shell, struct host *host)
{
    while (shell->net_count > 0) {
        struct netns net = netns_take(&shell->nets[--shell->net_count]);
        if (host_is_net_fresh(host, &net))
            return net;
        netns_close(&net);
    }
    return netns_none();
}

/* Before it is killed: the dead have left their namespaces. */
static void keep_net(struct sandbox *sb)
{
    sb->may_lend =
        sb->shell && !sb->has_door && sb->state == SANDBOX_LIVE && sb->shell->state == SANDBOX_LIVE;
    if (sb->may_lend && sb->net.fd < 0)
        sb->net = netns_open(sb->child.pid);
}

static void give_net(struct sandbox *sb)
{
    struct sandbox *shell = sb->shell;
    if (sb->may_lend && sb->net.fd >= 0 && shell->net_count < SANDBOX_NETS)
        shell->nets[shell->net_count++] = netns_take(&sb->net);
}

/* The namespace of one that ends may be the next one's; of one that lives, there is a way to it. */
static void cool(struct sandbox *sb)
{
    cgroup_drop_files(&sb->cgroup);
    if (sb->may_lend)
        netns_close_files(&sb->net);
    else
        netns_close(&sb->net);
}

static void heat(struct sandbox *sb, struct host *host)
{
    struct sandbox *oldest = hot_add(&host->hot, sb);
    cgroup_keep_files(&sb->cgroup);
    if (oldest)
        cool(oldest);
}

/* A slot with the group of one that is gone, or a slot alone. */
static int take_place(struct sandbox *sb, struct host *host, const struct spawn_create *r,
                      bool *has_group, struct error *err)
{
    struct sandbox *shell = sb->shell;
    *has_group = shell && spare_groups_take(&shell->groups, &shell->nest, &host->slots, &r->limits,
                                            &sb->cgroup);
    sb->slot = sb->cgroup.slot;
    return *has_group ? 0 : slot_acquire(&host->slots, &sb->slot, err);
}

/* To be asked while it lives. */
static bool is_calm(struct sandbox *sb)
{
    uint64_t count;
    return sb->shell && !sb->brood && sb->state == SANDBOX_LIVE &&
           sb->shell->state == SANDBOX_LIVE && cgroup_tree_can_renew(sb->tree) &&
           cgroup_count(&sb->cgroup, sb->tree, &count) && count <= CALM_PROCESSES;
}

static bool give_group(struct sandbox *sb)
{
    return sb->may_renew && sb->shell->state == SANDBOX_LIVE &&
           spare_groups_give(&sb->shell->groups, &sb->cgroup, &sb->plan.limits, clock_now_ns());
}

/* The request comes last: behind it there may be a process, and no way back that is short. */
static int build_warm(struct sandbox *sb, struct host *host, const struct spawn_create *r,
                      int zygote_fd, struct error *err)
{
    scoped_fd int report_fd = -1;
    sb->net = take_net(sb->shell, host);
    sb->plan.net_fd = sb->net.fd;
    if (fd_make_channel(&sb->channel_fd, &sb->plan.channel_fd, err) < 0 ||
        seal_open_report(&sb->child.report_fd, &report_fd, err) < 0 ||
        host_mount_image(host, r->image, &sb->root.image_fd, err) < 0 ||
        prepare_storage(sb, err) < 0 || prepare_packages(sb, host, r, err) < 0 ||
        give_root(sb, err) < 0)
        return -1;
    return send_request(sb, zygote_fd, report_fd, err);
}

static void leave_slot(struct sandbox *sb, struct host *host)
{
    if (sb->tree == &sb->nest)
        cgroup_tree_unnest(&sb->nest, &host->cgroups, sb->slot);
    slot_release(&host->slots, sb->slot);
}

/* The way back from half a sandbox. Its only process runs our code, and goes at once. */
static void undo(struct sandbox *sb, struct host *host, bool has_cgroup)
{
    siginfo_t info;
    if (sb->child.pid_fd >= 0) {
        syscall(SYS_pidfd_send_signal, sb->child.pid_fd, SIGKILL, NULL, 0);
        waitid(P_PIDFD, (id_t)sb->child.pid_fd, &info, WEXITED);
    }
    for (int tries = 0; has_cgroup && tries < 1000; tries++) {
        if (cgroup_remove(&sb->cgroup, sb->tree))
            break;
        usleep(1000);
    }
    leave_slot(sb, host);
}

static void free_sandbox(struct sandbox *sb, struct host *host)
{
    drop_plan(sb);
    cgroup_drop_files(&sb->cgroup);
    layer_store_give(&host->layers, sb->packages);
    drop_storage(sb, host);
    discard_channel(&host->discard, &sb->control_fd);
    discard_channel(&host->discard, &sb->channel_fd);
    close_fd(&sb->child.pid_fd);
    discard_channel(&host->discard, &sb->child.report_fd);
    netns_close(&sb->net);
    while (sb->net_count > 0)
        netns_close(&sb->nets[--sb->net_count]);
    hot_remove(&host->hot, sb);
    keep_release(&sb->keep, &host->discard);
    free(sb);
}

enum kind { KIND_COLD, KIND_SHELL, KIND_WARM };

static int check_request(const struct host *host, const struct spawn_create *r, enum kind kind,
                         struct spawn_failure *failure)
{
    uint32_t known = SPAWN_ALLOW_DEGRADED | (kind == KIND_COLD ? SPAWN_UNCOUNTED : 0u);
    if (r->flags & ~known)
        return fail(failure, ERROR_INVALID, 0, -1, "flags");
    if (kind == KIND_SHELL && sandbox_wants_packages(r)) /* nothing of a tenant's is in a zygote */
        return fail(failure, ERROR_INVALID, 0, -1, "packages of a zygote");
    if (check_limits(host, &r->limits, failure) < 0 || check_layers(host, r->flags, failure) < 0)
        return -1;
    return 0;
}

static int place(struct sandbox *sb, struct host *host, const struct spawn_create *r,
                 enum kind kind, struct error *err)
{
    uid_t uid = host->power.uid_count > 0 ? host->power.uid_first + sb->slot : 0;
    sb->is_uncounted = r->flags & SPAWN_UNCOUNTED;
    sb->tree = sb->shell                    ? &sb->shell->nest
               : r->flags & SPAWN_UNCOUNTED ? &host->trimmed
                                            : &host->cgroups;
    if (kind != KIND_SHELL)
        return 0;
    if (cgroup_tree_nest(&sb->nest, &host->cgroups, sb->slot, uid, err) < 0)
        return -1;
    sb->tree = &sb->nest;
    return 0;
}

/* What a zygote has been given is its own as long as the group is there. */
static int make_group(struct sandbox *sb, const struct spawn_create *r, struct error *err)
{
    if (cgroup_create(&sb->cgroup, sb->tree, sb->slot, &r->limits, err) < 0)
        return -1;
    if (!sb->shell || cgroup_give(&sb->cgroup, sb->tree, sb->shell->plan.uid, err) == 0)
        return 0;
    cgroup_remove(&sb->cgroup, sb->tree);
    return -1;
}

static int make(struct sandbox *sb, struct host *host, const struct spawn_create *r, enum kind kind,
                int zygote_fd, struct error *err)
{
    fill_plan(sb, host, r);
    if (make_control(sb, err) < 0 ||
        cgroup_open_entry(&sb->plan.entry, &sb->cgroup, sb->tree, err) < 0)
        return -1;
    return kind == KIND_WARM ? build_warm(sb, host, r, zygote_fd, err)
                             : build_cold(sb, host, r, kind == KIND_COLD, err);
}

static void begin_life(struct sandbox *sb, struct host *host)
{
    int64_t now = clock_now_ns();
    sb->id = host->next_id++;
    sb->deadline_ns = now + (int64_t)sb->plan.limits.lifetime_ms * 1000000;
    sb->seal_deadline_ns = now + sb->seal_limit_ns;
}

static int create(struct sandbox **out, struct host *host, const struct spawn_create *r,
                  enum kind kind, struct sandbox *shell, int zygote_fd,
                  struct spawn_failure *failure)
{
    struct error err;
    if (check_request(host, r, kind, failure) < 0)
        return -1;
    struct sandbox *sb = xcalloc(1, sizeof(*sb));
    sb->shell = shell;
    sb->seal_limit_ns = (int64_t)host->options->seal_limit_ms * 1000000;
    sb->groups.wait_ns = (int64_t)host->options->group_wait_ms * 1000000;
    sb->control_fd = sb->channel_fd = sb->child.pid_fd = sb->child.report_fd = -1;
    sb->plan.entry.into_fd = -1;
    sb->plan.control_fd = sb->plan.channel_fd = sb->root.image_fd = sb->root.storage_fd = -1;
    sb->root.packages_fd = -1;
    sb->plan.net_fd = sb->plan.sysctl_fd = -1;
    sb->net = netns_none();
    bool has_cgroup;
    if (take_place(sb, host, r, &has_cgroup, &err) < 0) {
        free_sandbox(sb, host);
        return fail_error(failure, &err);
    }
    has_cgroup =
        place(sb, host, r, kind, &err) == 0 && (has_cgroup || make_group(sb, r, &err) == 0);
    if (kind == KIND_WARM)
        heat(sb, host);
    if (!has_cgroup || make(sb, host, r, kind, zygote_fd, &err) < 0) {
        undo(sb, host, has_cgroup);
        free_sandbox(sb, host);
        return fail_error(failure, &err);
    }
    sb->layers = HOST_LAYERS & ~host_missing_layers(host);
    if (shell)
        shell->made_count++;
    else
        begin_life(sb, host);
    *out = sb;
    return 0;
}

int sandbox_create(struct sandbox **out, struct host *host, const struct spawn_create *r,
                   struct spawn_failure *failure)
{
    return create(out, host, r, KIND_COLD, NULL, -1, failure);
}

int sandbox_create_shell(struct sandbox **out, struct host *host, const struct spawn_create *r,
                         struct spawn_failure *failure)
{
    return create(out, host, r, KIND_SHELL, NULL, -1, failure);
}

int sandbox_prepare_warm(struct sandbox **out, struct host *host, const struct spawn_create *r,
                         struct sandbox *shell, int zygote_fd, struct spawn_failure *failure)
{
    return create(out, host, r, KIND_WARM, shell, zygote_fd, failure);
}

/* The errors of talking to a process that is no more. */
static bool is_end(int error)
{
    return error == EPIPE || error == ECONNRESET || error == ESRCH || error == ENOENT;
}

int sandbox_start_warm(struct sandbox *sb, struct host *host, struct spawn_failure *failure)
{
    struct error err;
    /* One that has failed before has said why, in a report that nobody has read yet. */
    if (seal_let_go(&sb->child, &err) < 0 && !is_end(err.sys_errno))
        return fail_error(failure, &err);
    sb->shell->busy_count++;
    begin_life(sb, host);
    return 0;
}

int sandbox_open_door(struct sandbox *sb, int *door, struct spawn_failure *failure)
{
    if (sb->state != SANDBOX_LIVE || sb->is_reaped)
        return fail(failure, ERROR_CONFLICT, 0, -1, "the sandbox is not sealed yet, or over");
    struct netns net = netns_open(sb->child.pid);
    if (net.fd < 0)
        return fail(failure, ERROR_CONFLICT, errno, -1, "open its network namespace");
    sb->has_door = true;
    int fd = netns_listen(net.fd, EGRESS_PORT);
    int error = errno;
    netns_close(&net);
    if (fd < 0)
        return fail(failure, ERROR_UNAVAILABLE, error, -1, "listen in its network namespace");
    *door = fd;
    return 0;
}

/* Of a process that the zygote has cloned, or not, nothing is known before its first report. */
static bool is_unknown(const struct sandbox *sb)
{
    return sb->child.pid == 0 && !sb->is_reaped;
}

bool sandbox_waits_for_zygote(const struct sandbox *sb)
{
    return sb->shell && !sb->is_late && (sb->state == SANDBOX_SEALING || is_unknown(sb));
}

int sandbox_get_poll_fd(const struct sandbox *sb, bool *is_report)
{
    *is_report = sb->state == SANDBOX_SEALING || is_unknown(sb);
    if (sb->is_reaped)
        return -1;
    return *is_report ? sb->child.report_fd : sb->child.pid_fd;
}

static void leave_sealing(struct sandbox *sb, enum sandbox_state state)
{
    if (sb->state == SANDBOX_SEALING && sb->shell && sb->id)
        sb->shell->busy_count--;
    sb->state = state;
}

/* The end of its pid 1 takes the whole pid namespace. */
static void kill_first(const struct sandbox *sb)
{
    syscall(SYS_pidfd_send_signal, sb->child.pid_fd, SIGKILL, NULL, 0);
}

void sandbox_end(struct sandbox *sb)
{
    keep_net(sb);
    sb->may_renew = is_calm(sb) && !sb->was_killed;
    if (sb->may_renew)
        kill_first(sb);
    else
        sandbox_kill(sb);
    if (is_unknown(sb)) /* a spare had no deadline yet */
        sb->seal_deadline_ns = clock_now_ns() + sb->seal_limit_ns;
    leave_sealing(sb, SANDBOX_ENDING);
}

/* It shall end, and has yet to say who it is. */
static void meet_unknown(struct sandbox *sb, ssize_t n)
{
    if (sb->child.pid > 0)
        sandbox_kill(sb);
    else if (n <= 0)
        sb->is_reaped = true; /* there is nobody */
}

/* One that has ended belongs to root, in the eyes of an ordinary user: to him its files are simply
 * closed. One that lives waits for our answer, and says nothing. */
static bool has_more_to_say(const struct sandbox *sb)
{
    struct pollfd p = {.fd = sb->child.report_fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

int sandbox_on_report(struct sandbox *sb, struct discard *discard, struct spawn_failure *failure)
{
    struct seal_report report;
    struct fd_bag strays;
    struct error err;
    ssize_t n = seal_receive(&sb->child, &report, &strays);
    int sys_errno = errno;
    discard_bag(discard, &strays);
    errno = sys_errno;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (sb->state == SANDBOX_ENDING) {
        meet_unknown(sb, n);
        return 0;
    }
    if (n == sizeof(report) && report.event == SEAL_BORN)
        return 0;
    if (n == sizeof(report) && report.event == SEAL_MAP_ME) {
        if (seal_map_ids(&sb->child, &sb->plan, &err) == 0 || is_end(err.sys_errno) ||
            has_more_to_say(sb))
            return 0; /* one that ended meanwhile has said why, in the next report */
        leave_sealing(sb, SANDBOX_ENDING);
        return fail(failure, ERROR_ISOLATION, err.sys_errno, LAYER_USER_NS, err.msg);
    }
    if (n == sizeof(report) && report.event == SEAL_DONE) {
        sb->layers |= report.layers;
        return 0;
    }
    if (n == 0 && sb->child.pid > 0 && sb->layers & LAYER_BIT(SECCOMP) && !sb->is_late) {
        leave_sealing(sb, SANDBOX_LIVE);
        discard_channel(discard, &sb->child.report_fd);
        drop_plan(sb);
        return 0;
    }
    leave_sealing(sb, SANDBOX_ENDING);
    if (sb->child.pid == 0)
        sb->is_reaped = true; /* the zygote did not get so far */
    if (n == sizeof(report) && report.event == SEAL_FAILED) {
        report.step[sizeof(report.step) - 1] = '\0';
        return fail(failure, ERROR_ISOLATION, report.sys_errno, report.layer, report.step);
    }
    return fail(failure, ERROR_ISOLATION, 0, -1,
                sb->is_late ? "it was not sealed in time" : "the sealing process died");
}

void sandbox_set_baseline(struct sandbox *sb)
{
    sb->baseline_cpu_us = cgroup_read_cpu_us(&sb->cgroup, sb->tree);
}

struct spawn_sealed sandbox_sealed(const struct sandbox *sb)
{
    bool has_user_ns = sb->layers & LAYER_BIT(USER_NS);
    return (struct spawn_sealed){
        .layers = sb->layers,
        .host_uid = sb->plan.uid,
        .sandbox_uid = has_user_ns ? GUEST_UID : sb->plan.uid,
        .slot = sb->slot,
        .nest = sb->shell ? sb->shell->slot : SPAWN_NO_NEST,
        .seal_cpu_us = sb->baseline_cpu_us,
    };
}

/* --- looking --------------------------------------------------------------------------------- */

/* False: its group could not tell all of it. */
static bool read_stats(struct sandbox *sb, struct spawn_stats *out)
{
    struct spawn_stats s = {.memory_peak_bytes = sb->memory_seen_bytes};
    struct statfs fs;
    bool is_whole = cgroup_read_stats(&sb->cgroup, sb->tree, &s);
    s.cpu_us -= MIN(s.cpu_us, sb->baseline_cpu_us);
    if (sb->killed_for_memory)
        s.oom_kills++;
    if (fstatfs(sb->root.storage_fd, &fs) == 0) {
        s.disk_used_bytes = (fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
        s.disk_free_bytes = fs.f_bfree * (uint64_t)fs.f_bsize;
        s.inodes_free = fs.f_ffree;
    }
    s.lifetime_over = sb->lifetime_over;
    *out = s;
    return is_whole;
}

void sandbox_read_stats(struct sandbox *sb, struct spawn_stats *out)
{
    if (sb->state == SANDBOX_OVER || sb->is_reaped)
        *out = sb->last;
    else
        (void)!read_stats(sb, out);
}

/* --- ending ---------------------------------------------------------------------------------- */

static void kill_group(struct sandbox *sb)
{
    sb->was_killed = true;
    sb->may_renew = false;
    cgroup_kill(&sb->cgroup, sb->tree);
}

void sandbox_kill(struct sandbox *sb)
{
    /* One that has not said its first word yet is killed when it does: killed before, it would be a
     * child of ours that we do not know, until its zygote's end. One that never does has no other
     * end. */
    if (sb->is_late && sb->child.pid == 0)
        kill_group(sb);
    if (sb->is_reaped || sb->child.pid == 0)
        return;
    kill_first(sb);
    kill_group(sb); /* the second hand */
}

int sandbox_freeze(struct sandbox *sb, bool is_frozen, struct spawn_failure *failure)
{
    struct error err;
    if (sb->state != SANDBOX_LIVE)
        return fail(failure, ERROR_CONFLICT, 0, -1, "the sandbox is not sealed, or over");
    if (cgroup_freeze(&sb->cgroup, sb->tree, is_frozen, &err) == 0)
        return 0;
    if (err.code == ERROR_UNAVAILABLE && sb->is_uncounted) /* the host may well be able to */
        return fail(failure, ERROR_CONFLICT, 0, -1, "it was made as one that is never frozen");
    return fail_error(failure, &err);
}

void sandbox_on_exit(struct sandbox *sb)
{
    siginfo_t info = {0};
    struct rusage usage = {0};
    if (sb->is_reaped || sb->child.pid_fd < 0)
        return;
    long status = syscall(SYS_waitid, P_PIDFD, sb->child.pid_fd, &info, WEXITED | WNOHANG, &usage);
    bool was_stranger = status < 0 && errno == ECHILD; /* reaped before its first word was read */
    if (!was_stranger && (status < 0 || info.si_pid == 0))
        return;
    sb->may_renew &= read_stats(sb, &sb->last) && cgroup_is_unmarked(&sb->last);
    sb->last.is_over = 1;
    /* Without a cgroup that counts it, what pid 1 reaped is what was used. */
    if (sb->last.cpu_us == 0)
        sb->last.cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                          (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    if (sb->last.memory_peak_bytes == 0)
        sb->last.memory_peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
    sb->is_reaped = true;
    if (sb->state == SANDBOX_LIVE) {
        sb->state = SANDBOX_OVER;
        cool(sb); /* it may stay so for long, and needs nothing of it any more */
    }
}

void sandbox_empty(struct sandbox *sb, struct host *host)
{
    drop_plan(sb); /* one that was never sealed has it yet, and with it the kernel's end */
    cool(sb);
    drop_storage(sb, host);
    discard_channel(&host->discard, &sb->control_fd);
    discard_channel(&host->discard, &sb->channel_fd);
}

void sandbox_expire_groups(struct sandbox *shell, struct host *host, int64_t now)
{
    spare_groups_expire(&shell->groups, &shell->nest, &host->slots, now);
}

/* Its group and its slot, which go to the next one or for good. */
static bool leave_place(struct sandbox *sb, struct host *host)
{
    if (give_group(sb))
        return true;
    if (!spare_groups_clear(&sb->groups, &sb->nest, &host->slots))
        return false;
    if (!cgroup_remove(&sb->cgroup, sb->tree)) {
        if (!sb->was_killed) /* whoever is left in it is not of its pid namespace */
            kill_group(sb);
        return false;
    }
    leave_slot(sb, host);
    return true;
}

bool sandbox_try_remove(struct sandbox *sb, struct host *host)
{
    if (!sb->is_reaped)
        return false;
    drop_storage(sb, host); /* its pages are charged to the group that goes */
    if (!leave_place(sb, host))
        return false;
    if (sb->shell) {
        sb->shell->made_count--;
        give_net(sb);
    }
    free_sandbox(sb, host);
    return true;
}
