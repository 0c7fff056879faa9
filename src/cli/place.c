/* place.c - from options to limits and a recipe */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/place.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/scoped.h"

#define COPIER "cove_checkpoint.so"

/* --- limits ---------------------------------------------------------------------------------- */

/* Files live in memory and are charged there. A disk that nobody asked for shrinks with it. */
static int check_disk(struct cli *cli, struct error *err)
{
    struct config *c = &cli->config;
    uint64_t most = c->memory_bytes / 2;
    if (c->disk_bytes <= most)
        return 0;
    if (!config_is_given(&cli->config_set, "disk")) {
        c->disk_bytes = most;
        return 0;
    }
    error_set(err, ERROR_INVALID, "--disk %" PRIu64 "M is more than half of --memory %" PRIu64 "M",
              (uint64_t)(c->disk_bytes / MIB), (uint64_t)(c->memory_bytes / MIB));
    return error_hint(err, "files live in memory and count there: raise --memory to at least twice "
                           "the disk");
}

int place_limits(struct spawn_limits *out, struct cli *cli, struct error *err)
{
    const struct config *c = &cli->config;
    if (check_disk(cli, err) < 0)
        return -1;
    *out = (struct spawn_limits){
        .memory_bytes = c->memory_bytes,
        .disk_bytes = c->disk_bytes,
        .inodes = c->inodes,
        .cpu_milli = (uint32_t)c->cpus_milli,
        .pids = (uint32_t)c->pids,
        .open_files = (uint32_t)c->open_files,
    };
    return 0;
}

/* --- environment and kernel ------------------------------------------------------------------ */

int place_env(const char ***out, const struct runner *runner, const struct packages *packages,
              char *const *given, struct error *err)
{
    return recipe_env(out, runner, packages, given, err) < 0 ? error_wrap(err, "--env") : 0;
}

int place_open(struct recipe **out, struct cli *cli, const struct runner *runner,
               const struct option_list *env, struct error *err)
{
    scoped_free char *recipes = cli_recipes_dir(cli), *copier = cli_program_path(cli, COPIER);
    scoped_free char **list = xcalloc(env->count + 1, sizeof(*list));
    struct recipe_order order = {.runner = runner,
                                 .recipes_dir = recipes,
                                 .copier = copier,
                                 .env = list,
                                 .allow_degraded = cli->config.allow_degraded};
    for (size_t i = 0; i < env->count; i++)
        list[i] = env->items[i];
    if (place_limits(&order.limits, cli, err) < 0)
        return -1;
    return recipe_open(out, &order, err);
}
