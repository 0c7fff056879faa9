/* recipe.h - how the sessions of one kind start: a runner's kernel, its environment, its limits
 *
 * Put together once; what goes into sandboxes from here are copies in memory, no files of the
 * host's. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/packages.h"
#include "core/session.h"
#include "image/runner.h"

/* Everything is borrowed for the call, but for the runner: it must outlive the recipe. */
struct recipe_order {
    const struct runner *runner;
    const char *recipes_dir; /* where the kernels of Cove's own languages are */
    const char *copier;      /* path of what helps kernels to copy themselves; may be missing */
    char *const *env;        /* NAME=VALUE, NULL-terminated; NULL: none */
    const struct packages *packages; /* that its sandboxes have; NULL: none; as the runner */
    struct builder *builder;         /* that makes them */
    struct spawn_limits limits;
    bool allow_degraded;
};

struct recipe;

/* ERROR_NOT_FOUND: the language has no kernel, and so no sessions. */
MUST_CHECK int recipe_open(struct recipe **out, const struct recipe_order *order,
                           struct error *err);
void recipe_free(struct recipe *recipe);
SCOPED_DEFINE(recipe)

struct session_template *recipe_template(struct recipe *recipe); /* borrowed; may be adjusted */

/* What every program of a runner finds: the usual variables, the runner's, those of its packages
 * (NULL: none), the given ones; later ones replace earlier ones of the same name. The array is
 * owned by the caller, its strings are borrowed. ERROR_INVALID: one is not NAME=VALUE. */
MUST_CHECK int recipe_env(const char ***out, const struct runner *runner,
                          const struct packages *packages, char *const *given, struct error *err);
