/* cmd_repl.c - `cove repl`: a session in a sandbox, for a person at a terminal or a program */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/native.h"
#include "cli/place.h"
#include "cli/repl.h"
#include "cli/term.h"
#include "core/warm.h"
#include "image/image_store.h"

#define LIFETIME_MS (7u * 24 * 3600 * 1000) /* unless its terminal ends first */

struct repl_options {
    char *language;
    char *out;
    struct option_list env;
    uint64_t idle_freeze_ms;
    uint64_t forks;
    bool no_history;
};

/* The repl and what it stands on. */
struct native {
    struct repl repl;
    struct loop_signal *signals[3];
    struct spawner_client *spawner;
    struct recipe *recipe;
    struct capacity *capacity;
    struct warm *warm; /* NULL: the interpreter starts cold */
};

static const int watched_signals[] = {SIGINT, SIGTERM, SIGHUP};

static bool is_over(const struct session *session)
{
    return !session || session_info(session)->state == SESSION_TERMINATED;
}

void repl_on_over(struct repl *repl)
{
    bool are_over = is_over(repl->session);
    for (size_t i = 0; repl->forks[i]; i++)
        are_over &= is_over(repl->forks[i]);
    if (are_over)
        loop_stop(repl->loop);
}

void repl_quit(struct repl *repl, int status)
{
    repl->status = status;
    for (size_t i = 0; repl->forks[i]; i++)
        session_close(repl->forks[i]);
    if (repl->session)
        session_close(repl->session);
    repl_on_over(repl);
}

void repl_fail(struct repl *repl, const struct error *err)
{
    repl->error = *err;
    repl_quit(repl, error_info(err->code)->exit_status);
}

static void on_changed(void *ctx, struct session *session)
{
    struct native *n = ctx;
    const struct session_info *info = session_info(session);
    n->repl.front->changed(&n->repl, info);
    if (info->state == SESSION_TERMINATED)
        repl_on_over(&n->repl);
}

static const struct session_events session_events = {.changed = on_changed};

static void on_hello(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    struct native *n = ctx;
    if (m) {
        n->repl.is_rootless = m->hello_reply.is_rootless;
        return;
    }
    n->repl.error = *err;
    loop_stop(n->repl.loop);
}

static void on_event(void *ctx, const struct spawn_message *m)
{
    struct native *n = ctx;
    if (n->warm)
        warm_on_event(n->warm, m);
    if (n->repl.session)
        session_on_event(n->repl.session, m);
    for (size_t i = 0; n->repl.forks[i]; i++)
        session_on_event(n->repl.forks[i], m);
    if (!m && !n->repl.session)
        loop_stop(n->repl.loop);
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

static int open_capacity(struct native *n, struct error *err)
{
    const struct capacity_order order = {.max_sandboxes = n->repl.cli->config.max_sandboxes};
    if (capacity_open(&n->capacity, &order, err) < 0)
        return -1;
    recipe_template(n->recipe)->capacity = n->capacity;
    return 0;
}

static int begin(struct native *n, struct error *err)
{
    struct repl *r = &n->repl;
    if (session_open(&r->session, r->loop, n->spawner, recipe_template(n->recipe), &session_events,
                     n, err) < 0)
        return -1;
    return r->front->open(r, err);
}

/* The session begins with the first interpreter that is warm. */
static void on_warm(void *ctx)
{
    struct native *n = ctx;
    if (n->repl.session)
        return;
    recipe_template(n->recipe)->zygote = warm_zygote(n->warm);
    if (!warm_zygote(n->warm))
        repl_fail(&n->repl, warm_error(n->warm));
    else if (begin(n, &n->repl.error) < 0)
        repl_quit(&n->repl, error_info(n->repl.error.code)->exit_status);
}

/* What can be forked is a fork itself. */
static int begin_warm(struct native *n, uint64_t forks, struct error *err)
{
    struct session_template *t = recipe_template(n->recipe);
    const struct warm_order order = {
        .template = t, .memory_bytes = t->limits.memory_bytes, .changed = on_warm, .ctx = n};
    if (n->repl.front != &repl_script) {
        error_set(err, ERROR_INVALID, "--forks needs --json");
        return error_hint(err, "forks are asked for by lines of JSON: cove repl --json --forks 2");
    }
    if (t->is_plain || t->copier_fd < 0) {
        error_set(err, ERROR_INVALID, "a session of %s cannot be forked", n->repl.runner->language);
        return error_hint(err, "leave --forks out: only python sessions can be forked");
    }
    t->forks = (size_t)forks;
    return warm_open(&n->warm, n->repl.loop, n->spawner, &order, err);
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
    if (!r->runner || place_open(&n->recipe, r->cli, r->runner, &o->env, err) < 0 ||
        open_capacity(n, err) < 0)
        return -1;
    recipe_template(n->recipe)->limits.lifetime_ms = LIFETIME_MS;
    recipe_template(n->recipe)->idle_freeze_ms = o->idle_freeze_ms;
    if ((o->forks ? begin_warm(n, o->forks, err) : begin(n, err)) < 0)
        return -1;
    loop_run(r->loop);
    if (r->error.msg[0]) {
        *err = r->error;
        return -1;
    }
    return 0;
}

static void close_front(struct native *n)
{
    if (n->repl.front_state)
        n->repl.front->close(&n->repl);
}

static void release(struct native *n)
{
    spawner_client_free(n->spawner);
    session_free(n->repl.session);
    for (size_t i = 0; n->repl.forks[i]; i++)
        session_free(n->repl.forks[i]);
    warm_free(n->warm);
    recipe_free(n->recipe);
    capacity_free(n->capacity);
    for (size_t i = 0; i < ARRAY_LEN(watched_signals); i++)
        loop_signal_free(n->signals[i]);
    loop_free(n->repl.loop);
    free(n);
}

static const struct repl_front *choose_front(const struct cli *cli)
{
    if (cli->config.json)
        return &repl_script;
    bool has_screen = term_is_terminal(STDOUT_FILENO) || term_is_terminal(STDERR_FILENO);
    return term_is_terminal(STDIN_FILENO) && has_screen ? &repl_terminal : &repl_pipe;
}

static int run(struct cli *cli, void *options, int argc, char **argv)
{
    const struct repl_options *o = options;
    struct error err;
    if (argc > 0)
        return cli_misuse(cli, "'%s' is too much: a session takes its code from standard input",
                          argv[0]);
    struct native *n = xcalloc(1, sizeof(*n));
    n->repl = (struct repl){
        .cli = cli, .front = choose_front(cli), .out = o->out, .has_history = !o->no_history};
    int status = run_session(n, o, &err);
    close_front(n); /* first: it gives the terminal back */
    status = status < 0 ? cli_fail(cli, &err) : n->repl.status;
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
    {.name = "out",
     .type = OPTION_STRING,
     .offset = AT(out),
     .arg = "DIR",
     .help = "Save pictures in DIR, not here, and bring files that were made or changed there"},
    {.name = "env",
     .type = OPTION_LIST,
     .offset = AT(env),
     .arg = "NAME=VALUE",
     .help = "Set a variable of the session's environment"},
    {.name = "idle-freeze",
     .type = OPTION_DURATION_MS,
     .offset = AT(idle_freeze_ms),
     .arg = "TIME",
     .max = LIFETIME_MS,
     .help = "Stop its processes when it was not used for this long; the next input wakes them"},
    {.name = "forks",
     .type = OPTION_U64,
     .offset = AT(forks),
     .arg = "COUNT",
     .max = SESSION_FORKS_MAX,
     .help = "With --json: how often the session can be forked; their sandboxes are made with it"},
    {.name = "no-history",
     .type = OPTION_BOOL,
     .offset = AT(no_history),
     .help = "Neither read nor keep the history of inputs"},
};

const struct command cmd_repl = {
    .name = "repl",
    .summary = "Start an interactive session in a sandbox",
    .usage = "[OPTIONS]",
    .description =
        "Starts an interpreter sealed from the host and keeps it: variables, imports and files live "
        "on from one input to the next. The time limit counts for each input. Ctrl-C interrupts "
        "what runs and a second one kills it, Ctrl-D ends the session.\n"
        "\n"
        "Enter runs an input that is whole and opens another line of one that is not; Alt-Enter "
        "always opens one. Tab completes names of the live session, Up and Down recall earlier "
        "inputs, Ctrl-R searches them. Pasted text is one input. The commands :help, :vars, :reset "
        "and :quit are for the session itself. The code has no keyboard: its standard input is "
        "empty.\n"
        "\n"
        "Pictures are saved in the current directory as plot-1.png, plot-2.png and so on, never over "
        "a file that is there. The history is kept in $XDG_STATE_HOME/cove (~/.local/state/cove), or "
        "in the file that COVE_HISTORY names; an empty COVE_HISTORY or --no-history turns that off.\n"
        "\n"
        "Without a terminal the whole of standard input is one input. Its output and value are "
        "printed, and the exit status is 0, 1 after an exception, 124 when its time was up, 137 when "
        "it was killed.\n"
        "\n"
        "With --json it reads requests, one JSON object per line, such as {\"op\": \"execute\", "
        "\"code\": \"1+1\"}, and answers each with one line. With \"stream\": true an execution has lines "
        "before that, {\"event\": \"result\", ...}, one for each display() as it comes. The operations are execute, interrupt, "
        "variables, variable, complete, is_whole, reset, checkpoint, rollback, checkpoints, "
        "delete_checkpoint, fork and close. A fork is a second session with the variables and files "
        "of the first; requests name it as \"session\", by its id or its number from 1.\n"
        "\n"
        "A session can be forked as often as --forks says, while it runs nothing, has one thread, no "
        "processes of its own, no shared memory and no open file without a name. A fork cannot be "
        "forked again, and neither can a session after a reset or a rollback. Python only. Groups of "
        "processes must be freezable: as root, or for an ordinary user in a delegated cgroup. A "
        "refusal is told with its reason, and costs the first session nothing.",
    .options = repl_options,
    .option_count = ARRAY_LEN(repl_options),
    .options_size = sizeof(struct repl_options),
    .config_group = CONFIG_GROUP_LIMITS,
    .run = run,
};
