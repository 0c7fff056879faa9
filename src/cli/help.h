/* help.h - help for people, made from the tables of commands and options */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct command;
struct option_row;
struct strbuf;

#define HELP_MAX_BYTES (1 * MIB)

struct help_style {
    unsigned width; /* columns of the terminal */
    bool has_colour;
};

/* `cove help`: every command with its summary. */
void help_add_overview(struct strbuf *out, const struct command *const *commands,
                       const struct help_style *style);

/* `cove help run`, `cove help image build`: `path` is the full name, "cove image build". */
void help_add_command(struct strbuf *out, const struct command *command, const char *path,
                      const struct help_style *style);
