/* cmd_config.c - `cove config`: every option, its value, and where that came from */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/term.h"
#include "codec/json.h"

#define TABLE_MAX_BYTES (1 * MIB)
#define VALUE_MAX_BYTES (64 * KIB)
#define COLUMN_MAX      40 /* a longer value shifts its own line only */

static bool is_listed(const struct option_row *row)
{
    return (row->flags & OPTION_CONFIG) && !(row->flags & OPTION_HIDDEN);
}

static void show_value(const struct option_set *set, size_t row, struct strbuf *out)
{
    strbuf_clear(out);
    option_add_value(set, row, out);
    if (out->len == 0)
        strbuf_add_char(out, '-');
}

static void add_row(struct strbuf *out, int name_width, int value_width, const char *const cells[3],
                    bool has_colour, enum term_style style)
{
    strbuf_add_fmt(out, "%-*s  %-*s  %s%s%s\n", name_width, cells[0], value_width, cells[1],
                   term_style(has_colour, style), cells[2], term_style(has_colour, TERM_PLAIN));
}

static void add_table(struct strbuf *out, const struct option_set *set, bool has_colour)
{
    scoped_strbuf struct strbuf value;
    strbuf_init(&value, VALUE_MAX_BYTES);
    size_t name_width = strlen("OPTION"), value_width = strlen("VALUE");
    for (size_t i = 0; i < set->count; i++) {
        if (!is_listed(&set->rows[i]))
            continue;
        show_value(set, i, &value);
        name_width = MAX(name_width, strlen(set->rows[i].name));
        if (value.len <= COLUMN_MAX)
            value_width = MAX(value_width, value.len);
    }
    const char *const head[3] = {"OPTION", "VALUE", "FROM"};
    add_row(out, (int)name_width, (int)value_width, head, has_colour, TERM_PLAIN);
    for (size_t i = 0; i < set->count; i++) {
        if (!is_listed(&set->rows[i]))
            continue;
        show_value(set, i, &value);
        const char *const cells[3] = {set->rows[i].name, strbuf_str(&value), option_origin(set, i)};
        add_row(out, (int)name_width, (int)value_width, cells, has_colour,
                option_is_set(set, i) ? TERM_GREEN : TERM_DIM);
    }
}

/* The value in its own type: bytes and milliseconds as numbers, no value as null. */
static json_t *typed_value(const struct option_set *set, size_t row)
{
    const struct option_row *option = &set->rows[row];
    const void *field = (const char *)set->target + option->offset;
    const struct option_list *list = field;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, VALUE_MAX_BYTES);
    option_add_value(set, row, &text);
    json_t *items;

    switch (option->type) {
    case OPTION_BOOL:
        return json_boolean(*(const bool *)field);
    case OPTION_U64:
    case OPTION_SIZE:
    case OPTION_DURATION_MS:
        return json_number(*(const uint64_t *)field);
    case OPTION_MILLI:
        return json_real((double)*(const uint64_t *)field / 1000);
    case OPTION_LIST:
        items = json_array();
        for (size_t i = 0; i < list->count; i++)
            json_array_append_new(items, json_text_or_null(list->items[i]));
        return items;
    case OPTION_STRING:
    case OPTION_ENUM:
        break;
    }
    return json_text_or_null(text.len > 0 ? strbuf_str(&text) : NULL);
}

static json_t *build_json(const struct option_set *set)
{
    json_t *list = json_array();
    scoped_strbuf struct strbuf text, name;
    strbuf_init(&text, VALUE_MAX_BYTES);
    strbuf_init(&name, VALUE_MAX_BYTES);
    for (size_t i = 0; i < set->count; i++) {
        if (!is_listed(&set->rows[i]))
            continue;
        strbuf_clear(&text);
        strbuf_clear(&name);
        option_add_value(set, i, &text);
        option_add_environment_name(&set->rows[i], &name);
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:o, s:o, s:s, s:s}", "name", set->rows[i].name, "value",
                            typed_value(set, i), "text", json_text(strbuf_str(&text), text.len),
                            "origin", json_text_or_null(option_origin(set, i)), "environment",
                            strbuf_str(&name), "help", set->rows[i].help));
    }
    return json_pack("{s:o}", "options", list);
}

static int run(struct cli *cli, void *options, int argc, char **argv)
{
    (void)options;
    (void)argc;
    (void)argv;
    struct error err;
    int status;
    if (cli->config.json) {
        scoped_json json_t *answer = build_json(&cli->config_set);
        status = json_write(STDOUT_FILENO, answer, JSON_STYLE_PRETTY, &err);
    } else {
        scoped_strbuf struct strbuf table;
        strbuf_init(&table, TABLE_MAX_BYTES);
        add_table(&table, &cli->config_set, term_has_colour(STDOUT_FILENO));
        status = fd_write_all(STDOUT_FILENO, strbuf_str(&table), table.len, &err);
    }
    return status < 0 ? cli_fail(cli, &err) : 0;
}

const struct command cmd_config = {
    .name = "config",
    .summary = "Show every option, its value and where it came from",
    .usage = "[OPTIONS]",
    .description = "Each value comes from the first of: a flag (--data-dir), the environment "
                   "(COVE_DATA_DIR), a configuration file (data-dir = ...), the preset.",
    .config_group = CONFIG_GROUP_ALL,
    .has_no_arguments = true,
    .run = run,
};
