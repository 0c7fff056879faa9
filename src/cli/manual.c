/* manual.c - roff and bash from the tables of commands and options; run once, at build time */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manual.h"

#include <string.h>

#include "base/option.h"
#include "base/strbuf.h"
#include "cli/cli.h"

#define NAME_MAX_BYTES 256

/* --- roff ----------------------------------------------------------------------------------- */

/* A dash that may be typed is \-, a backslash is \e, and a line must not begin with . or '. */
static void add_roff(struct strbuf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        bool is_line_start = p == text || p[-1] == '\n';
        if (is_line_start && (*p == '.' || *p == '\''))
            strbuf_add_str(out, "\\&");
        if (*p == '\\')
            strbuf_add_str(out, "\\e");
        else if (*p == '-')
            strbuf_add_str(out, "\\-");
        else
            strbuf_add_char(out, *p);
    }
}

static void add_paragraphs(struct strbuf *out, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        scoped_strbuf struct strbuf paragraph;
        strbuf_init(&paragraph, len + 1);
        strbuf_add(&paragraph, text, len);
        bool is_example = *text == ' ';
        strbuf_add_str(out, is_example ? ".PP\n.nf\n" : ".PP\n");
        add_roff(out, strbuf_str(&paragraph));
        strbuf_add_str(out, is_example ? "\n.fi\n" : "\n");
        text += len;
        text += strspn(text, "\n");
    }
}

static void add_names(struct strbuf *out, const struct option_row *row)
{
    strbuf_add_str(out, ".TP\n");
    if (row->short_name)
        strbuf_add_fmt(out, "\\fB\\-%c\\fR, ", row->short_name);
    strbuf_add_str(out, "\\fB\\-\\-");
    add_roff(out, row->name);
    strbuf_add_str(out, "\\fR");
    if (row->type == OPTION_BOOL && row->preset) {
        strbuf_add_str(out, ", \\fB\\-\\-no\\-");
        add_roff(out, row->name);
        strbuf_add_str(out, "\\fR");
    } else if (row->type != OPTION_BOOL) {
        strbuf_add_fmt(out, " \\fI%s\\fR", option_arg(row));
    }
    strbuf_add_char(out, '\n');
}

static void add_facts(struct strbuf *out, const struct option_row *row)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 4 * KIB);
    strbuf_add_str(&text, row->help);
    strbuf_add_char(&text, '.');
    if (row->type == OPTION_LIST)
        strbuf_add_str(&text, " May be repeated.");
    if (row->type == OPTION_ENUM || (row->max > 0 && row->type != OPTION_STRING)) {
        strbuf_add_str(&text, " Allowed: ");
        option_add_allowed(row, &text);
        strbuf_add_char(&text, '.');
    }
    if (row->preset)
        strbuf_add_fmt(&text, " Default: %s.", row->preset);
    if (row->flags & OPTION_ENV) {
        strbuf_add_str(&text, " Environment: ");
        option_add_environment_name(row, &text);
        for (size_t i = 0; row->also && row->also[i]; i++)
            strbuf_add_fmt(&text, ", %s", row->also[i]);
        strbuf_add_char(&text, '.');
    }
    add_roff(out, strbuf_str(&text));
    strbuf_add_char(out, '\n');
}

/* `group` NULL means every row. */
static void add_options(struct strbuf *out, const struct option_row *rows, size_t count,
                        const char *group)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].flags & OPTION_HIDDEN)
            continue;
        if (group && (!rows[i].group || strcmp(rows[i].group, group) != 0))
            continue;
        add_names(out, &rows[i]);
        add_facts(out, &rows[i]);
    }
}

static void add_command(struct strbuf *out, const struct command *command, const char *path)
{
    strbuf_add_fmt(out, ".SS %s ", path);
    add_roff(out, command->usage ? command->usage : "COMMAND");
    strbuf_add_char(out, '\n');
    add_roff(out, command->summary);
    strbuf_add_str(out, ".\n");
    if (command->description)
        add_paragraphs(out, command->description);
    add_options(out, command->options, command->option_count, NULL);
    for (size_t i = 0; command->verbs && command->verbs[i]; i++) {
        scoped_strbuf struct strbuf name;
        strbuf_init(&name, NAME_MAX_BYTES);
        strbuf_add_fmt(&name, "%s %s", path, command->verbs[i]->name);
        if (!command->verbs[i]->is_hidden)
            add_command(out, command->verbs[i], strbuf_str(&name));
    }
}

/* One entry per status, which several codes may share; nothing for a code that came before. */
static void add_error_status(struct strbuf *out, enum error_code code)
{
    int status = error_info(code)->exit_status;
    const char *before = "";
    for (int other = 0; other < ERROR_CODE_COUNT; other++) {
        if (error_info((enum error_code)other)->exit_status != status)
            continue;
        if (other < (int)code)
            return;
        if (!*before)
            strbuf_add_fmt(out, ".TP\n%d\nCove itself failed: ", status);
        strbuf_add_fmt(out, "%s%s", before, error_info((enum error_code)other)->name);
        before = ", ";
    }
    strbuf_add_str(out, ".\n");
}

static void add_exit_statuses(struct strbuf *out)
{
    static const struct {
        const char *status, *meaning;
    } rows[] = {
        {"0", "Done; for \\fBcove run\\fR and \\fBcove exec\\fR: the program ended with 0."},
        {"1\\(en123", "For these two: the exit status of the program."},
        {"124", "For these two: the time limit was reached."},
        {"128+N", "For these two: signal N ended the program; 137 is a kill."},
    };
    strbuf_add_str(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        strbuf_add_fmt(out, ".TP\n%s\n%s\n", rows[i].status, rows[i].meaning);
    for (int code = 0; code < ERROR_CODE_COUNT; code++)
        add_error_status(out, (enum error_code)code);
}

void manual_add_roff(struct strbuf *out, const struct command *const *commands)
{
    strbuf_add_str(out, ".\\\" Made by `cove help --man`; change the tables in src/cli instead.\n"
                        ".TH COVE 1 \"\" \"cove " COVE_VERSION "\" \"User Commands\"\n"
                        ".SH NAME\ncove \\- run untrusted code in a sealed sandbox\n"
                        ".SH SYNOPSIS\n\\fBcove\\fR [OPTIONS] COMMAND [OPTIONS] [ARGUMENTS]\n"
                        ".SH DESCRIPTION\nCove runs code that nobody has read yet. The code gets a "
                        "sandbox of its own: namespaces, a root image, a control group with "
                        "limits, no network, and a filter on its system calls.\n"
                        ".SH COMMANDS\n");
    for (size_t i = 0; commands[i]; i++) {
        scoped_strbuf struct strbuf name;
        strbuf_init(&name, NAME_MAX_BYTES);
        strbuf_add_fmt(&name, "cove %s", commands[i]->name);
        if (!commands[i]->is_hidden)
            add_command(out, commands[i], strbuf_str(&name));
    }
    strbuf_add_str(out, ".SH LIMITS\n");
    add_options(out, config_options, config_option_count, CONFIG_GROUP_LIMITS);
    strbuf_add_str(out, ".SH CEILINGS OF A SERVER\n");
    add_options(out, config_options, config_option_count, CONFIG_GROUP_CEILINGS);
    strbuf_add_str(out, ".SH SERVER\n");
    add_options(out, config_options, config_option_count, CONFIG_GROUP_SERVER);
    add_options(out, config_options, config_option_count, CONFIG_GROUP_STORAGE);
    strbuf_add_str(out, ".SH NETWORK OF SANDBOXES\n");
    add_options(out, config_options, config_option_count, CONFIG_GROUP_NETWORK);
    strbuf_add_str(out, ".SH PACKAGES\n");
    add_options(out, config_options, config_option_count, CONFIG_GROUP_PACKAGES);
    strbuf_add_str(out, ".SH SERVER TO TALK TO\n");
    add_options(out, config_options, config_option_count, CONFIG_GROUP_CLIENT);
    strbuf_add_str(out, ".SH GLOBAL OPTIONS\n");
    add_options(out, config_options, config_option_count, CONFIG_GROUP_GLOBAL);
    add_exit_statuses(out);
    strbuf_add_str(out, ".SH FILES\n.TP\n/etc/cove/cove.conf\nConfiguration of the machine.\n"
                        ".TP\n~/.config/cove/cove.conf\nConfiguration of an ordinary user; wins "
                        "over the machine's.\n.PP\n"
                        "Each line is \\fIoption\\fR = \\fIvalue\\fR with the name of a global "
                        "option or a limit; # begins a comment. A flag wins over the environment, "
                        "and that over a file.\n");
}

/* --- bash ----------------------------------------------------------------------------------- */

static void add_option_words(struct strbuf *out, const struct option_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].flags & OPTION_HIDDEN)
            continue;
        strbuf_add_fmt(out, " --%s", rows[i].name);
        if (rows[i].type == OPTION_BOOL && rows[i].preset)
            strbuf_add_fmt(out, " --no-%s", rows[i].name);
    }
}

static void add_words(struct strbuf *out, const struct command *command, const char *path)
{
    strbuf_add_fmt(out, "    '%s')\n        words='", path);
    for (size_t i = 0; command->verbs && command->verbs[i]; i++) {
        if (!command->verbs[i]->is_hidden)
            strbuf_add_fmt(out, " %s", command->verbs[i]->name);
    }
    add_option_words(out, command->options, command->option_count);
    strbuf_add_str(out, "' ;;\n");
    for (size_t i = 0; command->verbs && command->verbs[i]; i++) {
        scoped_strbuf struct strbuf name;
        strbuf_init(&name, NAME_MAX_BYTES);
        strbuf_add_fmt(&name, "%s %s", path, command->verbs[i]->name);
        add_words(out, command->verbs[i], strbuf_str(&name));
    }
}

/* What may follow an option that takes a value: its choices, a folder, or a file. */
static void add_values(struct strbuf *out, const struct option_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct option_row *row = &rows[i];
        if (row->type == OPTION_BOOL || (row->flags & OPTION_HIDDEN))
            continue;
        strbuf_add_str(out, "    ");
        if (row->short_name)
            strbuf_add_fmt(out, "-%c | ", row->short_name);
        strbuf_add_fmt(out, "--%s)\n        ", row->name);
        if (row->type == OPTION_ENUM) {
            strbuf_add_str(out, "COMPREPLY=($(compgen -W '");
            for (size_t c = 0; row->choices[c]; c++)
                strbuf_add_fmt(out, "%s%s", c > 0 ? " " : "", row->choices[c]);
            strbuf_add_str(out, "' -- \"$cur\"))\n        return ;;\n");
        } else if (strcmp(option_arg(row), "DIR") == 0) {
            strbuf_add_str(out, "COMPREPLY=($(compgen -d -- \"$cur\"))\n        return ;;\n");
        } else if (strcmp(option_arg(row), "FILE") == 0) {
            strbuf_add_str(out, "COMPREPLY=($(compgen -f -- \"$cur\"))\n        return ;;\n");
        } else {
            strbuf_add_str(out, "return ;;\n");
        }
    }
}

static void add_all_values(struct strbuf *out, const struct command *const *commands)
{
    for (size_t i = 0; commands[i]; i++) {
        add_values(out, commands[i]->options, commands[i]->option_count);
        if (commands[i]->verbs)
            add_all_values(out, commands[i]->verbs);
    }
}

void manual_add_completion(struct strbuf *out, const struct command *const *commands)
{
    strbuf_add_str(out,
                   "# Made by `cove help --completion`.\n"
                   "_cove() {\n"
                   "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
                   "    local command='' words='' i\n"
                   "    COMPREPLY=()\n"
                   "    case $prev in\n");
    add_values(out, config_options, config_option_count);
    add_all_values(out, commands);
    strbuf_add_str(out, "    esac\n"
                        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                        "        [[ ${COMP_WORDS[i]} == -* ]] && continue\n"
                        "        case \"$command ${COMP_WORDS[i]}\" in\n"
                        "        ");
    bool is_first = true;
    for (size_t i = 0; commands[i]; i++) {
        strbuf_add_fmt(out, "%s' %s'", is_first ? "" : " | ", commands[i]->name);
        is_first = false;
        for (size_t v = 0; commands[i]->verbs && commands[i]->verbs[v]; v++)
            strbuf_add_fmt(out, " | ' %s %s'", commands[i]->name, commands[i]->verbs[v]->name);
    }
    strbuf_add_str(out, ") command+=\" ${COMP_WORDS[i]}\" ;;\n"
                        "        esac\n"
                        "    done\n"
                        "    case $command in\n"
                        "    '')\n        words='");
    for (size_t i = 0; commands[i]; i++) {
        if (!commands[i]->is_hidden)
            strbuf_add_fmt(out, " %s", commands[i]->name);
    }
    strbuf_add_str(out, "' ;;\n");
    for (size_t i = 0; commands[i]; i++) {
        scoped_strbuf struct strbuf name;
        strbuf_init(&name, NAME_MAX_BYTES);
        strbuf_add_fmt(&name, " %s", commands[i]->name);
        add_words(out, commands[i], strbuf_str(&name));
    }
    strbuf_add_str(out, "    esac\n    words+='");
    add_option_words(out, config_options, config_option_count);
    strbuf_add_str(out, "'\n"
                        "    if [[ $cur == -* || -z $command ]]; then\n"
                        "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                        "    else\n"
                        "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\") "
                        "$(compgen -f -- \"$cur\"))\n"
                        "    fi\n"
                        "}\n"
                        "complete -o filenames -F _cove cove\n");
}
