/* place.h - what the configuration and a runner make of a sandbox: its limits, its environment, and
 * how a session in it starts */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"
#include "core/session.h"
#include "image/runner.h"

/* Lifetime is left 0. May lower a disk limit that nobody asked for. */
MUST_CHECK int place_limits(struct spawn_limits *out, struct cli *cli, struct error *err);

/* The runner's variables and the given ones (NAME=VALUE), NULL-terminated; the array is owned by
 * the caller, its strings are borrowed. */
MUST_CHECK int place_env(const char ***out, const struct runner *runner,
                         const struct option_list *given, struct error *err);

struct place;

/* For sessions of the runner's language; everything is borrowed and must outlive it. */
MUST_CHECK int place_open(struct place **out, struct cli *cli, const struct runner *runner,
                          const struct option_list *env, struct error *err);
void place_free(struct place *place);
SCOPED_DEFINE(place)

struct session_template *place_template(struct place *place); /* borrowed; may be adjusted */
