/* with.c - options to packages, and what the installer says to the terminal */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/with.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "cli/term.h"
#include "core/server_config.h"

#define FILE_MAX_BYTES (64 * KIB)
#define INSTALLERS     "installers"

struct with {
    struct with_order order;
    struct packages_source source;
    char *recipes_dir, *installers_dir;
    char *wanted[REQUIREMENTS_MAX];
    size_t count;
    struct packages packages;
    struct gateway *gateway;
    struct builder *builder;
    struct term_bar bar;
    bool has_bar;
};

/* --- what is wanted -------------------------------------------------------------------------- */

static int add(struct with *w, const char *text, size_t len, struct error *err)
{
    while (len > 0 && isspace((unsigned char)*text))
        text++, len--;
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    if (len == 0)
        return 0;
    if (w->count == REQUIREMENTS_MAX)
        return error_set(err, ERROR_LIMIT, "more than %d packages", REQUIREMENTS_MAX);
    w->wanted[w->count++] = xstrndup(text, len);
    return 0;
}

/* One a line; "#" begins a comment. */
static int add_file(struct with *w, const char *path, struct error *err)
{
    scoped_free char *text = NULL;
    if (fd_read_file(path, &text, FILE_MAX_BYTES, err) < 0)
        return error_wrap(err, "--with-requirements");
    for (char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        size_t before_comment = strcspn(line, "#\n");
        if (add(w, line, MIN(len, before_comment), err) < 0)
            return -1;
        line += len + (line[len] == '\n');
    }
    return 0;
}

static int read_all(struct with *w, struct error *err)
{
    for (size_t i = 0; i < w->order.names->count; i++) {
        if (add(w, w->order.names->items[i], strlen(w->order.names->items[i]), err) < 0)
            return -1;
    }
    return w->order.file ? add_file(w, w->order.file, err) : 0;
}

/* --- installing ------------------------------------------------------------------------------ */

/* The last line, on a terminal only: elsewhere what it says is told when it fails. */
static void on_said(void *ctx, const void *data, size_t len)
{
    struct with *w = ctx;
    const char *text = data;
    char label[64];
    size_t n = 0;
    if (!w->has_bar)
        return;
    while (len > 0 && text[len - 1] == '\n')
        len--;
    const char *newline = memrchr(text, '\n', len);
    const char *line = newline ? newline + 1 : text;
    for (; line < text + len && n < sizeof(label) - 1; line++)
        label[n++] = isprint((unsigned char)*line) ? *line : ' ';
    label[n] = '\0';
    term_bar_update(&w->bar, label, 0, 0);
}

static void on_built(void *ctx, const struct error *err)
{
    struct with *w = ctx;
    if (w->has_bar)
        term_bar_finish(&w->bar);
    w->order.done(w->order.ctx, err);
}

int with_begin(struct with *w, struct error *err)
{
    const struct config *c = &w->order.cli->config;
    const struct gateway_order way_out = {.loop = w->order.loop,
                                          .spawner = w->order.spawner,
                                          .bytes_max = c->egress_bytes,
                                          .connections_max = (uint32_t)c->egress_connections};
    w->gateway = gateway_new(&way_out);
    struct builder_order order = {
        .loop = w->order.loop,
        .spawner = w->order.spawner,
        .source = &w->source,
        .gateway = w->gateway,
        .network = server_config_network(c),
        .timeout_ms = c->build_timeout_ms,
        .allow_degraded = c->allow_degraded,
        .said = on_said,
        .ctx = w,
    };
    builder_limits(&order.limits, c->build_disk_bytes);
    if (builder_open(&w->builder, &order, err) < 0)
        return -1;
    w->has_bar = !c->json && term_is_terminal(STDERR_FILENO);
    term_bar_init(&w->bar, STDERR_FILENO);
    (void)builder_need(w->builder, &w->packages, on_built, w);
    return 0;
}

/* --- the interface --------------------------------------------------------------------------- */

int with_open(struct with **out, const struct with_order *order, struct error *err)
{
    struct with *w = xcalloc(1, sizeof(*w));
    const struct config *c = &order->cli->config;
    w->order = *order;
    w->recipes_dir = cli_recipes_dir(order->cli);
    w->installers_dir = cli_program_path(order->cli, INSTALLERS);
    w->source = (struct packages_source){
        .recipes_dir = w->recipes_dir,
        .installers_dir = w->installers_dir,
        .addresses =
            {[RUNNER_INDEX_PYTHON] = c->python_index, [RUNNER_INDEX_NPM] = c->npm_registry},
    };
    if (read_all(w, err) < 0 ||
        packages_make(&w->packages, &w->source, order->runner, w->wanted, w->count, err) < 0) {
        with_free(w);
        return -1;
    }
    *out = w;
    return 0;
}

void with_free(struct with *w)
{
    if (!w)
        return;
    builder_free(w->builder);
    gateway_free(w->gateway);
    packages_release(&w->packages);
    for (size_t i = 0; i < w->count; i++)
        free(w->wanted[i]);
    free(w->recipes_dir);
    free(w->installers_dir);
    free(w);
}

const struct packages *with_packages(const struct with *w)
{
    return &w->packages;
}

void with_on_event(struct with *w, const struct spawn_message *m)
{
    if (w->builder)
        builder_on_event(w->builder, m);
}
