/* zygote.h - one zygote as the spawner keeps it
 *
 * A shell (see sandbox.h), and beside its pid 1 a confined python that forks into sandboxes. When
 * the python ends, by itself or because it shall, the shell stays until the last sandbox that it
 * made is gone: those live in the shell's pid namespace. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <poll.h>
#include <stdbool.h>

#include "spawner/sandbox.h"

#define ZYGOTE_POLLS 2 /* fds that one zygote waits for */

enum zygote_state {
    ZYGOTE_SHELL,    /* its shell seals itself */
    ZYGOTE_STARTING, /* python starts, imports, warms up */
    ZYGOTE_READY,
    ZYGOTE_ENDING, /* takes no more requests */
};

/* What the client should be told. */
enum zygote_news { ZYGOTE_NO_NEWS, ZYGOTE_IS_READY, ZYGOTE_FAILED, ZYGOTE_EXITED };

struct zygote {
    struct zygote *next;
    uint64_t id;
    enum zygote_state state;
    uint8_t image[SPAWN_DIGEST_BYTES];
    struct sandbox *shell;
    bool is_brood; /* a copy of a zygote, in whose shell it lives */
    struct seal_child process;
    bool is_reaped;            /* also before it was born */
    int fds[SPAWN_ZYGOTE_FDS]; /* the client's, until it has started */
    struct discard *discard;   /* where they go then */
    int64_t deadline_ns;       /* for being ready, then of its life */
    uint32_t destroy_serial;   /* 0: nobody waits for the end */
    struct sandbox *spare;     /* sealed in advance, for one who asks the same as the last; owned */
    struct spawn_create last;  /* that create; all zero: none yet */
};

/* On success the fds are taken, otherwise they stay the caller's and *failure says why. */
MUST_CHECK int zygote_start(struct zygote **out, struct host *host, const struct spawn_create *r,
                            const int fds[SPAWN_ZYGOTE_FDS], struct spawn_failure *failure);

/* Has a zygote copy itself. What the copy makes shares one memory; see box/seal_warm.h. */
MUST_CHECK int zygote_start_brood(struct zygote **out, struct zygote *from, struct host *host,
                                  struct spawn_failure *failure);

/* Fills the fds to wait for; -1: nothing. */
void zygote_get_polls(const struct zygote *z, struct pollfd polls[ZYGOTE_POLLS]);

/* One of them has something. *failure is filled with ZYGOTE_FAILED. */
enum zygote_news zygote_on_poll(struct zygote *z, struct host *host,
                                const struct pollfd polls[ZYGOTE_POLLS],
                                struct spawn_failure *failure);

/* Ends the python; what it has made lives on, but for a spare. */
void zygote_end(struct zygote *z);

/* Makes a sandbox by this zygote. *unfit is a spare that was of no use, or NULL; the caller's. */
MUST_CHECK int zygote_create(struct sandbox **out, struct zygote *z, struct host *host,
                             const struct spawn_create *r, struct sandbox **unfit,
                             struct spawn_failure *failure);

/* Has a spare sandbox made, when it is time for that. */
void zygote_refill(struct zygote *z, struct host *host);

/* The spare of a zygote that ends, or that fits no more; the caller's to remove, or NULL. */
struct sandbox *zygote_take_spare(struct zygote *z);

/* Whether its pid namespace is about to end, which it does when every process in it is reaped. */
bool zygote_is_closing(const struct zygote *z);

/* One try to remove what is left; true when all is gone and `z` was freed. */
bool zygote_try_remove(struct zygote *z, struct host *host);
