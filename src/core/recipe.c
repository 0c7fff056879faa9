/* recipe.c - a runner becomes a session's template */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/recipe.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#include "base/fd.h"
#include "base/memory.h"

#define KERNEL_TEXT_MAX (4 * MIB)
#define ALL_SEALS       (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

struct recipe {
    struct session_template template;
    struct runner_kernel kernel;
    const char **env;
    char **own_env; /* copies of the given variables, behind those of the packages */
};

/* --- environment ----------------------------------------------------------------------------- */

static size_t name_len(const char *variable)
{
    return strcspn(variable, "=");
}

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

static size_t count_of(char *const *list)
{
    size_t count = 0;
    while (list && list[count])
        count++;
    return count;
}

int recipe_env(const char ***out, const struct runner *runner, const struct packages *packages,
               char *const *given, struct error *err)
{
    static const struct runner_words none;
    const struct runner_words *of_packages = packages ? &packages->installer.env : &none;
    static const char *const common[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp",
                                         "LANG=C.UTF-8"};
    size_t count = 0, given_count = count_of(given);
    scoped_free const char **env = xcalloc(
        ARRAY_LEN(common) + runner->env.count + of_packages->count + given_count + 1, sizeof(*env));
    for (size_t i = 0; i < ARRAY_LEN(common); i++)
        set_env(env, &count, common[i]);
    for (size_t i = 0; i < runner->env.count; i++)
        set_env(env, &count, runner->env.items[i]);
    for (size_t i = 0; i < of_packages->count; i++)
        set_env(env, &count, of_packages->items[i]);
    for (size_t i = 0; i < given_count; i++) {
        if (!strchr(given[i], '=') || given[i][0] == '=')
            return error_set(err, ERROR_INVALID, "'%s' is not NAME=VALUE", given[i]);
        set_env(env, &count, given[i]);
    }
    *out = take_ptr(&env);
    return 0;
}

/* What the packages say first, so that the given ones win. */
static char **copy_lists(const struct packages *packages, char *const *given)
{
    size_t count = 0, packages_count = packages ? packages->installer.env.count : 0;
    char **copy = xcalloc(packages_count + count_of(given) + 1, sizeof(*copy));
    for (size_t i = 0; i < packages_count; i++)
        copy[count++] = xstrdup(packages->installer.env.items[i]);
    for (; given && *given; given++)
        copy[count++] = xstrdup(*given);
    return copy;
}

/* --- the template ---------------------------------------------------------------------------- */

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
static void open_copier(struct session_template *t, const char *path)
{
    scoped_fd int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
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

int recipe_open(struct recipe **out, const struct recipe_order *o, struct error *err)
{
    scoped(recipe) struct recipe *r = xcalloc(1, sizeof(*r));
    struct session_template *t = &r->template;
    t->kernel_fd = t->copier_fd = -1;
    r->own_env = copy_lists(o->packages, o->env);
    if (runner_find_kernel(&r->kernel, o->runner, o->recipes_dir, err) < 0 ||
        recipe_env(&r->env, o->runner, NULL, r->own_env, err) < 0)
        return -1;
    if (r->kernel.text && copy_text(&t->kernel_fd, r->kernel.text, err) < 0)
        return -1;
    open_copier(t, o->copier);
    memcpy(t->image, o->runner->digest, sizeof(t->image));
    t->packages = o->packages;
    t->builder = o->builder;
    t->argv = (const char *const *)r->kernel.command.items;
    t->env = r->env;
    t->is_plain = r->kernel.is_plain;
    t->limits = o->limits;
    t->allow_degraded = o->allow_degraded;
    *out = take_ptr(&r);
    return 0;
}

void recipe_free(struct recipe *r)
{
    if (!r)
        return;
    scoped_close_fd(&r->template.kernel_fd);
    scoped_close_fd(&r->template.copier_fd);
    runner_kernel_release(&r->kernel);
    free(r->env);
    for (char **variable = r->own_env; variable && *variable; variable++)
        free(*variable);
    free(r->own_env);
    free(r);
}

struct session_template *recipe_template(struct recipe *r)
{
    return &r->template;
}
