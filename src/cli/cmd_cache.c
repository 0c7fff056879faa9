/* cmd_cache.c - `cove cache list|prune`: the packages that runs have installed */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/term.h"
#include "cli/term_text.h"
#include "codec/json.h"
#include "image/layer_cache.h"

#define OUTPUT_MAX_BYTES (4 * MIB)
#define SHORT_DIGEST     12
#define NS_PER_MS        1000000ll
#define INSIST_MS        2000 /* a server looks twice a second */
#define PAUSE_US         20000

/* --- list --------------------------------------------------------------------------------------
 */

static json_t *time_json(int64_t wall_ns)
{
    char text[CLOCK_TEXT_BYTES];
    if (wall_ns <= 0)
        return json_null();
    clock_format(wall_ns, text);
    return json_string(text);
}

static json_t *layer_json(const struct layer_info *l)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "digest", l->name, "language",
                     json_text_or_null(l->language), "requirements",
                     json_text_or_null(l->requirements), "size_bytes", json_number(l->bytes),
                     "entries", json_number(l->entries), "created_at", time_json(l->created_ns),
                     "last_used_at", time_json(l->used_ns), "in_use", (int)l->is_in_use);
}

/* "12 s", "3 h": as exact as anybody wants it. */
static void format_age(int64_t since_ns, char out[FORMAT_BYTES])
{
    static const struct {
        int64_t seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    int64_t age = since_ns > 0 ? MAX((clock_wall_ns() - since_ns) / 1000000000, 0) : 0;
    size_t i = 0;
    while (i + 1 < ARRAY_LEN(units) && age < units[i].seconds)
        i++;
    snprintf(out, FORMAT_BYTES, since_ns > 0 ? "%" PRId64 " %s" : "-", age / units[i].seconds,
             units[i].unit);
}

/* What a client has written there. */
static void add_text(struct strbuf *out, const char *text)
{
    term_text_add(out, text ? text : "?", text ? strlen(text) : 1, false);
}

static void add_line(struct strbuf *out, const struct layer_info *l)
{
    char created[FORMAT_BYTES], used[FORMAT_BYTES], size[FORMAT_BYTES];
    format_age(l->created_ns, created);
    format_age(l->used_ns, used);
    snprintf(size, sizeof(size), "%.1f MB", (double)l->bytes / (double)MIB);
    strbuf_add_fmt(out, "%.*s  %10s  %8s  %9s  %-6s  ", SHORT_DIGEST, l->name, size, created, used,
                   l->is_in_use ? "in use" : "");
    add_text(out, l->language);
    strbuf_add_str(out, ": ");
    add_text(out, l->requirements);
    strbuf_add_str(out, "\n");
}

static int print_table(const struct layer_cache *cache, struct error *err)
{
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, OUTPUT_MAX_BYTES);
    if (cache->count == 0)
        strbuf_add_str(&out, "No packages are kept: `cove run --with NAME` installs some.\n");
    else
        strbuf_add_fmt(&out, "%-*s  %10s  %8s  %9s  %-6s  %s\n", SHORT_DIGEST, "DIGEST", "SIZE",
                       "AGE", "LAST USED", "", "PACKAGES");
    for (size_t i = 0; i < cache->count; i++)
        add_line(&out, &cache->items[i]);
    return fd_write_all(STDOUT_FILENO, strbuf_str(&out), out.len, err);
}

static int print_json(const struct layer_cache *cache, struct error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < cache->count; i++)
        json_array_append_new(list, layer_json(&cache->items[i]));
    scoped_json json_t *answer = json_pack("{s:o}", "layers", list);
    return json_write(STDOUT_FILENO, answer, JSON_STYLE_PRETTY, err);
}

static int run_list(struct cli *cli, void *options, int argc, char **argv)
{
    (void)options, (void)argc, (void)argv;
    struct error err;
    scoped_layer_cache struct layer_cache cache = {.fd = -1};
    if (layer_cache_open(&cache, cli->config.data_dir, &err) < 0 ||
        (cli->config.json ? print_json(&cache, &err) : print_table(&cache, &err)) < 0)
        return cli_fail(cli, &err);
    return 0;
}

/* --- prune -------------------------------------------------------------------------------------
 */

struct prune_options {
    bool all;
    uint64_t unused_for_ms;
    uint64_t max_size_bytes; /* 0: any */
};

/* The list begins with what was used last: behind max_size the rest goes, whatever its age. */
static bool is_due(const struct prune_options *o, const struct layer_info *l, uint64_t kept_bytes)
{
    int64_t idle_ms = (clock_wall_ns() - l->used_ns) / NS_PER_MS;
    return o->all || idle_ms >= (int64_t)o->unused_for_ms ||
           (o->max_size_bytes && kept_bytes + l->bytes > o->max_size_bytes);
}

static int remove_one(const struct layer_cache *cache, const struct layer_info *l, json_t *removed,
                      bool *is_removed, struct error *err)
{
    if (layer_cache_remove(cache, l, is_removed, err) < 0)
        return -1;
    if (*is_removed)
        json_array_append_new(removed, layer_json(l));
    return 0;
}

/* Those that are due and in use: by a sandbox that nobody has, perhaps, and that is let go then. */
static int insist(const struct layer_cache *cache, int *claims, json_t *removed, struct error *err)
{
    int64_t end = clock_now_ns() + INSIST_MS * NS_PER_MS;
    bool is_waiting = true;
    while (is_waiting && clock_now_ns() < end) {
        is_waiting = false;
        for (size_t i = 0; i < cache->count; i++) {
            bool is_removed = false;
            if (claims[i] < 0)
                continue;
            if (remove_one(cache, &cache->items[i], removed, &is_removed, err) < 0)
                return -1;
            is_waiting = is_waiting || !is_removed;
            if (is_removed) {
                close(claims[i]);
                claims[i] = -1;
            }
        }
        if (is_waiting)
            usleep(PAUSE_US);
    }
    return 0;
}

static int prune(const struct layer_cache *cache, const struct prune_options *o, json_t *removed,
                 struct error *err)
{
    uint64_t kept_bytes = 0;
    int status = 0;
    int *claims = xcalloc(cache->count + 1, sizeof(*claims));
    for (size_t i = 0; i < cache->count; i++) {
        const struct layer_info *l = &cache->items[i];
        bool is_removed = false, is_wanted = is_due(o, l, kept_bytes);
        if (status == 0 && is_wanted)
            status = remove_one(cache, l, removed, &is_removed, err);
        claims[i] = status == 0 && is_wanted && !is_removed ? layer_cache_claim(cache, l) : -1;
        kept_bytes += is_removed ? 0 : l->bytes;
    }
    if (status == 0)
        status = insist(cache, claims, removed, err);
    for (size_t i = 0; i < cache->count; i++)
        scoped_close_fd(&claims[i]);
    free(claims);
    return status;
}

static int tell(const struct cli *cli, json_t *removed, struct error *err)
{
    if (cli->config.json) {
        scoped_json json_t *answer = json_pack("{s:O}", "removed", removed);
        return json_write(STDOUT_FILENO, answer, JSON_STYLE_PRETTY, err);
    }
    scoped_strbuf struct strbuf text;
    uint64_t bytes = 0;
    size_t i;
    const json_t *item;
    strbuf_init(&text, OUTPUT_MAX_BYTES);
    json_array_foreach(removed, i, item)
    {
        bytes += (uint64_t)json_integer_value(json_object_get(item, "size_bytes"));
        strbuf_add_fmt(&text, "removed %.*s  ", SHORT_DIGEST,
                       json_string_value(json_object_get(item, "digest")));
        add_text(&text, json_string_value(json_object_get(item, "requirements")));
        strbuf_add_str(&text, "\n");
    }
    strbuf_add_fmt(&text, "%zu removed, %.1f MB\n", json_array_size(removed),
                   (double)bytes / (double)MIB);
    return fd_write_all(STDOUT_FILENO, strbuf_str(&text), text.len, err);
}

static int run_prune(struct cli *cli, void *options, int argc, char **argv)
{
    (void)argc, (void)argv;
    struct error err;
    scoped_json json_t *removed = json_array();
    scoped_layer_cache struct layer_cache cache = {.fd = -1};
    if (layer_cache_open(&cache, cli->config.data_dir, &err) < 0 ||
        prune(&cache, options, removed, &err) < 0 || tell(cli, removed, &err) < 0)
        return cli_fail(cli, &err);
    return 0;
}

/* --- the commands ------------------------------------------------------------------------------
 */

static const struct command cache_list = {
    .name = "list",
    .summary = "List what is kept, with its size, its age and its last use",
    .usage = "[OPTIONS]",
    .has_no_arguments = true,
    .run = run_list,
};

#define AT(field) offsetof(struct prune_options, field)

static const struct option_row prune_rows[] = {
    {.name = "all",
     .type = OPTION_BOOL,
     .offset = AT(all),
     .help = "Remove all that is not in use"},
    {.name = "unused-for",
     .type = OPTION_DURATION_MS,
     .offset = AT(unused_for_ms),
     .preset = "720h",
     .help = "Remove what nobody has used for so long"},
    {.name = "max-size",
     .type = OPTION_SIZE,
     .offset = AT(max_size_bytes),
     .preset = "0",
     .help = "And of the rest what was used longest ago, until no more than this is left (0: any)"},
};

static const struct command cache_prune = {
    .name = "prune",
    .summary = "Remove packages that nobody needs any more",
    .usage = "[OPTIONS]",
    .description = "What a run or a session uses stays. What is removed is installed again when "
                   "somebody asks for it, in the versions that the index has then.",
    .options = prune_rows,
    .option_count = ARRAY_LEN(prune_rows),
    .options_size = sizeof(struct prune_options),
    .has_no_arguments = true,
    .run = run_prune,
};

static const struct command *const cache_verbs[] = {&cache_list, &cache_prune, NULL};

const struct command cmd_cache = {
    .name = "cache",
    .summary = "List and remove the packages that runs have installed",
    .usage = "COMMAND",
    .verbs = cache_verbs,
};
