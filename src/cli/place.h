/* place.h - what the configuration and a runner make of a sandbox */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"
#include "core/recipe.h"

/* Lifetime is left 0. May lower a disk limit that nobody asked for. */
MUST_CHECK int place_limits(struct spawn_limits *out, struct cli *cli, struct error *err);

/* recipe_env() with the variables of --env among those given. */
MUST_CHECK int place_env(const char ***out, const struct runner *runner,
                         const struct packages *packages, char *const *given, struct error *err);

/* For sessions of the runner's language, which is borrowed and must outlive it. */
MUST_CHECK int place_open(struct recipe **out, struct cli *cli, const struct runner *runner,
                          const struct option_list *env, struct error *err);
