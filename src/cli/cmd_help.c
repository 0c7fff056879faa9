/* cmd_help.c - `cove help`: pages for people, and the manual and completion made at build time */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <unistd.h>

#include "base/fd.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/manual.h"
#include "cli/term.h"

#define PATH_MAX_BYTES 256

struct options {
    bool man;
    bool completion;
};

static const struct option_row rows[] = {
    {.name = "man",
     .type = OPTION_BOOL,
     .offset = offsetof(struct options, man),
     .help = "Print the manual page, in roff"},
    {.name = "completion",
     .type = OPTION_BOOL,
     .offset = offsetof(struct options, completion),
     .help = "Print the completion script for bash"},
};

/* Walks `cove help image build` down the table. */
static int add_page(struct strbuf *out, int argc, char **argv, struct error *err)
{
    struct help_style style = {term_width(STDOUT_FILENO), term_has_colour(STDOUT_FILENO)};
    const struct command *const *table = commands_all;
    const struct command *command = NULL;
    scoped_strbuf struct strbuf path;
    strbuf_init(&path, PATH_MAX_BYTES);
    strbuf_add_str(&path, "cove");
    for (int i = 0; i < argc; i++) {
        command = commands_find(table, argv[i], err);
        if (!command)
            return -1;
        strbuf_add_fmt(&path, " %s", argv[i]);
        table = command->verbs;
    }
    if (command)
        help_add_command(out, command, strbuf_str(&path), &style);
    else
        help_add_overview(out, commands_all, &style);
    return 0;
}

static int run(struct cli *cli, void *raw, int argc, char **argv)
{
    const struct options *options = raw;
    struct error err;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, HELP_MAX_BYTES);
    if (options->man)
        manual_add_roff(&text, commands_all);
    else if (options->completion)
        manual_add_completion(&text, commands_all);
    else if (add_page(&text, argc, argv, &err) < 0)
        return cli_fail(cli, &err);
    if (fd_write_all(STDOUT_FILENO, strbuf_str(&text), text.len, &err) < 0)
        return cli_fail(cli, &err);
    return 0;
}

const struct command cmd_help = {
    .name = "help",
    .summary = "Show help for a command",
    .usage = "[COMMAND]",
    .options = rows,
    .option_count = ARRAY_LEN(rows),
    .options_size = sizeof(struct options),
    .ignores_config = true,
    .run = run,
};
