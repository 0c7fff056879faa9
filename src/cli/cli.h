/* cli.h - what every subcommand gets, and the row by which main() knows it */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/log.h"
#include "base/option.h"
#include "cli/remote.h"
#include "core/config.h"

struct cli {
    struct config config;
    struct option_set config_set; /* of config, for its origins */
    struct log log;
    char *exe_dir; /* the folder of the running program; owned */
    char **argv;   /* the command line as it was given; owned, the words are borrowed */
};

/* One row per command; a file cmd_x.c exports it as cmd_x, named in commands.h. A command has
 * one of `run`, `remote` and verbs. */
struct command {
    const char *name;
    const char *summary;     /* one line, no full stop */
    const char *usage;       /* what follows the name: "[OPTIONS] [FILE]" */
    const char *description; /* paragraphs split by empty lines; may be NULL */
    const struct option_row *options;
    size_t option_count;
    size_t options_size;      /* of the struct that the options fill; zeroed before */
    const char *config_group; /* heading of global options that its help shows too; may be NULL */
    bool has_raw_arguments;   /* options end at the first argument: what follows is not ours */
    bool has_no_arguments;    /* any is a misuse */
    bool is_hidden;           /* not listed */
    bool ignores_config;      /* works although cove.conf is broken; data_dir may be NULL */
    const struct command *const *verbs; /* NULL-terminated: `cove image build` */
    enum remote_verb remote;            /* a server carries it out */

    /* argv[0..argc) holds the arguments after the command's name, without options. Answers the exit
     * status. `options` is the filled struct, or NULL when options_size is 0. */
    int (*run)(struct cli *cli, void *options, int argc, char **argv);
};

/* Tells the error (one line and a hint on stderr; with --json {"error": {code, message, hint}} on
 * stdout) and answers the exit status that belongs to it. */
MUST_CHECK int cli_fail(const struct cli *cli, const struct error *err);

/* The same for a misuse that the command finds by itself. */
MUST_CHECK int cli_misuse(const struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Where helper programs and recipes are: the configured path, else where `meson install` puts them
 * relative to the running program, else beside it as in a build tree. Owned by the caller. */
char *cli_program_path(const struct cli *cli, const char *name); /* "cove-init" */
char *cli_spawner_path(const struct cli *cli);
char *cli_recipes_dir(const struct cli *cli);
