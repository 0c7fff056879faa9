/* spawn.h - the protocol between an unprivileged client and cove-spawner
 *
 * A SOCK_SEQPACKET pair carries messages of exactly SPAWN_MESSAGE_BYTES, numbered by the client;
 * the answer to request n is the message with serial n and SPAWN_REPLY set. The spawner also sends
 * SPAWN_SEALED and SPAWN_EXITED on its own, with serial 0. No message holds a path or any text that
 * the spawner would have to parse: an image is named by its digest, a sandbox or a zygote by the
 * number that its creation answered. Anything unexpected (size, verb, phase, fds, flags) ends the
 * connection. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "wire/layer.h"

#define SPAWN_VERSION       4
#define SPAWN_MESSAGE_BYTES 256
#define SPAWN_BODY_BYTES    (SPAWN_MESSAGE_BYTES - 24)
#define SPAWN_DIGEST_BYTES  32
#define SPAWN_CLIENT_FD     3  /* where cove-spawner finds its end of the pair */
#define SPAWN_REFUSAL       78 /* exit status of a started client: another start would not help */
#define SPAWN_ZYGOTE_FDS    3  /* that come with a SPAWN_ZYGOTE */
#define SPAWN_LAYER_FDS     1  /* that come with a SPAWN_SEAL_LAYER */
#define SPAWN_LABEL_BYTES   16
#define SPAWN_NOTE_BYTES    96
#define SPAWN_KEEP_SLOTS    3
#define SPAWN_KEEP_FDS      4 /* most in one slot */
#define SPAWN_TAKE_FDS      (1 + SPAWN_KEEP_SLOTS * SPAWN_KEEP_FDS)

enum spawn_verb {
    SPAWN_HELLO = 1, /* who is there; must come first */
    SPAWN_CREATE, /* make a sandbox; the answer carries the control socket to its cove-init. What is
                   * sent there is read only by a sealed init; SPAWN_SEALED follows. Made by a
                   * zygote, a second fd is the channel to the kernel that runs in it */
    SPAWN_STATS,  /* what the sandbox has used so far */
    SPAWN_KILL,   /* kill everything in the sandbox, at once; its end follows as SPAWN_EXITED */
    SPAWN_DESTROY, /* kill, and remove every trace; answered when all is gone, with last stats */
    SPAWN_PROBE,   /* try each layer once */
    SPAWN_PING,
    SPAWN_EXITED, /* from the spawner: pid 1 of the sandbox has ended */
    SPAWN_SEALED, /* from the spawner: the sandbox is sealed, or with SPAWN_FAILED gone and why; of
                   * a zygote: it is warm and can be named in a create */
    SPAWN_ZYGOTE, /* start a warm interpreter of an image; limits are its own. Fds: the kernel's
                   * text, the zygote's configuration (neither is read by the spawner), and its
                   * standard error. SPAWN_SEALED follows; SPAWN_DESTROY ends it, and the sandboxes
                   * it made live on */
    SPAWN_FREEZE, /* stop every process of the sandbox where it stands; a kill works all the same */
    SPAWN_THAW,   /* let them go on */
    SPAWN_CULL,   /* kill every process of the sandbox but its pid 1 and those named; answered when
                   * none of them can do anything any more. Faster than pid 1 itself, which has to
                   * share the sandbox's time with what it kills. What was frozen is thawed */
    /* For a client that the spawner starts again when it dies; refused to any other. */
    SPAWN_KEEP,  /* label the sandbox, and hold copies of these fds (pipes, unix sockets, memory
                  * files) in one of its slots, in place of those before; they are never read. A
                  * note that comes with it takes the place of the one before */
    SPAWN_LIST,  /* the sandbox or zygote with the lowest number above `after`; 0: there is none */
    SPAWN_TAKE,  /* the control socket of a sandbox and copies of all that is kept for it */
    SPAWN_BROOD, /* copy a zygote; the copy's number is the answer, and it is named like a zygote.
                  * What it makes has one memory in common: the first sandbox's kernel runs as soon
                  * as the brood is destroyed, the others are heirs that can become forks of it.
                  * SPAWN_SEALED follows */
    SPAWN_APART, /* of a brood's sandbox: does no process of it share memory with one of the others?
                  * A failure says that it does, or that nobody can tell */
    SPAWN_PROXY, /* start cove-egress; the answer carries the link to it, and the one before ends.
                  * No sandbox has a way out yet */
    SPAWN_EGRESS, /* of a sealed sandbox: the answer carries a socket that listens on 127.0.0.1 in
                   * its network namespace, at EGRESS_PORT. Who holds it decides who is heard */
    SPAWN_SEAL_LAYER, /* what the workspace of a sandbox holds becomes the package layer with this
                       * digest; its processes must be over, or are killed. Fd: a memory file that
                       * is kept beside the layer, unread. One that exists already stays as it is */
    SPAWN_FIND_LAYER, /* is there a package layer with this digest? */
    SPAWN_PULSE,      /* the client's loop has turned. From the first one on a client that the
                       * spawner has started is replaced when none comes for long */
    SPAWN_VERB_COUNT
};

#define SPAWN_PULSE_MS 2000 /* between two of them */

enum spawn_flags {
    SPAWN_REPLY = 1 << 0,
    SPAWN_FAILED = 1 << 1, /* the body is a struct spawn_failure */
};

struct spawn_hello {
    uint32_t version;
};

/* Counters of a sandbox, each a file of a group. */
enum spawn_meter { SPAWN_METER_MEMORY, SPAWN_METER_PIDS, SPAWN_METER_CPU, SPAWN_METER_COUNT };

struct spawn_hello_reply {
    uint32_t version;
    uint32_t is_rootless;
    uint32_t uid_first; /* host uids that sandboxes use; equal when they share the caller's */
    uint32_t uid_count;
    /* By enum spawn_meter: of cgroups of version 1 or 2. With it come as many fds, of the
     * directories in which groups are made, so that a client can read counters itself. All 0: this
     * host does not have all of them, and none comes. */
    uint8_t meters[SPAWN_METER_COUNT];
};

struct spawn_limits {
    uint64_t memory_bytes;
    uint64_t disk_bytes; /* workspace, /tmp and /dev/shm together */
    uint64_t inodes;
    uint32_t cpu_milli; /* thousandths of a core */
    uint32_t pids;
    uint32_t open_files;
    uint32_t lifetime_ms; /* the spawner kills the sandbox after this, whatever the client does */
};

enum spawn_create_flags {
    SPAWN_ALLOW_DEGRADED = 1 << 0, /* layers that are NEEDED may be missing */
    SPAWN_UNCOUNTED = 1 << 1, /* nobody will ask for its CPU time, nor freeze it: cgroup version 1
                               * then needs fewer groups. Not for what a zygote makes */
};

struct spawn_create {
    uint8_t image[SPAWN_DIGEST_BYTES];
    struct spawn_limits limits;
    uint32_t flags;
    uint32_t reserved;                    /* 0 */
    uint64_t zygote;                      /* that is to make it; 0: none, started cold */
    uint8_t packages[SPAWN_DIGEST_BYTES]; /* the layer that it finds at /packages; all zero: none */
};

/* Of a seal and of a find. */
struct spawn_layer {
    uint8_t digest[SPAWN_DIGEST_BYTES];
};

struct spawn_layer_found {
    uint8_t digest[SPAWN_DIGEST_BYTES];
    uint8_t is_unwanted; /* somebody waits for its last user, to remove it */
};

#define SPAWN_CULL_MAX 56

struct spawn_cull {
    uint32_t count;
    int32_t keep[SPAWN_CULL_MAX]; /* pids inside; behind `count` of them, all zero */
};

struct spawn_brood {
    uint64_t zygote;
};

struct spawn_sealed {
    uint32_t layers; /* bit set of enum layer: what seals this sandbox */
    uint32_t host_uid;
    uint32_t sandbox_uid; /* the uid that code inside sees */
    /* Its group: `slot`, in trees of version 2 below `nest` unless that is SPAWN_NO_NEST. */
    uint32_t slot, nest;
    uint32_t reserved;    /* 0 */
    uint64_t seal_cpu_us; /* what its group had used by then */
};

#define SPAWN_NO_NEST UINT32_MAX

/* The zero of every counter is the moment in which the sandbox was sealed. */
struct spawn_stats {
    uint64_t cpu_us;
    uint64_t memory_peak_bytes;
    uint64_t disk_used_bytes;
    uint64_t disk_free_bytes;
    uint64_t inodes_free;
    uint32_t oom_kills;
    uint32_t pids_refused; /* how often a new process met the limit */
    uint32_t pids_now;
    uint32_t is_over; /* pid 1 has ended */
    uint32_t lifetime_over;
};

/* Where the groups of sandboxes are. */
enum spawn_place {
    SPAWN_PLACE_NONE,
    SPAWN_PLACE_OWN,   /* in the group that the spawner was started in */
    SPAWN_PLACE_ABOVE, /* that one will not do: others stand in it */
    SPAWN_PLACE_NAMED, /* the operator said where */
};

#define SPAWN_PATH_BYTES 160

enum spawn_probe_state { SPAWN_PROBE_MISSING, SPAWN_PROBE_HOLDS, SPAWN_PROBE_WEAKER };

struct spawn_probe_reply {
    struct {
        uint8_t state;
        uint8_t sys_errno;
    } layers[LAYER_COUNT];
    uint8_t landlock_abi;
    uint8_t cgroup_version; /* 0 none, 1, 2; 3 = version 1 with an empty version 2 tree */
    uint8_t cgroup_place;   /* enum spawn_place */
    char cgroup_path[SPAWN_PATH_BYTES]; /* as far as it fits, with a 0 at its end */
};

#define SPAWN_STEP_BYTES 96

struct spawn_failure {
    int32_t code; /* enum error_code */
    int32_t sys_errno;
    int32_t layer;               /* the layer that could not be had, or -1 */
    char step[SPAWN_STEP_BYTES]; /* a constant text of the spawner's: "mount /proc" */
};

struct spawn_keep {
    uint32_t slot;
    uint32_t count;                   /* of the fds that come with it; 0: the slot is empty again */
    uint8_t label[SPAWN_LABEL_BYTES]; /* what the client knows it by; all zero: nothing */
    uint32_t has_note;                /* 0: the note stays as it was */
    uint8_t note[SPAWN_NOTE_BYTES];   /* any bytes, for the next client alone */
};

struct spawn_list {
    uint64_t after;
};

enum spawn_entry_state { SPAWN_IS_SEALING, SPAWN_IS_LIVE, SPAWN_IS_OVER, SPAWN_IS_ZYGOTE };

/* The answer to a list and to a take. The fds of a take: the control socket, then those of slot 0,
 * of slot 1, of slot 2. */
struct spawn_entry {
    uint32_t state; /* enum spawn_entry_state */
    uint32_t counts[SPAWN_KEEP_SLOTS];
    uint8_t label[SPAWN_LABEL_BYTES];
    uint8_t note[SPAWN_NOTE_BYTES];
    struct spawn_sealed sealed;
    uint32_t left_ms;         /* of its lifetime */
    uint32_t reserved;        /* 0 */
    struct spawn_stats stats; /* of one that is over: its last */
};

struct spawn_message {
    uint32_t serial;
    uint16_t verb;
    uint16_t flags;
    uint64_t sandbox;  /* 0 where the verb names none */
    uint64_t reserved; /* 0 */
    union {
        uint8_t bytes[SPAWN_BODY_BYTES];
        struct spawn_hello hello;
        struct spawn_hello_reply hello_reply;
        struct spawn_create create;
        struct spawn_cull cull;
        struct spawn_brood brood;
        struct spawn_layer layer;
        struct spawn_layer_found layer_found;
        struct spawn_sealed sealed;
        struct spawn_stats stats;
        struct spawn_probe_reply probe;
        struct spawn_failure failure;
        struct spawn_keep keep;
        struct spawn_list list;
        struct spawn_entry entry;
    };
};

_Static_assert(sizeof(struct spawn_message) == SPAWN_MESSAGE_BYTES, "fixed size on the wire");
