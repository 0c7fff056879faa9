/* job.c - an execution that is asked for: what it needs, put together and freed */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "codec/base64.h"
#include "core/plane_inside.h"
#include "core/tail.h"

#define INPUT_MODE   0644
#define PATH_MAX_LEN 4095
#define TAIL_BYTES   (4 * KIB) /* of what it printed, for who watches it */

bool job_is_path(const char *path)
{
    size_t len = strlen(path);
    if (len == 0 || len > PATH_MAX_LEN || path[0] == '/' || path[len - 1] == '/')
        return false;
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += *at == '/';
        size_t part = strcspn(at, "/");
        if (part == 0 || (part == 1 && at[0] == '.') || (part == 2 && strncmp(at, "..", 2) == 0))
            return false;
        if (!strchr(at, '/'))
            break;
    }
    return true;
}

static int make_input(struct execution_input *out, const struct wish_file *file, size_t index,
                      struct error *err)
{
    scoped_free uint8_t *decoded = NULL;
    const void *data = file->content;
    size_t len = file->content ? strlen(file->content) : 0;
    if (!job_is_path(file->path))
        return error_set(err, ERROR_INVALID,
                         "files[%zu].path: '%.100s' is not a path below the workspace", index,
                         file->path);
    if (!file->content == !file->content_base64)
        return error_set(err, ERROR_INVALID, "files[%zu]: needs either content or content_base64",
                         index);
    if (file->content_base64) {
        size_t encoded = strlen(file->content_base64);
        decoded = xmalloc(BASE64_DECODED_MAX_LEN(encoded) + 1);
        if (!base64_decode(file->content_base64, encoded, decoded, &len))
            return error_set(err, ERROR_INVALID, "files[%zu].content_base64: is not base64", index);
        data = decoded;
    }
    *out = (struct execution_input){
        .fd = -1, .size = len, .mode = INPUT_MODE, .mtime_ns = clock_wall_ns()};
    if (fd_make_file(&out->fd, "input", data ? data : "", len, err) < 0)
        return -1;
    out->path = xstrdup(file->path);
    return 0;
}

static int make_inputs(struct job *j, const struct code_wish *wish, struct error *err)
{
    const struct wish_file *files = wish->files.items;
    j->inputs = xcalloc(wish->files.count + 1, sizeof(*j->inputs));
    for (; j->input_count < wish->files.count; j->input_count++) {
        if (make_input(&j->inputs[j->input_count], &files[j->input_count], j->input_count, err) < 0)
            return -1;
    }
    return 0;
}

/* The session's variables, then those of the execution, which replace them. */
static char **join_env(char *const *base, const struct param_map *own)
{
    size_t count = 0, used = 0;
    while (base && base[count])
        count++;
    char **list = xcalloc(count + own->count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++) {
        size_t len = strcspn(base[i], "="), k = 0;
        while (k < own->count &&
               (strlen(own->names[k]) != len || strncmp(own->names[k], base[i], len) != 0))
            k++;
        if (k == own->count)
            list[used++] = xstrdup(base[i]);
    }
    for (size_t i = 0; i < own->count; i++)
        list[used++] = xasprintf("%s=%s", own->names[i], own->values[i]);
    return list;
}

static int set_timeout(struct job *j, const struct code_wish *wish,
                       const struct template_spec *spec, struct error *err)
{
    const struct plane_order *o = &j->plane->order;
    j->timeout_ms = wish->timeout_ms   ? wish->timeout_ms
                    : spec->timeout_ms ? spec->timeout_ms
                                       : o->timeout_ms;
    if (!o->timeout_max_ms || j->timeout_ms <= o->timeout_max_ms)
        return 0;
    error_set(err, ERROR_INVALID, "timeout: %g s is more than the %g s that are allowed here",
              (double)j->timeout_ms / 1000, (double)o->timeout_max_ms / 1000);
    return error_hint(err, "ask for less, or have the operator raise the limit");
}

static char **copy_args(const struct param_strings *args)
{
    char **list = xcalloc(args->count + 1, sizeof(*list));
    for (size_t i = 0; i < args->count; i++)
        list[i] = xstrdup(args->items[i]);
    return list;
}

/* Whether it is there is seen inside, when the code begins: what runs before it may make it. */
static int set_cwd(struct job *j, const struct code_wish *wish, struct error *err)
{
    if (!wish->cwd)
        return 0;
    bool is_top = strcmp(wish->cwd, ".") == 0;
    if (!is_top && !job_is_path(wish->cwd))
        return error_set(err, ERROR_INVALID, "cwd: '%.100s' is not a path below the workspace",
                         wish->cwd);
    j->cwd = is_top ? xstrdup(GUEST_WORKSPACE) : xasprintf(GUEST_WORKSPACE "/%s", wish->cwd);
    return 0;
}

/* A template may be older than a ceiling that was lowered: what it says is not asked for by who
 * runs code, so it is held to the ceiling without a word. */
static int set_output(struct job *j, const struct code_wish *wish, const struct template_spec *spec,
                      struct error *err)
{
    uint64_t most = j->plane->order.output_bytes;
    uint64_t asked = wish->output_bytes ? wish->output_bytes : MIN(spec->output_bytes, most);
    return template_output(&j->output_bytes, asked, most, err);
}

/* A kernel may know several languages, as Node's does; it is told which when it does. */
static int set_language(struct job *j, const struct catalog_kind *kind, const char *wanted,
                        struct error *err)
{
    const struct catalog *catalog = j->plane->order.catalog;
    const struct runner_list *list = catalog_runners(catalog);
    const char *own = catalog_spec(kind)->language;
    struct error ignored;
    const struct runner *mine = runner_find(list, own, &ignored);
    const struct runner *asked = wanted ? runner_find(list, wanted, err) : mine;
    if (wanted && !asked)
        return error_word(err, "language_not_found");
    if (asked && mine && asked != mine && !catalog_is_same_kernel(catalog, asked, mine))
        return error_set(err, ERROR_INVALID, "language: the session speaks %s, not '%.64s'", own,
                         wanted);
    j->language = xstrdup(asked ? asked->language : own);
    for (size_t i = 0; mine && i < list->count; i++) {
        if (&list->items[i] != mine && strcmp(list->items[i].image, mine->image) == 0)
            j->request.language = j->language;
    }
    return 0;
}

struct job *job_new(struct plane *p, const char *owner, const char *id)
{
    struct job *j = xcalloc(1, sizeof(*j));
    j->plane = p;
    j->owner = xstrdup(owner);
    j->stdin_fd = -1;
    j->created_ns = clock_wall_ns();
    snprintf(j->id, sizeof(j->id), "%s", id);
    map_add(&p->jobs, &j->by_id, j->id);
    return j;
}

int job_fill(struct job *j, const struct code_wish *wish, const struct catalog_kind *kind,
             char *const *env, struct error *err)
{
    if (set_language(j, kind, wish->language, err) < 0 ||
        set_timeout(j, wish, catalog_spec(kind), err) < 0 ||
        set_output(j, wish, catalog_spec(kind), err) < 0 || set_cwd(j, wish, err) < 0 ||
        make_inputs(j, wish, err) < 0)
        return -1;
    if (wish->stdin_text &&
        fd_make_file(&j->stdin_fd, "stdin", wish->stdin_text, strlen(wish->stdin_text), err) < 0)
        return -1;
    j->code = xstrdup(wish->code);
    j->env = join_env(env, &wish->env);
    j->args = copy_args(&wish->args);
    j->is_idempotent = wish->is_idempotent;
    j->mode = (enum wish_mode)wish->mode;
    if (j->mode != WISH_SYNC)
        j->journal = journal_new(MAX(j->output_bytes, JOURNAL_MIN));
    if (wish->is_watched)
        j->tail = tail_new(TAIL_BYTES);
    return 0;
}

static void free_list(char **list)
{
    for (char **item = list; item && *item; item++)
        free(*item);
    free(list);
}

void job_free(struct job *j)
{
    if (j->live && j->live->running == j)
        j->live->running = NULL;
    map_remove(&j->plane->jobs, &j->by_id);
    loop_timer_free(j->timer);
    session_free(j->session);
    if (j->kind)
        catalog_let_go(j->kind);
    if (j->journal)
        journal_drop(j->journal);
    tail_free(j->tail);
    for (size_t i = 0; i < j->input_count; i++) {
        free(j->inputs[i].path);
        scoped_close_fd(&j->inputs[i].fd);
    }
    free_list(j->env);
    free_list(j->args);
    haul_release(&j->haul);
    scoped_close_fd(&j->stdin_fd);
    network_release(&j->network);
    vault_free(j->vault);
    free(j->inputs);
    free(j->code);
    free(j->cwd);
    free(j->request_text);
    free(j->document);
    free(j->answer);
    free(j->language);
    free(j->session_id);
    free(j->owner);
    free(j);
}
