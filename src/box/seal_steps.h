/* seal_steps.h - the single steps of a seal, for the tables of seal.c, seal_zygote.c, seal_warm.c
 *
 * They run between clone and exec: no heap, no locks, no stdio, only data that was prepared before.
 * Each answers 0, or -1 with errno. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/seal.h"

#define SEAL_INIT_FD    4 /* where seal_step_fds() puts things; the control socket is fd 3 */
#define SEAL_REPORT_FD  5
#define SEAL_CHANNEL_FD 6
#define SEAL_GATE_FD    7

struct seal {
    const struct seal_plan *plan;
    int report_fd;
    uint32_t layers;
    bool in_user_ns;
    const char *step; /* finer than the table's name, where a step sets it */
};

/* `layer` is what is missing when the step fails; a missing layer is skipped where its need (see
 * layer.h) says that it may be. -1: the step is no layer, its failure is final. */
struct seal_step {
    const char *name;
    int layer;
    int (*run)(struct seal *s);
};

/* Runs the table. A failure is reported to the spawner, and answered as -1. */
MUST_CHECK int seal_run(struct seal *s, const struct seal_step *steps, size_t count);

/* Tells the spawner; `step` may be NULL. */
int seal_report(struct seal *s, enum seal_event event, int error, int layer, const char *step);

int seal_step_born(struct seal *s); /* says so, and by that tells our pid */
int seal_step_cgroup(struct seal *s);
int seal_step_namespaces(struct seal *s);
int seal_step_cgroup_ns(struct seal *s);
int seal_step_session(struct seal *s);
int seal_step_network(struct seal *s);
int seal_step_network_figures(struct seal *s);
int seal_step_hostname(struct seal *s);
int seal_step_loopback(struct seal *s);
int seal_raise_loopback(void); /* of the namespace that we are in */
int seal_step_no_core(struct seal *s);
int seal_step_rlimits(struct seal *s);
int seal_step_user_ns(struct seal *s); /* asks the spawner for the maps */
int seal_step_id_maps(struct seal *s); /* waits for them */
int seal_step_ids(struct seal *s);
int seal_step_user_limits(struct seal *s); /* in its own user namespace, with its own uid */
int seal_step_caps(struct seal *s);
int seal_step_no_new_privs(struct seal *s);
int seal_step_landlock(struct seal *s);
int seal_step_oom_score(struct seal *s);
int seal_step_parent_death(struct seal *s);
int seal_step_fds(struct seal *s);
int seal_step_seccomp(struct seal *s);

/* Waits for the mounts of seal_give_root(): the image's where `has_image`, and the storage's. The
 * one that is not wanted is -1. */
int seal_take_root(struct seal *s, struct rootfs *root);
