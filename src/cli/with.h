/* with.h - the packages of a command: read from its options, and installed before it goes on */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"
#include "core/builder.h"

struct with;

/* Everything is borrowed until with_free(). */
struct with_order {
    struct cli *cli;
    struct loop *loop;
    struct spawner_client *spawner;
    const struct runner *runner;
    const struct option_list *names; /* of --with */
    const char *file;                /* of --with-requirements, or NULL */
    builder_fn done;
    void *ctx;
};

MUST_CHECK int with_open(struct with **out, const struct with_order *order, struct error *err);
void with_free(struct with *with); /* when the loop has ended */

const struct packages *with_packages(const struct with *with); /* borrowed */

/* Has them installed, with progress on a terminal; `done` comes once, later. */
MUST_CHECK int with_begin(struct with *with, struct error *err);
void with_on_event(struct with *with, const struct spawn_message *m);
