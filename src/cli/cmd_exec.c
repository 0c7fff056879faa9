/* cmd_exec.c - the row of `cove exec`; client/client_exec.c carries it out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/cli.h"
#include "cli/remote.h"

static const struct option_row rows[] = {
    {.name = "code",
     .short_name = 'c',
     .type = OPTION_STRING,
     .offset = offsetof(struct exec_options, code),
     .arg = "CODE",
     .help = "The program itself"},
    {.name = "language",
     .short_name = 'l',
     .type = OPTION_STRING,
     .offset = offsetof(struct exec_options, language),
     .arg = "LANG",
     .help = "For sessions that know several (the session's)"},
    {.name = "timeout",
     .type = OPTION_DURATION_MS,
     .offset = offsetof(struct exec_options, timeout_ms),
     .min = 1,
     .help = "Time after which it is ended (the template's)"},
    {.name = "stdin",
     .type = OPTION_STRING,
     .offset = offsetof(struct exec_options, stdin_file),
     .arg = "FILE",
     .help = "What it reads from its standard input; - is that of this command"},
    {.name = "file",
     .type = OPTION_LIST,
     .offset = offsetof(struct exec_options, files),
     .arg = "PATH[:DEST]",
     .help = "Put a file into the workspace"},
    {.name = "env",
     .short_name = 'e',
     .type = OPTION_LIST,
     .offset = offsetof(struct exec_options, env),
     .arg = "NAME=VALUE",
     .help = "Set a variable for this execution"},
    {.name = "queue",
     .type = OPTION_BOOL,
     .offset = offsetof(struct exec_options, may_queue),
     .help = "Wait for what runs in the session, instead of being refused"},
    {.name = "detach",
     .short_name = 'd',
     .type = OPTION_BOOL,
     .offset = offsetof(struct exec_options, is_detached),
     .help = "Only start it, and print its id"},
};

const struct command cmd_exec = {
    .name = "exec",
    .summary = "Run code in a session of a server",
    .usage = "[OPTIONS] SESSION [FILE | -]",
    .description =
        "Runs FILE (or the code of -c, or standard input) in the session, streams what it "
        "prints and ends with its exit status: 124 when its time was up, 137 when it was "
        "killed. The value of a last expression is shown, as in `cove repl`.\n"
        "\n"
        "Ctrl-C cancels the execution, and the session lives on; a second one only leaves it. A "
        "connection that breaks is taken up again where it broke.\n"
        "\n"
        "With --json its output is not streamed but part of one object that describes the "
        "execution.",
    .options = rows,
    .option_count = ARRAY_LEN(rows),
    .options_size = sizeof(struct exec_options),
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_EXEC,
};
