/* cmd_repl.c - `cove repl`: a session in a sandbox, for a person at a terminal or a program */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <signal.h>
#include <stdlib.h>

#include "base/memory.h"
#include "cli/native.h"
#include "cli/place.h"
#include "cli/repl.h"
#include "image/image_store.h"

#define LIFETIME_MS (7u * 24 * 3600 * 1000) /* unless its terminal ends first */

struct repl_options {
    char *language;
    struct option_list env;
};

/* The repl and what it stands on. */
struct native {
    struct repl repl;
    struct loop_signal *signals[3];
    struct spawner_client *spawner;
    struct place *place;
    bool is_open; /* its front */
};

static const int watched_signals[] = {SIGINT, SIGTERM, SIGHUP};

void repl_quit(struct repl *repl, int status)
{
    repl->status = status;
    if (repl->session)
        session_close(repl->session);
    else
        loop_stop(repl->loop);
}

static void on_changed(void *ctx, struct session *session)
{
    struct native *n = ctx;
    const struct session_info *info = session_info(session);
    n->repl.front->changed(&n->repl, info);
    if (info->state == SESSION_TERMINATED)
        loop_stop(n->repl.loop);
}

static const struct session_events session_events = {.changed = on_changed};

static void on_hello(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    struct native *n = ctx;
    if (m)
        return;
    n->repl.status = cli_fail(n->repl.cli, err);
    loop_stop(n->repl.loop);
}

static void on_event(void *ctx, const struct spawn_message *m)
{
    struct native *n = ctx;
    if (n->repl.session)
        session_on_event(n->repl.session, m);
}

static void on_signal(void *ctx, int signal)
{
    struct native *n = ctx;
    n->repl.front->signal(&n->repl, signal);
}

static int open_native(struct native *n, struct error *err)
{
    struct repl *r = &n->repl;
    signal(SIGPIPE, SIG_IGN);
    if (loop_open(&r->loop, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(watched_signals); i++) {
        if (loop_signal_new(&n->signals[i], r->loop, watched_signals[i], on_signal, n, err) < 0)
            return -1;
    }
    return native_open(&n->spawner, r->cli, r->loop, on_hello, on_event, n, err);
}

static int run_session(struct native *n, const struct repl_options *o, struct error *err)
{
    const char *dirs[IMAGE_STORE_DIRS];
    struct repl *r = &n->repl;
    scoped_runner_list struct runner_list runners = {0};
    image_store_dirs(r->cli->config.data_dir, dirs);
    if (open_native(n, err) < 0 || runner_list_load(&runners, dirs, err) < 0)
        return -1;
    r->runner = runner_find(&runners, o->language ? o->language : "python", err);
    if (!r->runner || place_open(&n->place, r->cli, r->runner, &o->env, err) < 0)
        return -1;
    place_template(n->place)->limits.lifetime_ms = LIFETIME_MS;
    if (session_open(&r->session, r->loop, n->spawner, place_template(n->place), &session_events, n,
                     err) < 0 ||
        r->front->open(r, err) < 0)
        return -1;
    n->is_open = true;
    loop_run(r->loop);
    return 0;
}

static void release(struct native *n)
{
    if (n->is_open)
        n->repl.front->close(&n->repl);
    spawner_client_free(n->spawner);
    session_free(n->repl.session);
    place_free(n->place);
    for (size_t i = 0; i < ARRAY_LEN(watched_signals); i++)
        loop_signal_free(n->signals[i]);
    loop_free(n->repl.loop);
    free(n);
}

static int run(struct cli *cli, void *options, int argc, char **argv)
{
    struct error err;
    if (argc > 0)
        return cli_misuse(cli, "'%s' is too much: a session takes its code from standard input",
                          argv[0]);
    struct native *n = xcalloc(1, sizeof(*n));
    n->repl = (struct repl){.cli = cli, .front = cli->config.json ? &repl_script : &repl_terminal};
    int status = run_session(n, options, &err) < 0 ? cli_fail(cli, &err) : n->repl.status;
    release(n);
    return status;
}

#define AT(field) offsetof(struct repl_options, field)

static const struct option_row repl_options[] = {
    {.name = "language",
     .short_name = 'l',
     .type = OPTION_STRING,
     .offset = AT(language),
     .arg = "LANG",
     .help = "Language of the session; python by default"},
    {.name = "env",
     .type = OPTION_LIST,
     .offset = AT(env),
     .arg = "NAME=VALUE",
     .help = "Set a variable of the session's environment"},
};

const struct command cmd_repl = {
    .name = "repl",
    .summary = "Start an interactive session in a sandbox",
    .usage = "[OPTIONS]",
    .description =
        "Starts an interpreter sealed from the host and keeps it: variables, imports and files live "
        "on from one input to the next. The time limit counts for each input. Ctrl-C interrupts "
        "what runs, Ctrl-D ends the session.\n"
        "\n"
        "With --json it reads requests, one JSON object per line, such as {\"op\": \"execute\", "
        "\"code\": \"1+1\"}, and answers each with one line. The operations are execute, interrupt, "
        "variables, variable, complete, is_whole and reset.",
    .options = repl_options,
    .option_count = ARRAY_LEN(repl_options),
    .options_size = sizeof(struct repl_options),
    .config_group = CONFIG_GROUP_LIMITS,
    .run = run,
};
