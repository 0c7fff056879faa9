/* host.h - what the spawner found and prepared at its start, for all sandboxes */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/option.h"
#include "box/cgroup.h"
#include "box/netns.h"
#include "box/power.h"
#include "box/seccomp.h"
#include "box/slot.h"
#include "box/veil.h"
#include "spawner/discard.h"
#include "spawner/hot.h"
#include "spawner/layer_store.h"

#define HOST_STORES_MAX 4

enum host_zygote_file { HOST_ZYGOTE_MODULE, HOST_ZYGOTE_PROGRAM, HOST_ZYGOTE_FILES };
#define HOST_VEILS_MAX 64 /* images in use at a time; the oldest makes room */

/* From the command line of whoever started us; a client cannot change it. */
struct host_options {
    char *run_dir;
    char *cgroup_parent;       /* NULL: below the group that we were started in */
    pid_t client;              /* who has started us and is served; 0: we start it ourselves */
    struct option_list stores; /* directories with images; earlier ones win */
    char *layers;              /* the one of package layers; NULL: none can be made or used */
    uint64_t max_memory_bytes;
    uint64_t max_disk_bytes;
    uint64_t max_inodes;
    uint64_t max_cpu_milli;
    uint64_t cpu_burst_milli; /* 0: none */
    uint64_t max_pids;
    uint64_t max_open_files;
    uint64_t max_lifetime_ms;
    uint64_t seal_limit_ms;
    uint64_t group_wait_ms;
};

struct host {
    const struct host_options *options;
    struct power power;
    struct cgroup_tree cgroups;
    struct cgroup_tree trimmed; /* for what is SPAWN_UNCOUNTED */
    struct discard discard;     /* what clients have given, and is to be closed */
    struct slot_table slots;
    int store_fds[HOST_STORES_MAX];
    size_t store_count;
    struct host_veil {
        uint8_t digest[SPAWN_DIGEST_BYTES];
        struct veil veil;
    } veils[HOST_VEILS_MAX];
    size_t veil_count;
    struct layer_store layers;
    int own_dir_fd;                    /* where this program lies, and the others of Cove's */
    int init_fd;                       /* cove-init, sealed in memory */
    int zygote_fds[HOST_ZYGOTE_FILES]; /* the same of what makes a python a zygote; -1: not loaded
                                        */
    struct sock_filter filter[SECCOMP_FILTER_MAX];
    size_t filter_len;
    uint64_t next_id;
    struct netns_judge nets;
    bool has_overlays;
    bool has_judge; /* it was tried to have one */
    struct hot hot;
};

MUST_CHECK int host_open(struct host *host, const struct host_options *options, struct error *err);
void host_close(struct host *host);

/* Removes what crashed spawners left. */
void host_sweep(struct host *host);

/* A mount of an image, by digest alone, that nobody else has; *out is owned by the caller. */
MUST_CHECK int host_mount_image(struct host *host, const uint8_t digest[SPAWN_DIGEST_BYTES],
                                int *out, struct error *err);

/* Loads host->zygote_fds, once. Fails where this build has no zygote. */
MUST_CHECK int host_load_zygote(struct host *host, struct error *err);

/* Whether a network namespace that was used can be used again. */
bool host_is_net_fresh(struct host *host, struct netns *net);

/* Layers that the host as a whole lacks (cgroup controllers, overlays), as a bit set; 0 is good. */
uint32_t host_missing_layers(const struct host *host);
