/* stage.h - time and the spawner, played by a test
 *
 * The functions of the spawner's client that core calls are these when a test is linked with them,
 * and timers and the clock are wrapped: time passes when the test says so, and an answer comes when
 * it gives one. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/loop.h"
#include "runtime/spawner_client.h"

#define STAGE_ASKS_MAX 32

/* What was asked and not answered yet, oldest first. Zeroed: nothing. */
struct spawner_client {
    struct {
        struct spawn_message m;
        spawner_reply_fn reply;
        void *ctx;
    } asks[STAGE_ASKS_MAX];
    size_t count;
    const struct spawn_stats *counters; /* that can be read without asking; NULL: none */
};

void stage_begin(void);      /* of each test */
bool stage_has_timers(void); /* that nobody has freed */

/* Lets the loop see everything that is there, and wait for nothing. */
void stage_settle(struct loop *loop);
void stage_advance(struct loop *loop, uint64_t ms);

/* The oldest open question of that verb is answered; `m` NULL: refused. The fds are taken. */
void stage_reply(struct spawner_client *c, enum spawn_verb verb, struct spawn_message *m,
                 const int *given, size_t given_count);
bool stage_is_asked(const struct spawner_client *c, enum spawn_verb verb);
