/* place.c - from options to limits, environment and kernel */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/place.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#include "base/fd.h"
#include "base/memory.h"

#define KERNEL_TEXT_MAX (4 * MIB)
#define ALL_SEALS       (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
#define COPIER          "cove_checkpoint.so"

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

/* --- environment ----------------------------------------------------------------------------- */

static size_t name_len(const char *variable)
{
    return strcspn(variable, "=");
}

/* A later value replaces an earlier one of the same name. */
static void set_env(const char **env, size_t *count, const char *variable)
{
    size_t len = name_len(variable);
    for (size_t i = 0; i < *count; i++) {
        if (name_len(env[i]) == len && strncmp(env[i], variable, len) == 0) {
            env[i] = variable;
            return;
        }
    }
    env[(*count)++] = variable;
}

int place_env(const char ***out, const struct runner *runner, const struct option_list *given,
              struct error *err)
{
    static const char *const common[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp",
                                         "LANG=C.UTF-8"};
    size_t count = 0;
    scoped_free const char **env =
        xcalloc(ARRAY_LEN(common) + runner->env.count + given->count + 1, sizeof(*env));
    for (size_t i = 0; i < ARRAY_LEN(common); i++)
        set_env(env, &count, common[i]);
    for (size_t i = 0; i < runner->env.count; i++)
        set_env(env, &count, runner->env.items[i]);
    for (size_t i = 0; i < given->count; i++) {
        if (!strchr(given->items[i], '=') || given->items[i][0] == '=')
            return error_set(err, ERROR_INVALID, "--env '%s' is not NAME=VALUE", given->items[i]);
        set_env(env, &count, given->items[i]);
    }
    *out = take_ptr(&env);
    return 0;
}

/* --- a session's template -------------------------------------------------------------------- */

struct place {
    struct session_template template;
    struct runner_kernel kernel;
    const char **env;
};

/* A sealed copy in memory: what goes into a sandbox is no file of the host's. */
static int copy_text(int *out, const char *path, struct error *err)
{
    scoped_free char *text = NULL;
    if (fd_read_file(path, &text, KERNEL_TEXT_MAX, err) < 0)
        return error_wrap(err, "read the kernel");
    scoped_fd int fd = -1;
    if (fd_make_file(&fd, "kernel", text, strlen(text), err) < 0)
        return -1;
    if (fcntl(fd, F_ADD_SEALS, ALL_SEALS) < 0)
        return error_sys(err, "seal the kernel's text");
    *out = take_fd(&fd);
    return 0;
}

/* A build without it has no checkpoints, and says so when one is asked for. */
static void open_copier(struct session_template *t, const struct cli *cli)
{
    scoped_free char *path = cli_program_path(cli, COPIER);
    scoped_fd int file = open(path, O_RDONLY | O_CLOEXEC);
    scoped_fd int copy = memfd_create("copier", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 || copy < 0)
        return;
    ssize_t n;
    do
        n = sendfile(copy, file, NULL, KERNEL_TEXT_MAX);
    while (n > 0);
    if (n == 0 && fcntl(copy, F_ADD_SEALS, ALL_SEALS) == 0)
        t->copier_fd = take_fd(&copy);
}

int place_open(struct place **out, struct cli *cli, const struct runner *runner,
               const struct option_list *env, struct error *err)
{
    scoped(place) struct place *place = xcalloc(1, sizeof(*place));
    struct session_template *t = &place->template;
    scoped_free char *recipes = cli_recipes_dir(cli);
    t->kernel_fd = t->copier_fd = -1;
    if (runner_find_kernel(&place->kernel, runner, recipes, err) < 0 ||
        place_env(&place->env, runner, env, err) < 0 || place_limits(&t->limits, cli, err) < 0)
        return -1;
    if (place->kernel.text && copy_text(&t->kernel_fd, place->kernel.text, err) < 0)
        return -1;
    open_copier(t, cli);
    memcpy(t->image, runner->digest, sizeof(t->image));
    t->argv = (const char *const *)place->kernel.command.items;
    t->env = place->env;
    t->is_plain = place->kernel.is_plain;
    t->allow_degraded = cli->config.allow_degraded;
    *out = take_ptr(&place);
    return 0;
}

void place_free(struct place *place)
{
    if (!place)
        return;
    scoped_close_fd(&place->template.kernel_fd);
    scoped_close_fd(&place->template.copier_fd);
    runner_kernel_release(&place->kernel);
    free(place->env);
    free(place);
}

struct session_template *place_template(struct place *place)
{
    return &place->template;
}
