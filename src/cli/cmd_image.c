/* cmd_image.c - `cove image build|import|list|rm`
 *
 * Only the store of the data directory is changed; the system's is looked at too. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/term.h"
#include "codec/json.h"
#include "image/arguments.h"
#include "image/build.h"
#include "image/image_store.h"
#include "image/import.h"
#include "image/runner.h"

#define OUTPUT_MAX_BYTES (1 * MIB)
#define IMAGE_UMASK      022 /* images are for everybody to read, and so is what the tools make */
#define SHORT_DIGEST     12  /* characters that people see */
#define SOURCE_WIDTH     20
#define PREFIX_MIN       8 /* characters that `rm` takes for a digest */

/* --- what is shown of an image ---------------------------------------------------------------- */

struct row {
    char *tag; /* NULL: none stands for it any more */
    char *data_dir;
    char *languages; /* "javascript, typescript" */
    struct image_info info;
};

struct table {
    struct row *rows;
    size_t count;
    const struct image_store *store; /* being read */
    size_t store_first;              /* its first row */
};

static void table_release(struct table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        free(table->rows[i].tag);
        free(table->rows[i].data_dir);
        free(table->rows[i].languages);
    }
    free(table->rows);
}

#define scoped_table __attribute__((cleanup(table_release)))

static char *languages_of(const struct image_store *store, const uint8_t digest[SHA256_BYTES])
{
    scoped_runner_list struct runner_list runners = {0};
    scoped_strbuf struct strbuf text;
    struct error ignored; /* shown as an image without languages */
    scoped_fd int fd = -1;
    strbuf_init(&text, OUTPUT_MAX_BYTES);
    if (image_store_open_image(store, digest, &fd, &ignored) == 0 &&
        runner_list_parse(&runners, fd, RUNNER_CONF, &ignored) == 0) {
        for (size_t i = 0; i < runners.count; i++)
            strbuf_add_fmt(&text, "%s%s", i ? ", " : "", runners.items[i].language);
    }
    return xstrdup(strbuf_str(&text));
}

static void add_row(struct table *table, const char *tag, const uint8_t digest[SHA256_BYTES])
{
    struct error
        ignored; /* an image without its facts is still listed, so that it can be removed */
    table->rows = xrealloc(table->rows, (table->count + 1) * sizeof(*table->rows));
    struct row *row = &table->rows[table->count++];
    *row = (struct row){.tag = tag ? xstrdup(tag) : NULL};
    row->data_dir = xstrdup(image_store_data_dir(table->store));
    row->languages = languages_of(table->store, digest);
    memcpy(row->info.digest, digest, SHA256_BYTES);
    (void)!image_store_info(table->store, digest, &row->info, &ignored);
}

static int add_tagged(void *ctx, const char *name, const uint8_t digest[SHA256_BYTES],
                      struct error *err)
{
    (void)err;
    add_row(ctx, name, digest);
    return 0;
}

static int add_untagged(void *ctx, const uint8_t digest[SHA256_BYTES], struct error *err)
{
    struct table *table = ctx;
    (void)err;
    for (size_t i = table->store_first; i < table->count; i++) {
        if (memcmp(table->rows[i].info.digest, digest, SHA256_BYTES) == 0)
            return 0;
    }
    add_row(table, NULL, digest);
    return 0;
}

static int add_store(struct table *table, const char *data_dir, struct error *err)
{
    scoped(image_store) struct image_store *store = NULL;
    struct error why;
    if (image_store_open(&store, data_dir, &why) < 0) {
        if (why.code == ERROR_NOT_FOUND)
            return 0;
        *err = why;
        return -1;
    }
    table->store = store;
    table->store_first = table->count;
    if (image_store_tags(store, add_tagged, table, err) < 0)
        return -1;
    return image_store_images(store, add_untagged, table, err);
}

static json_t *row_json(const struct row *row)
{
    char hex[SHA256_HEX_BYTES];
    format_hex(row->info.digest, SHA256_BYTES, hex);
    json_t *languages = json_array();
    for (const char *p = row->languages; *p; p += strspn(p, ", ")) {
        size_t len = strcspn(p, ",");
        json_array_append_new(languages, json_text(p, len));
        p += len;
    }
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                     json_text_or_null(row->tag), "digest", hex, "languages", languages,
                     "size_bytes", json_number(row->info.size_bytes), "entries",
                     json_number(row->info.entries), "created_at",
                     json_text_or_null(row->info.created[0] ? row->info.created : NULL), "source",
                     json_text_or_null(row->info.source[0] ? row->info.source : NULL), "data_dir",
                     json_text_or_null(row->data_dir));
}

static int print_json(const struct table *table, const char *key, struct error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < table->count; i++)
        json_array_append_new(list, row_json(&table->rows[i]));
    scoped_json json_t *answer = json_pack("{s:o}", key, list);
    return json_write(STDOUT_FILENO, answer, JSON_STYLE_PRETTY, err);
}

static void format_megabytes(uint64_t bytes, char out[FORMAT_BYTES])
{
    snprintf(out, FORMAT_BYTES, "%.*f MB", bytes < 10 * MIB ? 1 : 0, (double)bytes / (double)MIB);
}

static void add_line(struct strbuf *out, const struct row *row, int name_width, int language_width,
                     bool has_colour)
{
    char hex[SHA256_HEX_BYTES], size[FORMAT_BYTES];
    format_hex(row->info.digest, SHA256_BYTES, hex);
    format_megabytes(row->info.size_bytes, size);
    strbuf_add_fmt(out, "%s%-*s%s  %-*s  %.*s  %8s  %-16.16s  %-*s  %s\n",
                   term_style(has_colour, row->tag ? TERM_BOLD : TERM_DIM), name_width,
                   row->tag ? row->tag : "(unused)", term_style(has_colour, TERM_PLAIN),
                   language_width, row->languages, SHORT_DIGEST, hex, size, row->info.created,
                   SOURCE_WIDTH, row->info.source, row->data_dir);
}

static int print_table(const struct table *table, struct error *err)
{
    bool has_colour = term_has_colour(STDOUT_FILENO);
    size_t name_width = strlen("(unused)"), language_width = strlen("LANGUAGES");
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, OUTPUT_MAX_BYTES);
    for (size_t i = 0; i < table->count; i++) {
        const struct row *row = &table->rows[i];
        name_width = MAX(name_width, row->tag ? strlen(row->tag) : 0);
        language_width = MAX(language_width, strlen(row->languages));
    }
    strbuf_add_fmt(&out, "%-*s  %-*s  %-*s  %8s  %-16s  %-*s  %s\n", (int)name_width, "NAME",
                   (int)language_width, "LANGUAGES", SHORT_DIGEST, "DIGEST", "SIZE", "CREATED",
                   SOURCE_WIDTH, "SOURCE", "DATA DIRECTORY");
    for (size_t i = 0; i < table->count; i++)
        add_line(&out, &table->rows[i], (int)name_width, (int)language_width, has_colour);
    if (table->count == 0) {
        strbuf_clear(&out);
        strbuf_add_str(&out, "No images yet: `cove image build` makes the default ones.\n");
    }
    return fd_write_all(STDOUT_FILENO, strbuf_str(&out), out.len, err);
}

/* --- build and import ------------------------------------------------------------------------- */

/* One image in the making, as its watcher sees it. */
struct watch {
    struct term_bar bar;
    bool is_quiet;
    const char *name;
    int64_t begin_ns;
};

static void show_progress(void *ctx, const char *phase, unsigned percent)
{
    struct watch *watch = ctx;
    char label[sizeof(watch->bar.label)];
    snprintf(label, sizeof(label), "%s: %s", watch->name, phase);
    if (!watch->is_quiet)
        term_bar_update(&watch->bar, label, percent, 100);
}

static void watch_begin(struct watch *watch, const struct cli *cli, const char *name)
{
    *watch = (struct watch){.is_quiet = cli->config.json, .name = name};
    watch->begin_ns = clock_now_ns();
    term_bar_init(&watch->bar, STDERR_FILENO);
}

/* The image that was made joins the table and is told to people. */
static int watch_end(struct watch *watch, const struct image_store *store, struct table *made,
                     const uint8_t digest[SHA256_BYTES], struct error *err)
{
    char size[FORMAT_BYTES];
    scoped_strbuf struct strbuf line;
    strbuf_init(&line, OUTPUT_MAX_BYTES);
    made->store = store;
    add_row(made, watch->name, digest);
    if (watch->is_quiet)
        return 0;
    const struct row *row = &made->rows[made->count - 1];
    format_megabytes(row->info.size_bytes, size);
    term_bar_finish(&watch->bar);
    strbuf_add_fmt(&line, "%s: ready, %s, runs %s (%.1f s)\n", watch->name, size, row->languages,
                   (double)(clock_now_ns() - watch->begin_ns) / 1e9);
    return fd_write_all(STDOUT_FILENO, strbuf_str(&line), line.len, err);
}

struct build_options {
    bool missing;
};

static bool is_there(const char *data_dir, const char *name)
{
    const char *dirs[IMAGE_STORE_DIRS];
    uint8_t digest[SHA256_BYTES];
    struct error ignored;
    image_store_dirs(data_dir, dirs);
    for (size_t i = 0; dirs[i]; i++) {
        scoped(image_store) struct image_store *store = NULL;
        if (image_store_open(&store, dirs[i], &ignored) == 0 &&
            image_store_resolve(store, name, digest, &ignored) == 0)
            return true;
    }
    return false;
}

static int build_one(struct cli *cli, const struct image_store *store, const char *recipes_dir,
                     const char *name, struct table *made, struct error *err)
{
    struct watch watch;
    uint8_t digest[SHA256_BYTES];
    watch_begin(&watch, cli, name);
    struct build_request request = {
        .recipes_dir = recipes_dir, .name = name, .progress = {show_progress, &watch}};
    if (build_image(store, &request, digest, err) < 0) {
        term_bar_finish(&watch.bar);
        return -1;
    }
    return watch_end(&watch, store, made, digest, err);
}

static int build_all(struct cli *cli, const struct build_options *options, int argc, char **argv,
                     struct error *err)
{
    scoped_free char *recipes_dir = cli_recipes_dir(cli);
    scoped(image_store) struct image_store *store = NULL;
    scoped_arguments struct arguments names = {0};
    scoped_table struct table made = {0};
    for (int i = 0; i < argc; i++)
        arguments_add(&names, "%s", argv[i]);
    if ((argc == 0 && build_recipes(recipes_dir, &names, err) < 0) ||
        image_store_create(&store, cli->config.data_dir, err) < 0)
        return -1;
    for (size_t i = 0; i < names.count; i++) {
        if (options->missing && is_there(cli->config.data_dir, names.items[i]))
            continue;
        if (build_one(cli, store, recipes_dir, names.items[i], &made, err) < 0)
            return -1;
    }
    return cli->config.json ? print_json(&made, "images", err) : 0;
}

static int run_build(struct cli *cli, void *options, int argc, char **argv)
{
    struct error err;
    umask(IMAGE_UMASK);
    return build_all(cli, options, argc, argv, &err) < 0 ? cli_fail(cli, &err) : 0;
}

struct import_options {
    char *runner;
};

static int import_one(struct cli *cli, const struct import_options *options, const char *name,
                      const char *source, struct error *err)
{
    scoped(image_store) struct image_store *store = NULL;
    scoped_table struct table made = {0};
    struct watch watch;
    uint8_t digest[SHA256_BYTES];
    if (image_store_create(&store, cli->config.data_dir, err) < 0)
        return -1;
    watch_begin(&watch, cli, name);
    struct import_request request = {.name = name,
                                     .source = source,
                                     .runner_dir = options->runner,
                                     .progress = {show_progress, &watch}};
    if (import_image(store, &request, digest, err) < 0) {
        term_bar_finish(&watch.bar);
        return -1;
    }
    if (watch_end(&watch, store, &made, digest, err) < 0)
        return -1;
    return cli->config.json ? print_json(&made, "images", err) : 0;
}

static int run_import(struct cli *cli, void *options, int argc, char **argv)
{
    struct error err;
    if (argc != 2)
        return cli_misuse(cli, "'cove image import' takes a name and an archive, like "
                               "`cove image import ruby ruby.tar`");
    umask(IMAGE_UMASK);
    return import_one(cli, options, argv[0], argv[1], &err) < 0 ? cli_fail(cli, &err) : 0;
}

/* --- list and rm ------------------------------------------------------------------------------ */

static int run_list(struct cli *cli, void *options, int argc, char **argv)
{
    scoped_table struct table table = {0};
    const char *dirs[IMAGE_STORE_DIRS];
    struct error err;
    (void)options;
    (void)argc;
    (void)argv;
    image_store_dirs(cli->config.data_dir, dirs);
    for (size_t i = 0; dirs[i]; i++) {
        if (add_store(&table, dirs[i], &err) < 0)
            return cli_fail(cli, &err);
    }
    int status = cli->config.json ? print_json(&table, "images", &err) : print_table(&table, &err);
    return status < 0 ? cli_fail(cli, &err) : 0;
}

struct rm_options {
    bool unused;
};

static bool matches(const struct row *row, const char *word)
{
    char hex[SHA256_HEX_BYTES];
    format_hex(row->info.digest, SHA256_BYTES, hex);
    if (row->tag && strcmp(row->tag, word) == 0)
        return true;
    return !row->tag && strlen(word) >= PREFIX_MIN && strncmp(hex, word, strlen(word)) == 0;
}

/* A tag goes, and its image with the last tag that stands for it. */
static int remove_row(const struct image_store *store, const struct row *row, struct error *err)
{
    if (row->tag && image_store_untag(store, row->tag, err) < 0)
        return -1;
    if (image_store_remove(store, row->info.digest, err) == 0)
        return 0;
    return row->tag && err->code == ERROR_CONFLICT ? 0 : -1;
}

static int remove_word(const struct image_store *store, const struct table *table, const char *word,
                       struct table *removed, struct error *err)
{
    size_t found = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct row *row = &table->rows[i];
        if (!matches(row, word))
            continue;
        found++;
        removed->store = store;
        add_row(removed, row->tag, row->info.digest);
        if (remove_row(store, row, err) < 0)
            return error_wrap(err, "remove '%.80s'", word);
    }
    if (found > 0)
        return 0;
    error_set(err, ERROR_NOT_FOUND, "no image '%.80s' in '%s'", word, image_store_data_dir(store));
    error_hint(err,
               "`cove image list` shows names; an unused image goes by 8 digits of its digest");
    return -1;
}

static int remove_all(struct cli *cli, const struct rm_options *options, int argc, char **argv,
                      struct error *err)
{
    scoped(image_store) struct image_store *store = NULL;
    scoped_table struct table table = {0}, removed = {0};
    if (image_store_open(&store, cli->config.data_dir, err) < 0 ||
        add_store(&table, cli->config.data_dir, err) < 0)
        return -1;
    for (int i = 0; i < argc; i++) {
        if (remove_word(store, &table, argv[i], &removed, err) < 0)
            return -1;
    }
    for (size_t i = 0; options->unused && i < table.count; i++) {
        char hex[SHA256_HEX_BYTES];
        format_hex(table.rows[i].info.digest, SHA256_BYTES, hex);
        if (!table.rows[i].tag && remove_word(store, &table, hex, &removed, err) < 0)
            return -1;
    }
    if (cli->config.json)
        return print_json(&removed, "removed", err);
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, OUTPUT_MAX_BYTES);
    for (size_t i = 0; i < removed.count; i++) {
        char hex[SHA256_HEX_BYTES];
        format_hex(removed.rows[i].info.digest, SHA256_BYTES, hex);
        strbuf_add_fmt(&text, "removed %s %.*s\n", removed.rows[i].tag ? removed.rows[i].tag : "",
                       SHORT_DIGEST, hex);
    }
    return fd_write_all(STDOUT_FILENO, strbuf_str(&text), text.len, err);
}

static int run_rm(struct cli *cli, void *options, int argc, char **argv)
{
    const struct rm_options *rm = options;
    struct error err;
    if (argc == 0 && !rm->unused)
        return cli_misuse(cli, "'cove image rm' needs the name of an image, or --unused");
    return remove_all(cli, rm, argc, argv, &err) < 0 ? cli_fail(cli, &err) : 0;
}

/* --- the commands ----------------------------------------------------------------------------- */

static const struct option_row build_rows[] = {
    {.name = "missing",
     .type = OPTION_BOOL,
     .offset = offsetof(struct build_options, missing),
     .help = "Leave alone what is already there"},
};

static const struct command image_build = {
    .name = "build",
    .summary = "Build images from their recipes",
    .usage = "[OPTIONS] [NAME...]",
    .description = "Without names it builds all that have a recipe. Needs mmdebstrap and the "
                   "package sources of this host; as an ordinary user also a range of sub-ids. "
                   "An image that is in use stays until `cove image rm --unused`.",
    .options = build_rows,
    .option_count = ARRAY_LEN(build_rows),
    .options_size = sizeof(struct build_options),
    .run = run_build,
};

static const struct option_row import_rows[] = {
    {.name = "runner",
     .type = OPTION_STRING,
     .offset = offsetof(struct import_options, runner),
     .arg = "DIR",
     .help = "Folder whose runner.conf says how programs are started"},
};

static const struct command image_import = {
    .name = "import",
    .summary = "Make an image of a container image",
    .usage = "[OPTIONS] NAME ARCHIVE",
    .description = "Takes OCI archives, OCI layout folders and what `docker save` writes. Without "
                   "--runner the image's own command is started with the code on its standard "
                   "input; its label sandbox.language names the language.",
    .options = import_rows,
    .option_count = ARRAY_LEN(import_rows),
    .options_size = sizeof(struct import_options),
    .run = run_import,
};

static const struct command image_list = {
    .name = "list",
    .summary = "List the images, their languages and sizes",
    .usage = "[OPTIONS]",
    .has_no_arguments = true,
    .run = run_list,
};

static const struct option_row rm_rows[] = {
    {.name = "unused",
     .type = OPTION_BOOL,
     .offset = offsetof(struct rm_options, unused),
     .help = "Remove every image that has no name any more"},
};

static const struct command image_rm = {
    .name = "rm",
    .summary = "Remove images",
    .usage = "[OPTIONS] NAME...",
    .description = "Sandboxes that run in an image when it is removed lose their files.",
    .options = rm_rows,
    .option_count = ARRAY_LEN(rm_rows),
    .options_size = sizeof(struct rm_options),
    .run = run_rm,
};

static const struct command *const image_verbs[] = {&image_build, &image_import, &image_list,
                                                    &image_rm, NULL};

const struct command cmd_image = {
    .name = "image",
    .summary = "Build, import, list and remove images",
    .usage = "COMMAND",
    .verbs = image_verbs,
};
