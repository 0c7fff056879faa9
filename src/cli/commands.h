/* commands.h - the table of all commands; a new one is its file and a line here and in commands.c
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"

struct command;

extern const struct command cmd_cache;
extern const struct command cmd_config;
extern const struct command cmd_cp;
extern const struct command cmd_doctor;
extern const struct command cmd_exec;
extern const struct command cmd_help;
extern const struct command cmd_image;
extern const struct command cmd_key;
extern const struct command cmd_workspace;
extern const struct command cmd_logs;
extern const struct command cmd_repl;
extern const struct command cmd_run;
extern const struct command cmd_serve;
extern const struct command cmd_session;
extern const struct command cmd_template;
extern const struct command cmd_mcp;
extern const struct command cmd_top;
extern const struct command cmd_version;

extern const struct command *const commands_all[]; /* of this program; NULL-terminated */

/* The row of that name in `table` (which may be NULL); else NULL with *err filled, the nearest name
 * as its hint. */
const struct command *commands_find(const struct command *const *table, const char *name,
                                    struct error *err);
