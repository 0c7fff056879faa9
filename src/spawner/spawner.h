/* spawner.h - all that the privileged program keeps, and how its parts speak of it
 *
 * One thread, one loop (loop.c): it polls the client, whose verbs are served in verbs.c, and the
 * sandboxes and zygotes, whose news are told to the client in news.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <poll.h>

#include "base/fd.h"
#include "base/log.h"
#include "spawner/apart.h"
#include "spawner/client_group.h"
#include "spawner/host.h"
#include "spawner/layer_seal.h"
#include "spawner/log_writer.h"
#include "spawner/proxy.h"
#include "spawner/roster.h"
#include "spawner/serve.h"
#include "spawner/zygote.h"

enum phase { PHASE_NEW = 1 << 0, PHASE_READY = 1 << 1 };

struct spawner {
    struct host host;
    struct error start_error; /* told as the answer to hello */
    bool is_broken;
    unsigned phase;
    bool is_stopping;
    bool has_stopped; /* everything was told to end, once at least */
    bool has_swept;
    int client_fd;   /* -1: there is none now */
    int lifeline_fd; /* -1: there is none, or it has ended */
    struct log_writer log_writer;
    struct log log;
    struct log_loss log_loss;
    struct starter starter;
    struct serve serve;
    struct client_group client_group; /* of whom it starts */
    struct proxy proxy;
    bool is_alone;   /* there is no client to be had */
    bool is_refused; /* there is, and it said that it cannot begin */
    struct roster roster;
    struct zygote *zygotes;
    size_t zygote_count;
    struct apart *aparts; /* helpers under way */
    size_t apart_count;
    struct layer_seal *layer_seals; /* the same for package layers */
    size_t layer_seal_count;
    struct pollfd *polls; /* grows with the number of busy sandboxes */
    size_t poll_cap;
    struct fd_bag bag; /* came with the message being served, and is given away behind it */
};

/* --- answering, in answer.c ------------------------------------------------------------------ */

/* There is no client any more: the end, unless another one may come. */
void answer_lose_client(struct spawner *s, bool must_die);

void answer_send(struct spawner *s, struct spawn_message *m, const int *fds, size_t fd_count);
void answer_failure(struct spawner *s, uint32_t serial, enum spawn_verb verb,
                    const struct spawn_failure *failure);
struct spawn_message answer_reply_to(uint32_t serial, enum spawn_verb verb, uint64_t sandbox);

/* --- what the client wants, in verbs.c ------------------------------------------------------- */

/* One message, or its end. */
void verbs_on_client(struct spawner *s);

/* To be removed; NULL is none. */
void verbs_end_spare(struct spawner *s, struct sandbox *spare);

/* --- what sandboxes and zygotes do, in news.c ------------------------------------------------ */

void news_on_report(struct spawner *s, struct sandbox *sb);
void news_on_exit(struct spawner *s, struct sandbox *sb);
void news_on_zygote(struct spawner *s, struct zygote *z, const struct pollfd *polls);
void news_on_apart(struct spawner *s, struct apart **at);
void news_on_layer_seal(struct spawner *s, struct layer_seal **at);
void news_on_gone(void *spawner, uint64_t id, uint32_t serial, const struct spawn_stats *last);
void news_tend_zygotes(struct spawner *s);
void news_check_deadlines(struct spawner *s);

/* --- loop.c ---------------------------------------------------------------------------------- */

/* Waits for what comes next, and does what it asks for. */
void loop_turn(struct spawner *s, int signal_fd);
