/* cli.c - helpers that subcommands share: telling errors, finding what is installed with us */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "codec/json.h"

#define LINE_MAX_BYTES (4 * KIB)

/* Messages quote what the user typed or a file held; a terminal must not act on it. */
static void add_printable(struct strbuf *out, const char *text)
{
    scoped_strbuf struct strbuf clean;
    strbuf_init(&clean, LINE_MAX_BYTES);
    utf8_add_clean(&clean, text, strlen(text));
    for (const char *p = strbuf_str(&clean); *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            strbuf_add_fmt(out, "\\x%02x", (unsigned char)*p);
        else
            strbuf_add_char(out, *p);
    }
}

static void tell_json(const struct error *err)
{
    const struct error_info *info = error_info(err->code);
    scoped_json json_t *answer = json_pack("{s:{s:s, s:o, s:o}}", "error", "code", info->name,
                                           "message", json_text_or_null(err->msg), "hint",
                                           json_text_or_null(err->hint[0] ? err->hint : NULL));
    if (err->retry_ms)
        json_object_set_new(json_object_get(answer, "error"), "retry_ms",
                            json_integer(err->retry_ms));
    struct error ignored = {.msg = ""}; /* nobody is left to tell */
    (void)!json_write(STDOUT_FILENO, answer, JSON_STYLE_COMPACT, &ignored);
}

static void tell_person(const struct error *err)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 4 * LINE_MAX_BYTES);
    strbuf_add_str(&text, "cove: ");
    add_printable(&text, err->msg);
    if (err->hint[0]) {
        strbuf_add_str(&text, "\n      ");
        add_printable(&text, err->hint);
    }
    strbuf_add_char(&text, '\n');
    struct error ignored = {.msg = ""};
    (void)!fd_write_all(STDERR_FILENO, strbuf_str(&text), text.len, &ignored);
}

int cli_fail(const struct cli *cli, const struct error *err)
{
    if (cli->config.json)
        tell_json(err);
    else
        tell_person(err);
    return error_info(err->code)->exit_status;
}

int cli_misuse(const struct cli *cli, const char *fmt, ...)
{
    struct error err = {.code = ERROR_INVALID};
    va_list args;
    va_start(args, fmt);
    vsnprintf(err.msg, sizeof(err.msg), fmt, args);
    va_end(args);
    return cli_fail(cli, &err);
}

/* Owned path, relative to our own folder: `installed` when that exists, else `near`, as in a build
 * tree. Never the other way: an installed program must not take up what happens to lie beside it.
 */
static char *find_beside(const struct cli *cli, const char *installed, const char *near)
{
    char *path = xasprintf("%s/%s", cli->exe_dir, installed);
    if (access(path, F_OK) == 0)
        return path;
    free(path);
    return xasprintf("%s/%s", cli->exe_dir, near);
}

char *cli_program_path(const struct cli *cli, const char *name)
{
    scoped_free char *installed = xasprintf("../" COVE_LIBEXEC "/cove/%s", name);
    return find_beside(cli, installed, name);
}

char *cli_spawner_path(const struct cli *cli)
{
    return cli->config.spawner ? xstrdup(cli->config.spawner)
                               : cli_program_path(cli, "cove-spawner");
}

char *cli_recipes_dir(const struct cli *cli)
{
    return cli->config.recipes_dir
               ? xstrdup(cli->config.recipes_dir)
               : find_beside(cli, "../" COVE_DATADIR "/cove/images", "../images");
}
