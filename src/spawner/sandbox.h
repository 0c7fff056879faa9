/* sandbox.h - one sandbox as the spawner keeps it, from the clone to the last trace
 *
 * SEALING -> LIVE -> ENDING -> gone. Every path out goes through sandbox_try_remove(), which wants
 * its pid 1 reaped, removes the cgroup and frees the slot, in that order. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "box/seal.h"
#include "spawner/host.h"
#include "spawner/keep.h"
#include "spawner/spare_group.h"

enum sandbox_state {
    SANDBOX_SEALING,
    SANDBOX_LIVE,
    SANDBOX_OVER, /* pid 1 is reaped; cgroup and slot are kept for the last look at the counters */
    SANDBOX_ENDING, /* to be removed */
};

#define SANDBOX_NETS 8 /* as many wait for another use */

struct sandbox {
    struct sandbox *next, **back, *next_by_id; /* the roster's, as these two */
    bool is_resting, is_watched;
    uint64_t id;
    enum sandbox_state state;
    unsigned slot;
    const struct cgroup_tree *tree; /* in which its group stands */
    struct cgroup cgroup;
    struct cgroup_tree nest; /* of a shell: where it and the sandboxes of its zygote stand */
    struct sandbox *shell;   /* of the zygote that makes it, or NULL */
    uint64_t brood;          /* with whose other sandboxes it had its memory in common, or 0 */
    unsigned made_count;     /* of a shell: sandboxes that still live in its pid namespace */
    unsigned busy_count;     /* of a shell: those that its zygote is still working on */
    struct netns net;        /* its network namespace: one that was used before, while it is hot,
                              * and any from its end on */
    struct netns nets[SANDBOX_NETS]; /* of a shell: such of sandboxes that are gone */
    unsigned net_count;
    struct spare_groups groups; /* of a shell: likewise */
    bool was_killed;            /* by its group: nobody else can have that any more */
    bool may_renew;             /* when it is over, the next one can */
    bool has_door;              /* its network namespace was more than empty */
    bool may_lend;              /* its network namespace, when it is over, if that is as new */
    struct seal_plan plan;
    struct rootfs root; /* the storage to the end, the others until they are handed over */
    struct package_layer *packages; /* that it has mounted, or NULL */
    struct seal_child child;
    bool is_reaped;
    bool is_uncounted; /* made by SPAWN_UNCOUNTED */
    bool is_held;      /* it is over, and its group stays for what its forks share with it */
    uint32_t layers;
    int control_fd; /* the host's end: goes to the client, and a copy stays */
    int channel_fd; /* the host's end of the channel to a kernel; goes to the client */
    int64_t deadline_ns;
    int64_t seal_limit_ns;
    int64_t seal_deadline_ns; /* for the zygote that makes it */
    bool is_late;             /* that is over, whatever is heard from it now */
    bool lifetime_over;
    bool killed_for_memory;     /* by the watch that stands in for a memory cgroup */
    uint64_t memory_seen_bytes; /* its highest sum */
    uint64_t baseline_cpu_us;   /* when it was sealed */
    struct spawn_stats last;    /* when it was over */
    uint32_t destroy_serial;    /* 0: nobody waits for the end */
    struct keep keep;           /* what its client wants to find again */
};

/* Checks the request, makes everything, clones. The sandbox is SEALING then. On failure *failure
 * says why and nothing is left. */
MUST_CHECK int sandbox_create(struct sandbox **out, struct host *host, const struct spawn_create *r,
                              struct spawn_failure *failure);

/* The place in which a zygote lives: a sandbox without storage, whose pid 1 keeps the pid namespace
 * of all that the zygote makes. */
MUST_CHECK int sandbox_create_shell(struct sandbox **out, struct host *host,
                                    const struct spawn_create *r, struct spawn_failure *failure);

/* Has the zygote behind `zygote_fd` make it, which lives in `shell`. It seals itself and waits. */
MUST_CHECK int sandbox_prepare_warm(struct sandbox **out, struct host *host,
                                    const struct spawn_create *r, struct sandbox *shell,
                                    int zygote_fd, struct spawn_failure *failure);

/* Somebody wants it: it gets its id, its life begins. */
MUST_CHECK int sandbox_start_warm(struct sandbox *sb, struct host *host,
                                  struct spawn_failure *failure);

bool sandbox_wants_packages(const struct spawn_create *r);

/* Something came from the sealing child. Answers -1 with *failure when the seal failed: then the
 * sandbox is ENDING. It is LIVE when it worked. */
MUST_CHECK int sandbox_on_report(struct sandbox *sb, struct discard *discard,
                                 struct spawn_failure *failure);

/* Whether its next step is a zygote's, which has until seal_deadline_ns for it. */
bool sandbox_waits_for_zygote(const struct sandbox *sb);

/* From where the next news of it will come, and whether that is a report. */
int sandbox_get_poll_fd(const struct sandbox *sb, bool *is_report);

/* To be removed, whatever it does now. */
void sandbox_end(struct sandbox *sb);

/* What it used so far was the seal's, not the tenant's. */
void sandbox_set_baseline(struct sandbox *sb);

struct spawn_sealed sandbox_sealed(const struct sandbox *sb); /* by what, and for whom */

void sandbox_kill(struct sandbox *sb);

/* Only of one that lives. */
MUST_CHECK int sandbox_freeze(struct sandbox *sb, bool is_frozen, struct spawn_failure *failure);

/* A socket that listens in its network namespace, which from now on nobody else will have. *door is
 * owned by the caller. Only of one that lives. */
MUST_CHECK int sandbox_open_door(struct sandbox *sb, int *door, struct spawn_failure *failure);

/* pid 1 has ended (its pidfd says so). */
void sandbox_on_exit(struct sandbox *sb);

void sandbox_read_stats(struct sandbox *sb, struct spawn_stats *out);

/* Lets go of all but its group and its slot; it must be reaped. */
void sandbox_empty(struct sandbox *sb, struct host *host);

/* Removes what a shell keeps for the next ones, if they have not come in time. */
void sandbox_expire_groups(struct sandbox *shell, struct host *host, int64_t now);

/* One try to remove what is left; true when all of it is gone and `sb` was freed. */
bool sandbox_try_remove(struct sandbox *sb, struct host *host);
