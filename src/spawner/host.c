/* host.c - the spawner's start: power first, then what every sandbox will share */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/scoped.h"
#include "box/memfile.h"
#include "box/syscalls.h"
#include "box/veil.h"

/* cove-init lies beside this program, wherever that is. */
static int load_init(struct host *host, struct error *err)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n < 0)
        return error_sys(err, "find own program");
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    BUG_ON(!slash);
    slash[slash == path] = '\0';
    host->own_dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (host->own_dir_fd < 0)
        return error_sys(err, "open own directory");
    return memfile_load(&host->init_fd, host->own_dir_fd, "cove-init", 0111, err);
}

/* Only when somebody wants a zygote: a single run is over before it would pay. */
int host_load_zygote(struct host *host, struct error *err)
{
    static const char *const names[HOST_ZYGOTE_FILES] = {
        [HOST_ZYGOTE_MODULE] = "cove_zygote.so",
        [HOST_ZYGOTE_PROGRAM] = "zygote.py",
    };
    for (size_t i = 0; i < HOST_ZYGOTE_FILES; i++) {
        if (host->zygote_fds[i] >= 0)
            continue;
        if (memfile_load(&host->zygote_fds[i], host->own_dir_fd, names[i], 0555, err) < 0) {
            err->code = ERROR_UNAVAILABLE;
            return -1;
        }
    }
    return 0;
}

/* Nobody but root or the caller may be able to change a store. Looked at before a user namespace
 * hides who owns what. */
static bool is_trusted_store(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (st.st_uid == 0 || st.st_uid == geteuid()) &&
           (st.st_mode & 022) == 0;
}

static unsigned find_trusted_stores(const struct host_options *options)
{
    unsigned trusted = 0;
    for (size_t i = 0; i < MIN(options->stores.count, HOST_STORES_MAX); i++)
        trusted |= (unsigned)is_trusted_store(options->stores.items[i]) << i;
    return trusted;
}

static void open_stores(struct host *host, unsigned trusted)
{
    for (size_t i = 0; i < HOST_STORES_MAX; i++) {
        if (!(trusted & 1u << i))
            continue;
        int fd = open(host->options->stores.items[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
            host->store_fds[host->store_count++] = fd;
    }
}

/* A slot whose lock is free but whose group exists: its spawner crashed. */
static void remove_stale(void *ctx, unsigned slot)
{
    struct host *host = ctx;
    if (!slot_try(&host->slots, slot))
        return;
    struct cgroup cg;
    struct error err;
    const struct spawn_limits limits = {.memory_bytes = 1 << 20, .pids = 1, .cpu_milli = 1000};
    if (cgroup_create(&cg, &host->cgroups, slot, &limits, &err) == 0)
        cgroup_remove(&cg, &host->cgroups);
    slot_release(&host->slots, slot);
}

/* The same of a spawner whose number somebody else has taken since, below another parent. Nothing
 * runs in it any more, else it stays. */
static void remove_empty(void *ctx, unsigned slot)
{
    struct host *host = ctx;
    if (!slot_is_held(&host->slots, slot))
        cgroup_remove_empty(&host->cgroups, slot);
}

void host_sweep(struct host *host)
{
    cgroup_tree_each(&host->cgroups, remove_stale, host);
    if (!slot_table_claim(&host->slots))
        return;
    cgroup_tree_each(&host->cgroups, remove_empty, host);
    slot_table_share(&host->slots);
}

int host_open(struct host *host, const struct host_options *options, struct error *err)
{
    *host = (struct host){.options = options,
                          .own_dir_fd = -1,
                          .init_fd = -1,
                          .zygote_fds = {-1, -1},
                          .slots = {.fd = -1},
                          .layers = {.fd = -1},
                          .next_id = 1};
    discard_init(&host->discard);
    uint64_t number;
    if (load_init(host, err) < 0)
        return -1;
    unsigned trusted = find_trusted_stores(options);
    if (power_gain(&host->power, err) < 0)
        return -1;
    open_stores(host,
                trusted); /* in the mount namespace of our own: only its mounts can be cloned */
    if (layer_store_open(&host->layers, options->layers, err) < 0)
        return -1;
    unsigned slots = host->power.uid_count ? host->power.uid_count : SLOT_COUNT_MAX;
    if (slot_table_open(&host->slots, options->run_dir, slots, err) < 0)
        return -1;
    if (veil_prepare(err) < 0) /* covers /tmp, where any of the paths before may lie */
        return -1;
    host->has_overlays = veil_is_known();
    const struct cgroup_wish wish = {.parent = options->cgroup_parent,
                                     .is_rootless = host->power.is_rootless,
                                     .client = options->client};
    cgroup_tree_open(&host->cgroups, &wish);
    host->cgroups.burst_milli = options->cpu_burst_milli;
    cgroup_tree_trim(&host->trimmed, &host->cgroups);
    if (cgroup_tree_number(&host->cgroups, &number, err) < 0 ||
        (number > 0 && slot_table_join(&host->slots, number, err) < 0))
        return -1;
    host->filter_len =
        seccomp_compile(host->filter, SECCOMP_WHOLE, cgroup_tree_counts_memory(&host->cgroups));
    return 0;
}

void host_close(struct host *host)
{
    for (size_t i = 0; i < host->store_count; i++)
        close(host->store_fds[i]);
    for (size_t i = 0; i < host->veil_count; i++)
        veil_close(&host->veils[i].veil);
    layer_store_close(&host->layers);
    cgroup_tree_close(&host->cgroups);
    if (host->slots.fd >= 0)
        slot_table_close(&host->slots);
    scoped_close_fd(&host->own_dir_fd);
    scoped_close_fd(&host->init_fd);
    for (size_t i = 0; i < HOST_ZYGOTE_FILES; i++)
        scoped_close_fd(&host->zygote_fds[i]);
    if (host->has_judge)
        netns_judge_close(&host->nets);
    discard_release(&host->discard);
}

bool host_is_net_fresh(struct host *host, struct netns *net)
{
    if (!host->has_judge)
        (void)!netns_judge_open(&host->nets); /* without one, none is */
    host->has_judge = true;
    return netns_is_fresh(&host->nets, net);
}

/* An image belongs to who owns its store, and to nobody else. */
static bool is_owned_like(int fd, int store_fd)
{
    struct stat st, store;
    return fstat(fd, &st) == 0 && fstat(store_fd, &store) == 0 && st.st_uid == store.st_uid &&
           (st.st_mode & 022) == 0;
}

static int open_image(const struct host *host, const uint8_t digest[SPAWN_DIGEST_BYTES], int *out,
                      struct error *err)
{
    char name[2 * SPAWN_DIGEST_BYTES + 1];
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    format_hex(digest, SPAWN_DIGEST_BYTES, name);
    for (size_t i = 0; i < host->store_count; i++) {
        scoped_fd int image = sys_openat2(host->store_fds[i], name, &how);
        if (image < 0)
            continue;
        scoped_fd int root = sys_openat2(image, "rootfs", &how);
        if (root < 0)
            continue;
        if (!is_owned_like(image, host->store_fds[i]) || !is_owned_like(root, host->store_fds[i]))
            return error_set(err, ERROR_DENIED, "image can be written by others");
        *out = take_fd(&root);
        return 0;
    }
    return error_set(err, ERROR_NOT_FOUND, "open image");
}

/* The tree of an image, opened at its first use. */
static int get_veil(struct host *host, const uint8_t digest[SPAWN_DIGEST_BYTES],
                    const struct veil **out, struct error *err)
{
    for (size_t i = 0; i < host->veil_count; i++) {
        if (memcmp(host->veils[i].digest, digest, SPAWN_DIGEST_BYTES) == 0) {
            *out = &host->veils[i].veil;
            return 0;
        }
    }
    scoped_fd int tree = -1;
    struct veil veil;
    if (open_image(host, digest, &tree, err) < 0 || veil_open(&veil, VEIL_IMAGE, tree, err) < 0)
        return -1;
    if (host->veil_count == HOST_VEILS_MAX) {
        veil_close(&host->veils[0].veil);
        memmove(&host->veils[0], &host->veils[1], sizeof(host->veils) - sizeof(host->veils[0]));
        host->veil_count--;
    }
    struct host_veil *last = &host->veils[host->veil_count++];
    memcpy(last->digest, digest, SPAWN_DIGEST_BYTES);
    last->veil = veil;
    *out = &last->veil;
    return 0;
}

int host_mount_image(struct host *host, const uint8_t digest[SPAWN_DIGEST_BYTES], int *out,
                     struct error *err)
{
    const struct veil *veil;
    return get_veil(host, digest, &veil, err) < 0 ? -1 : veil_mount(veil, out, err);
}

uint32_t host_missing_layers(const struct host *host)
{
    static const struct {
        enum cgroup_controller controller;
        uint32_t layer;
    } needed[] = {{CGROUP_MEMORY, LAYER_BIT(CG_MEMORY)},
                  {CGROUP_PIDS, LAYER_BIT(CG_PIDS)},
                  {CGROUP_CPU, LAYER_BIT(CG_CPU)}};
    uint32_t missing = host->has_overlays ? 0 : LAYER_BIT(OVERLAY);
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        if (!cgroup_tree_has(&host->cgroups, needed[i].controller))
            missing |= needed[i].layer;
    }
    return missing;
}
