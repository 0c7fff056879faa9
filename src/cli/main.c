/* main.c - the cove command line: finds the command, loads the options, runs it
 *
 * This is on the hot path of `cove run`: no terminal calls, no locale, no file but the
 * configuration before the command starts. main() owns the one context, struct cli. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/term.h"
#include "codec/json.h"

#define EXIT_MISUSE    64
#define NAME_MAX_BYTES 256

/* The arguments that are still to be read, and the full name of the command so far. */
struct line {
    int argc;
    char **argv;
    struct strbuf name;
};

static int find_exe_dir(struct cli *cli, struct error *err)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n < 0)
        return error_sys(err, "find the running program in /proc");
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    cli->exe_dir = xstrndup(path, slash && slash != path ? (size_t)(slash - path) : 1);
    return 0;
}

/* When the flags are bad, whether --json was among them decides how that is told. */
static int fail_flags(struct cli *cli, const struct line *line, const struct error *err)
{
    for (int i = 0; i < line->argc && strcmp(line->argv[i], "--") != 0; i++)
        cli->config.json = cli->config.json || strcmp(line->argv[i], "--json") == 0;
    return cli_fail(cli, err);
}

static int show_help(const struct cli *cli, const struct command *command, const char *name, int fd)
{
    struct help_style style = {term_width(fd), term_has_colour(fd)};
    struct error err;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, HELP_MAX_BYTES);
    if (command)
        help_add_command(&text, command, name, &style);
    else
        help_add_overview(&text, commands_all, &style);
    return fd_write_all(fd, strbuf_str(&text), text.len, &err) < 0 ? cli_fail(cli, &err) : 0;
}

static int run_with(struct cli *cli, const struct command *command, void *options,
                    const struct line *line)
{
    struct error err;
    if (!command->ignores_config) {
        if (config_load(&cli->config, &cli->config_set, &err) < 0 ||
            log_open(&cli->log, cli->config.log_file, cli->config.log_level, &err) < 0)
            return cli_fail(cli, &err);
    }
    if (find_exe_dir(cli, &err) < 0)
        return cli_fail(cli, &err);
    if (command->has_no_arguments && line->argc > 0)
        return cli_misuse(cli, "'%s' takes no arguments", strbuf_str(&line->name));
    if (command->remote)
        return remote_run(cli, command->remote, options, line->argc, line->argv);
    return command->run(cli, options, line->argc, line->argv);
}

static int run_command(struct cli *cli, const struct command *command, struct line *line)
{
    scoped_free void *options =
        command->options_size > 0 ? xcalloc(1, command->options_size) : NULL;
    struct option_set set;
    struct option_set *const sets[] = {&set, &cli->config_set};
    struct error err;
    int status;

    option_set_init(&set, command->options, command->option_count, options);
    if (option_apply_flags(sets, ARRAY_LEN(sets), &line->argc, line->argv,
                           command->has_raw_arguments, &err) < 0) {
        if (!err.hint[0])
            error_hint(&err, "`%s --help` shows what is allowed", strbuf_str(&line->name));
        status = fail_flags(cli, line, &err);
    } else if (cli->config.help) {
        status = show_help(cli, command, strbuf_str(&line->name), STDOUT_FILENO);
    } else if (cli->config.version) {
        status = cmd_version.run(cli, NULL, 0, NULL);
    } else {
        option_apply_presets(&set);
        status = run_with(cli, command, options, line);
    }
    option_set_release(&set);
    return status;
}

/* Reads global options up to the next word, and takes that as the name of a command. */
static int find_command(struct cli *cli, struct line *line, const struct command **command,
                        struct error *err)
{
    struct option_set *const sets[] = {&cli->config_set};
    *command = NULL;
    const struct command *const *table = commands_all;
    while (table) {
        if (option_apply_flags(sets, 1, &line->argc, line->argv, true, err) < 0)
            return -1;
        if (line->argc == 0)
            return 0;
        const struct command *next = commands_find(table, line->argv[0], err);
        if (!next)
            return -1;
        *command = next;
        strbuf_add_fmt(&line->name, " %s", line->argv[0]);
        line->argc--;
        line->argv++;
        table = next->verbs;
    }
    return 0;
}

static int dispatch(struct cli *cli, struct line *line)
{
    const struct command *command;
    struct error err;
    if (find_command(cli, line, &command, &err) < 0)
        return fail_flags(cli, line, &err);
    if (!command && cli->config.version)
        command = &cmd_version;
    if (command && (command->run || command->remote))
        return run_command(cli, command, line);

    /* No command, or `cove image` without a verb. */
    if (cli->config.help)
        return show_help(cli, command, strbuf_str(&line->name), STDOUT_FILENO);
    int status = show_help(cli, command, strbuf_str(&line->name), STDERR_FILENO);
    return status ? status : EXIT_MISUSE;
}

/* A closed standard fd would become the next file that is opened, and take what is meant for a
 * terminal. */
static void fill_standard_fds(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR); /* without O_CLOEXEC: it stands for one that is inherited */
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Reading the options takes them out of argv. */
static char **copy_argv(int argc, char **argv)
{
    char **copy = xcalloc((size_t)argc + 1, sizeof(*copy));
    for (int i = 0; i < argc; i++)
        copy[i] = argv[i];
    return copy;
}

int main(int argc, char **argv)
{
    fill_standard_fds();
    struct cli cli = {.argv = copy_argv(argc, argv)};
    struct line line = {.argc = argc > 0 ? argc - 1 : 0, .argv = argv + 1};
    json_set_alloc_funcs(xmalloc, free);
    option_set_init(&cli.config_set, config_options, config_option_count, &cli.config);
    strbuf_init(&line.name, NAME_MAX_BYTES);
    strbuf_add_str(&line.name, "cove");

    int status = dispatch(&cli, &line);

    strbuf_release(&line.name);
    option_set_release(&cli.config_set);
    log_close(&cli.log);
    free(cli.exe_dir);
    free(cli.argv);
    return status;
}
