/* cmd_run.c - `cove run`: one program in one sandbox, streamed to the terminal */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/native.h"
#include "cli/out_dir.h"
#include "cli/outcome.h"
#include "cli/place.h"
#include "cli/run_secrets.h"
#include "cli/secret.h"
#include "cli/term.h"
#include "cli/with.h"
#include "core/execution_json.h"
#include "core/gateway.h"
#include "core/run.h"
#include "core/server_config.h"
#include "core/tier.h"
#include "image/image_store.h"
#include "image/runner.h"
#include "runtime/file_stream.h"
#include "wire/guest.h"

#define CODE_MAX_BYTES   (16 * MIB) /* of a program that comes by stdin or -c */
#define INLINE_MAX_BYTES (64 * KIB) /* of one that is a word of a command line */
#define INPUTS_MAX       1024

struct run_options {
    char *language;
    char *code;
    struct option_list files;
    struct option_list env;
    struct option_list with;
    char *with_requirements;
    char *out;
    unsigned network;
    struct option_list allow;
    struct option_list secrets;
};

static bool has_packages(const struct run_options *o)
{
    return o->with.count > 0 || o->with_requirements;
}

/* The one run of this process. */
struct native_run {
    struct cli *cli;
    const struct run_options *options;
    const struct runner *runner;
    struct loop *loop;
    struct loop_signal *signals[3];
    struct spawner_client *spawner;
    struct with *with;       /* packages; NULL: none */
    struct gateway *gateway; /* NULL: no network */
    struct network_rules rules;
    struct vault *vault; /* NULL: no secrets */
    char **given_env;    /* NAME=VALUE: the network's, and that of --env; owned */
    struct run *execution;
    struct run_request request;
    struct execution_input inputs[INPUTS_MAX];
    struct out_dir *out;
    const char **argv; /* owned; the strings are borrowed */
    const char **env;
    char *file; /* the program, relative to the workspace; owned */
    bool is_rootless;
    bool has_no_spawner; /* and that was told */
    bool stdout_is_gone;
    int status;
};

/* --- what goes in ---------------------------------------------------------------------------- */

static int add_input(struct native_run *r, int fd, const char *path, struct error *err)
{
    struct stat st;
    scoped_fd int owned = fd;
    if (r->request.input_count == INPUTS_MAX)
        return error_set(err, ERROR_LIMIT, "more than %d input files", INPUTS_MAX);
    if (!file_stream_is_good_path(path, strlen(path)))
        return error_set(err, ERROR_INVALID,
                         "'%s' is not a path inside the workspace (relative, no '..')", path);
    if (fstat(owned, &st) < 0)
        return error_sys(err, "look at '%s'", path);
    r->inputs[r->request.input_count++] = (struct execution_input){
        .path = xstrdup(path),
        .fd = take_fd(&owned),
        .size = (uint64_t)st.st_size,
        .mode = st.st_mode & 0777,
        .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
    };
    return 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* --file PATH or PATH:DEST */
static int add_file_option(struct native_run *r, const char *text, struct error *err)
{
    const char *colon = strrchr(text, ':');
    scoped_free char *path = colon ? xstrndup(text, (size_t)(colon - text)) : xstrdup(text);
    int fd = fd_open_regular(path, err);
    return fd < 0 ? -1 : add_input(r, fd, colon ? colon + 1 : base_name(path), err);
}

static int code_file(const char *code, size_t len, struct error *err)
{
    scoped_fd int fd = -1;
    if (fd_make_file(&fd, "code", code, len, err) < 0)
        return -1;
    if (fchmod(fd, 0644) < 0)
        return error_sys(err, "share the program");
    return take_fd(&fd);
}

static int read_code_from_stdin(struct error *err)
{
    scoped_free char *code = NULL;
    if (fd_read_text(STDIN_FILENO, &code, CODE_MAX_BYTES, err) < 0)
        return error_wrap(err, "read the program from standard input");
    return code_file(code, strlen(code), err);
}

/* Where the program comes from: -c, a file, or standard input. */
struct source {
    const char *file; /* NULL: none */
    bool uses_stdin;
};

/* One line goes to the interpreter as it is, which starts sooner than with a file. What has more
 * lines is a file: tracebacks quote those then. */
static bool is_inline(const struct native_run *r)
{
    const char *code = r->options->code;
    return code && r->runner->inlined.count > 0 && !strchr(code, '\n') &&
           strlen(code) <= INLINE_MAX_BYTES;
}

static int open_program(struct native_run *r, const struct source *source, struct error *err)
{
    int fd;
    if (is_inline(r))
        return 0;
    r->file = xstrdup(source->file ? base_name(source->file) : r->runner->main);
    if (source->file)
        fd = fd_open_regular(source->file, err);
    else if (source->uses_stdin)
        fd = read_code_from_stdin(err);
    else
        fd = code_file(r->options->code, strlen(r->options->code), err);
    if (fd < 0)
        return -1;
    if (r->runner->takes_stdin) {
        r->request.stdin_fd = fd;
        return 0;
    }
    return add_input(r, fd, r->file, err);
}

/* Its own open file: the loop makes fds non-blocking, which must not reach the shell's terminal. A
 * regular file is never made so, and keeps the position to which others have read it. */
static int open_stdin(struct native_run *r, const struct source *source)
{
    if (source->uses_stdin || r->request.stdin_fd >= 0)
        return 0;
    struct stat st;
    bool is_file = fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode);
    int fd = is_file ? -1 : open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    r->request.stdin_fd = fd >= 0 ? fd : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    return 0;
}

/* --- the command and its environment --------------------------------------------------------- */

static void build_argv(struct native_run *r, int argc, char **argv)
{
    size_t n = 0;
    bool inlines = is_inline(r);
    const struct runner_words *words = inlines ? &r->runner->inlined : &r->runner->command;
    const char *mark = inlines ? RUNNER_CODE_MARK : RUNNER_FILE_MARK;
    r->argv = xcalloc(words->count + (size_t)argc + 1, sizeof(*r->argv));
    for (size_t i = 0; i < words->count; i++) {
        const char *word = words->items[i];
        r->argv[n++] = strcmp(word, mark) != 0 ? word : inlines ? r->options->code : r->file;
    }
    for (int i = 0; i < argc; i++)
        r->argv[n++] = argv[i];
    r->request.argv = r->argv;
}

static int fill_limits(struct native_run *r, struct error *err)
{
    const struct config *c = &r->cli->config;
    if (place_limits(&r->request.limits, r->cli, err) < 0)
        return -1;
    r->request.timeout_ms = c->timeout_ms;
    r->request.output_bytes = c->output_bytes;
    r->request.allow_degraded = c->allow_degraded;
    r->request.wants_artifacts = c->json || r->options->out;
    r->request.wants_usage = c->json;
    return 0;
}

/* --- what comes out -------------------------------------------------------------------------- */

static void on_output(void *ctx, enum execution_stream stream, const void *data, size_t len)
{
    struct native_run *r = ctx;
    struct error err;
    if (r->cli->config.json)
        return;
    int fd = stream == EXECUTION_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
    if (stream == EXECUTION_STDOUT && r->stdout_is_gone)
        return;
    if (fd_write_all(fd, data, len, &err) < 0 && fd == STDOUT_FILENO) {
        r->stdout_is_gone = true; /* `cove run ... | head`: nobody reads on */
        run_kill(r->execution);
    }
}

static void on_artifact_begin(void *ctx, const struct artifact *a)
{
    struct native_run *r = ctx;
    if (r->out)
        out_dir_begin(r->out, a->path, a->mode);
}

static void on_artifact_data(void *ctx, const void *data, size_t len)
{
    struct native_run *r = ctx;
    if (r->out)
        out_dir_data(r->out, data, len);
}

static void on_artifact_end(void *ctx, const struct artifact *a)
{
    (void)a;
    struct native_run *r = ctx;
    if (r->out)
        out_dir_end(r->out);
}

static void warn_degraded(const struct native_run *r, const struct execution *e)
{
    if (e->layers == 0 || tier_of(e->layers, r->is_rootless) != TIER_T3)
        return;
    fprintf(stderr, "cove: warning: ran degraded, at tier T3, without:");
    for (int layer = 0; layer < LAYER_COUNT; layer++) {
        if (!(e->layers & 1u << layer) &&
            tier_need((enum layer)layer, r->is_rootless) == LAYER_NEEDED)
            fprintf(stderr, " %s;", layer_info((enum layer)layer)->name);
    }
    fprintf(stderr, " see 'cove doctor'\n");
}

/* Only of those that somebody has chosen: nobody counts on the preset. */
static void warn_limits(const struct native_run *r, const struct execution *e)
{
    const char *name;
    for (size_t i = 0; (name = tier_missing_limit(e->layers, i)); i++) {
        if (config_is_given(&r->cli->config_set, name))
            fprintf(stderr, "cove: warning: nothing here holds the limit '%s'; see 'cove doctor'\n",
                    name);
    }
}

static void on_ended(void *ctx, const struct execution *e)
{
    struct native_run *r = ctx;
    struct error err;
    if (r->has_no_spawner)
        return;
    r->status = outcome_status(e);
    warn_degraded(r, e);
    warn_limits(r, e);
    if (e->verdict.kind == REASON_INFRASTRUCTURE && !r->cli->config.json) {
        r->status = cli_fail(r->cli, &e->error);
    } else if (r->cli->config.json) {
        scoped_json json_t *object = execution_json(e, r->runner->language);
        if (json_write(STDOUT_FILENO, object, JSON_STYLE_PRETTY, &err) < 0)
            r->status = 74;
    } else {
        outcome_tell(e);
    }
    loop_stop(r->loop);
}

static const struct execution_events run_events = {.output = on_output,
                                                   .artifact_begin = on_artifact_begin,
                                                   .artifact_data = on_artifact_data,
                                                   .artifact_end = on_artifact_end,
                                                   .ended = on_ended};

/* --- the run --------------------------------------------------------------------------------- */

static void on_hello(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    struct native_run *r = ctx;
    if (m) {
        r->is_rootless = m->hello_reply.is_rootless;
        return;
    }
    r->status = cli_fail(r->cli, err);
    r->has_no_spawner = true;
    loop_stop(r->loop);
}

static void on_event(void *ctx, const struct spawn_message *m)
{
    struct native_run *r = ctx;
    if (r->with)
        with_on_event(r->with, m);
    if (r->execution)
        run_on_event(r->execution, m);
}

static void on_signal(void *ctx, int signal)
{
    struct native_run *r = ctx;
    if (!r->execution) {
        r->status = 128 + signal;
        loop_stop(r->loop);
    } else if (signal == SIGINT) {
        run_interrupt(r->execution);
    } else {
        run_kill(r->execution);
    }
}

static const int watched_signals[] = {SIGINT, SIGTERM, SIGHUP};

/* Starts the spawner, which gets ready while we read what it is to run. */
static int open_native(struct native_run *r, struct error *err)
{
    signal(SIGPIPE, SIG_IGN);
    if (loop_open(&r->loop, err) < 0)
        return -1;
    int (*open)(struct spawner_client **, const struct cli *, struct loop *, spawner_reply_fn,
                spawner_event_fn, void *, struct error *) =
        r->options->network == NETWORK_NONE && !has_packages(r->options) ? native_open
                                                                         : native_open_with_egress;
    if (open(&r->spawner, r->cli, r->loop, on_hello, on_event, r, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(watched_signals); i++) {
        if (loop_signal_new(&r->signals[i], r->loop, watched_signals[i], on_signal, r, err) < 0)
            return -1;
    }
    return 0;
}

static void close_native(struct native_run *r)
{
    with_free(r->with);
    run_free(r->execution);
    gateway_free(r->gateway);
    spawner_client_free(r->spawner);
    for (size_t i = 0; i < ARRAY_LEN(watched_signals); i++)
        loop_signal_free(r->signals[i]);
    loop_free(r->loop);
}

/* Its way out, if it is to have one, and the variables that lead there. */
static int open_network(struct native_run *r, struct error *err)
{
    const struct run_options *o = r->options;
    const struct config *c = &r->cli->config;
    const struct network_bounds bounds = server_config_network(c);
    const struct network_spec spec = {.policy = (int)o->network,
                                      .allow = {.items = o->allow.items, .count = o->allow.count}};
    char **own = xcalloc(o->env.count + 1, sizeof(*own));
    for (size_t i = 0; i < o->env.count; i++)
        own[i] = o->env.items[i];
    int status = network_check_bounds(&bounds, err);
    if (status == 0)
        status = network_rules_make(&r->rules, &spec, &bounds, err);
    if (status == 0)
        status = run_secrets_open(&r->vault, &o->secrets, &r->rules, err);
    r->request.vault = r->vault;
    if (status == 0)
        r->given_env = vault_env(r->vault, network_env(&spec, &r->rules, &bounds, own));
    free(own);
    if (status < 0 || o->network == NETWORK_NONE)
        return status;
    const struct gateway_order order = {.loop = r->loop,
                                        .spawner = r->spawner,
                                        .log = &r->cli->log,
                                        .bytes_max = c->egress_bytes,
                                        .connections_max = (uint32_t)c->egress_connections};
    r->request.gateway = r->gateway = gateway_new(&order);
    r->request.rules = &r->rules;
    return run_secrets_trust(r->gateway, c, err);
}

static int prepare(struct native_run *r, const struct source *source, int argc, char **argv,
                   struct error *err)
{
    const struct run_options *o = r->options;
    if (open_program(r, source, err) < 0 || open_stdin(r, source) < 0)
        return -1;
    for (size_t i = 0; i < o->files.count; i++) {
        if (add_file_option(r, o->files.items[i], err) < 0)
            return -1;
    }
    if (o->out && out_dir_open(&r->out, o->out, err) < 0)
        return -1;
    build_argv(r, argc, argv);
    const struct packages *packages = r->with ? with_packages(r->with) : NULL;
    if (open_network(r, err) < 0 ||
        place_env(&r->env, r->runner, packages, r->given_env, err) < 0 || fill_limits(r, err) < 0)
        return -1;
    if (packages)
        memcpy(r->request.packages, packages->digest, sizeof(r->request.packages));
    r->request.env = r->env;
    memcpy(r->request.image, r->runner->digest, SPAWN_DIGEST_BYTES);
    r->request.inputs = r->inputs;
    return 0;
}

static void release(struct native_run *r)
{
    close_native(r);
    for (size_t i = 0; i < r->request.input_count; i++) {
        free(r->inputs[i].path);
        close(r->inputs[i].fd);
    }
    scoped_close_fd(&r->request.stdin_fd);
    out_dir_free(r->out);
    free(r->argv);
    free(r->env);
    for (char **e = r->given_env; e && *e; e++)
        free(*e);
    free(r->given_env);
    network_rules_release(&r->rules);
    vault_free(r->vault);
    free(r->file);
    free(r);
}

static const struct runner *find_runner(const struct runner_list *list, const struct run_options *o,
                                        const struct source *source, struct error *err)
{
    if (!o->language && source->file)
        return runner_find_by_file(list, source->file, err);
    return runner_find(list, o->language ? o->language : "python", err);
}

static int begin(struct native_run *r, struct error *err)
{
    if (run_begin(&r->execution, r->loop, r->spawner, &r->request, &run_events, r, err) < 0)
        return -1;
    r->request.stdin_fd = -1; /* taken */
    return 0;
}

static void on_packages(void *ctx, const struct error *failure)
{
    struct native_run *r = ctx;
    struct error err;
    if (r->has_no_spawner) /* and that was told */
        return;
    if (!failure && begin(r, &err) == 0)
        return;
    r->status = cli_fail(r->cli, failure ? failure : &err);
    loop_stop(r->loop);
}

static int open_packages(struct native_run *r, struct error *err)
{
    const struct with_order order = {
        .cli = r->cli,
        .loop = r->loop,
        .spawner = r->spawner,
        .runner = r->runner,
        .names = &r->options->with,
        .file = r->options->with_requirements,
        .done = on_packages,
        .ctx = r,
    };
    if (!has_packages(r->options))
        return 0;
    return with_open(&r->with, &order, err);
}

static int run_program(struct native_run *r, const struct source *source, int argc, char **argv,
                       struct error *err)
{
    const char *dirs[IMAGE_STORE_DIRS];
    scoped_runner_list struct runner_list runners = {0};
    image_store_dirs(r->cli->config.data_dir, dirs);
    if (open_native(r, err) < 0 || runner_list_load(&runners, dirs, err) < 0)
        return -1;
    r->runner = find_runner(&runners, r->options, source, err);
    if (!r->runner || open_packages(r, err) < 0 || prepare(r, source, argc, argv, err) < 0)
        return -1;
    /* Right behind the hello: a spawner that cannot serve answers that one with the reason. */
    if ((r->with ? with_begin(r->with, err) : begin(r, err)) < 0)
        return -1;
    loop_run(r->loop);
    return r->out ? out_dir_failure(r->out, err) : 0;
}

static int run(struct cli *cli, void *options, int argc, char **argv)
{
    const struct run_options *o = options;
    struct source source = {0};
    if (!o->code && argc > 0) {
        if (strcmp(argv[0], "-") != 0)
            source.file = argv[0];
        argc--;
        argv++;
    }
    source.uses_stdin = !o->code && !source.file;
    if (source.uses_stdin && term_is_terminal(STDIN_FILENO))
        return cli_misuse(cli, "no program: give a FILE, -c CODE, or pipe it into standard input");
    struct error err;
    struct native_run *r = xcalloc(1, sizeof(*r));
    r->cli = cli;
    r->options = o;
    r->request.stdin_fd = -1;
    int status = run_program(r, &source, argc, argv, &err);
    status = status < 0 ? cli_fail(cli, &err) : r->status;
    release(r);
    return status;
}

#define AT(field) offsetof(struct run_options, field)

static const struct option_row run_options[] = {
    {.name = "language",
     .short_name = 'l',
     .type = OPTION_STRING,
     .offset = AT(language),
     .arg = "LANG",
     .help = "Language of the program; by default from the file's name, else python"},
    {.name = "code",
     .short_name = 'c',
     .type = OPTION_STRING,
     .offset = AT(code),
     .arg = "CODE",
     .help = "The program itself; one line is handed over as python3 -c and bash -c take it"},
    {.name = "file",
     .type = OPTION_LIST,
     .offset = AT(files),
     .arg = "PATH[:DEST]",
     .help = "Put a file into the workspace"},
    {.name = "out",
     .type = OPTION_STRING,
     .offset = AT(out),
     .arg = "DIR",
     .help = "Bring the files that the program made or changed back into DIR"},
    {.name = "env",
     .type = OPTION_LIST,
     .offset = AT(env),
     .arg = "NAME=VALUE",
     .help = "Set a variable of the program's environment"},
    {.name = "with",
     .type = OPTION_LIST,
     .offset = AT(with),
     .arg = "PACKAGE",
     .help = "Run with this package installed, as in --with humanize or --with 'pandas==2.2'"},
    {.name = "with-requirements",
     .type = OPTION_STRING,
     .offset = AT(with_requirements),
     .arg = "FILE",
     .help = "Run with the packages that FILE lists, one a line"},
    {.name = "network",
     .type = OPTION_ENUM,
     .offset = AT(network),
     .preset = "none",
     .choices = network_policy_names,
     .arg = "POLICY",
     .help = "What the program may reach: nothing, package indexes, or the hosts of --allow"},
    {.name = "allow",
     .type = OPTION_LIST,
     .offset = AT(allow),
     .arg = "HOST[:PORT]",
     .help = "Host that --network allow lets it reach; as *.NAME all below one"},
    SECRET_OPTION_ROW(AT(secrets)),
};

const struct command cmd_run = {
    .name = "run",
    .summary = "Run a program in a fresh sandbox",
    .usage = "[OPTIONS] [FILE | -] [ARGUMENTS...]",
    .description =
        "Runs FILE (or the code of -c, or standard input) sealed from the host, streams what it "
        "prints and ends with its exit status: 124 when its time was up, 137 when it was killed.\n"
        "\n"
        "The program starts in /workspace, where it finds itself and the files of --file; nothing "
        "else of this machine is in there. Ctrl-C interrupts it, a second one kills it.\n"
        "\n"
        "Packages of --with are installed once, in a sandbox of their own; every later run with the "
        "same ones finds them. `cove cache` shows and removes what is kept.\n"
        "\n"
        "With --json its output is not streamed but part of one object that describes the run.",
    .options = run_options,
    .option_count = ARRAY_LEN(run_options),
    .options_size = sizeof(struct run_options),
    .config_group = CONFIG_GROUP_LIMITS,
    .has_raw_arguments = true,
    .run = run,
};
