/* warm.h - keeps one warm interpreter of a template: new sessions are forked from it
 *
 * It is made anew when it dies (with growing pauses), and from time to time anyway: what it has in
 * memory, the seed of its hashes for one, is shared by all that it made. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "core/session.h"

struct warm;

struct warm_order {
    const struct session_template *template; /* its image, environment and kernel; borrowed */
    const char *const *preload;              /* modules to import before; NULL: none; borrowed */
    uint64_t memory_bytes;                   /* of the interpreter itself */
    uint64_t rotate_ms;                      /* how old one may become; 0: any age */
    void (*changed)(void *ctx);              /* warm_zygote() has */
    void *ctx;
};

MUST_CHECK int warm_open(struct warm **out, struct loop *loop, struct spawner_client *spawner,
                         const struct warm_order *order, struct error *err);
void warm_stop(struct warm *warm); /* ends the interpreter; sessions that it made live on */
void warm_free(struct warm *warm); /* after a stop, or when the spawner answers no more */
SCOPED_DEFINE(warm)

uint64_t warm_zygote(const struct warm *warm);           /* 0: there is none now */
const struct error *warm_error(const struct warm *warm); /* why there is none; msg "" = it starts */

void warm_on_event(struct warm *warm, const struct spawn_message *m);
