/* help.c - lays tables out in two columns, wrapped to the terminal */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include <stdint.h>
#include <string.h>

#include "base/option.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/term.h"

#define TEXT_WIDTH_MAX 96 /* longer lines are hard to read, however wide the terminal */
#define OPTION_COLUMN  28 /* where the words begin; a longer option has a line of its own */
#define LEFT_MAX_BYTES 512
#define INDENT         2
#define HARD_BLANK     "\v" /* a blank at which no line is broken */

static void add_blanks(struct strbuf *out, size_t count)
{
    while (count-- > 0)
        strbuf_add_char(out, ' ');
}

static void add_word(struct strbuf *out, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++)
        strbuf_add_char(out, word[i] == HARD_BLANK[0] ? ' ' : word[i]);
}

/* Adds `text` word by word from column `at` on; further lines begin at column `indent`. */
static void add_wrapped(struct strbuf *out, const char *text, size_t at, size_t indent,
                        size_t width)
{
    bool is_first = true;
    while (*text) {
        size_t len = strcspn(text, " \n");
        if (len > 0) {
            if (!is_first && at + 1 + len > width) {
                strbuf_add_char(out, '\n');
                add_blanks(out, indent);
                at = indent;
                is_first = true;
            }
            if (!is_first) {
                strbuf_add_char(out, ' ');
                at++;
            }
            add_word(out, text, len);
            at += len;
            is_first = false;
        }
        text += len;
        text += strspn(text, " \n");
    }
    strbuf_add_char(out, '\n');
}

static size_t text_width(const struct help_style *style)
{
    return MIN(style->width, (unsigned)TEXT_WIDTH_MAX);
}

static void add_heading(struct strbuf *out, const char *heading, const struct help_style *style)
{
    strbuf_add_fmt(out, "\n%s%s:%s\n", term_style(style->has_colour, TERM_BOLD), heading,
                   term_style(style->has_colour, TERM_PLAIN));
}

static void add_pair(struct strbuf *out, const char *left, const char *right, size_t column,
                     const struct help_style *style)
{
    size_t at = INDENT + strlen(left);
    add_blanks(out, INDENT);
    strbuf_add_str(out, left);
    if (at + 2 > column) {
        strbuf_add_char(out, '\n');
        at = 0;
    }
    add_blanks(out, column - at);
    add_wrapped(out, right, column, column, MAX(text_width(style), column + 20));
}

/* Paragraphs are split by empty lines; one that begins with a blank is an example, kept as it is.
 */
static void add_paragraphs(struct strbuf *out, const char *text, const struct help_style *style)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        strbuf_add_char(out, '\n');
        if (*text == ' ') {
            strbuf_add(out, text, len);
            strbuf_add_char(out, '\n');
        } else {
            scoped_strbuf struct strbuf paragraph;
            strbuf_init(&paragraph, HELP_MAX_BYTES);
            strbuf_add(&paragraph, text, len);
            add_wrapped(out, strbuf_str(&paragraph), 0, 0, text_width(style));
        }
        text += len;
        text += strspn(text, "\n");
    }
}

/* --- options -------------------------------------------------------------------------------- */

static void add_left(struct strbuf *out, const struct option_row *row)
{
    if (row->short_name)
        strbuf_add_fmt(out, "-%c, ", row->short_name);
    else
        strbuf_add_str(out, "    ");
    bool is_switch = row->type == OPTION_BOOL && row->preset && strcmp(row->preset, "true") == 0;
    strbuf_add_fmt(out, "--%s%s", is_switch ? "[no-]" : "", row->name);
    if (row->type != OPTION_BOOL)
        strbuf_add_fmt(out, " %s", option_arg(row));
}

static void add_right(struct strbuf *out, const struct option_row *row)
{
    strbuf_add_str(out, row->help);
    if (row->type == OPTION_ENUM) {
        strbuf_add_str(out, "; ");
        option_add_allowed(row, out);
    }
    if (row->type == OPTION_LIST)
        strbuf_add_str(out, "; may be repeated");
    if (row->preset && row->type != OPTION_BOOL)
        strbuf_add_fmt(out, " (default:" HARD_BLANK "%s)", row->preset);
}

static bool is_shown(const struct option_row *row, const char *group)
{
    const char *own = row->group ? row->group : "Options";
    return !(row->flags & OPTION_HIDDEN) && strcmp(own, group) == 0;
}

static void add_group(struct strbuf *out, const struct option_row *rows, size_t count,
                      const char *group, const struct help_style *style)
{
    bool has_heading = false;
    for (size_t i = 0; i < count; i++) {
        if (!is_shown(&rows[i], group))
            continue;
        if (!has_heading)
            add_heading(out, group, style);
        has_heading = true;
        scoped_strbuf struct strbuf left, right;
        strbuf_init(&left, LEFT_MAX_BYTES);
        strbuf_init(&right, HELP_MAX_BYTES);
        add_left(&left, &rows[i]);
        add_right(&right, &rows[i]);
        add_pair(out, strbuf_str(&left), strbuf_str(&right), OPTION_COLUMN, style);
    }
}

/* One heading per group, in the order of the rows. */
static void add_groups(struct strbuf *out, const struct option_row *rows, size_t count,
                       const struct help_style *style)
{
    for (size_t i = 0; i < count; i++) {
        const char *group = rows[i].group ? rows[i].group : "Options";
        bool is_new = true;
        for (size_t j = 0; j < i && is_new; j++)
            is_new = strcmp(rows[j].group ? rows[j].group : "Options", group) != 0;
        if (is_new)
            add_group(out, rows, count, group, style);
    }
}

/* --- pages ---------------------------------------------------------------------------------- */

static void add_commands(struct strbuf *out, const struct command *const *commands,
                         const struct help_style *style)
{
    size_t column = 0;
    for (size_t i = 0; commands[i]; i++)
        column = MAX(column, strlen(commands[i]->name));
    add_heading(out, "Commands", style);
    for (size_t i = 0; commands[i]; i++) {
        if (!commands[i]->is_hidden)
            add_pair(out, commands[i]->name, commands[i]->summary, INDENT + column + 2, style);
    }
}

void help_add_overview(struct strbuf *out, const struct command *const *commands,
                       const struct help_style *style)
{
    strbuf_add_str(out, "cove runs code that nobody has read yet, in a sealed sandbox\n");
    add_heading(out, "Usage", style);
    strbuf_add_str(out, "  cove [OPTIONS] COMMAND [OPTIONS] [ARGUMENTS]\n");
    add_commands(out, commands, style);
    add_group(out, config_options, config_option_count, CONFIG_GROUP_GLOBAL, style);
    strbuf_add_str(out, "\n`cove help COMMAND` tells more about a command.\n");
}

void help_add_command(struct strbuf *out, const struct command *command, const char *path,
                      const struct help_style *style)
{
    size_t width = text_width(style), path_len = strlen(path);
    strbuf_add_fmt(out, "%s: ", path);
    add_wrapped(out, command->summary, path_len + 2, 0, width);
    add_heading(out, "Usage", style);
    strbuf_add_fmt(out, "  %s ", path);
    add_wrapped(out, command->usage ? command->usage : "COMMAND [OPTIONS]", path_len + 3,
                path_len + 3, width);
    if (command->description)
        add_paragraphs(out, command->description, style);
    if (command->verbs)
        add_commands(out, command->verbs, style);
    add_groups(out, command->options, command->option_count, style);
    if (command->config_group && strcmp(command->config_group, CONFIG_GROUP_ALL) == 0) {
        add_groups(out, config_options, config_option_count, style);
        return;
    }
    if (command->config_group)
        add_group(out, config_options, config_option_count, command->config_group, style);
    add_group(out, config_options, config_option_count, CONFIG_GROUP_GLOBAL, style);
}
