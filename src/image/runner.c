/* runner.c - runner.conf by a table of keys, and the search in what was read
 *
 * Whatever is read here comes from an image that somebody imported: every word is checked before it
 * is believed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/runner.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "image/image_store.h"

#define LANGUAGES_MAX      64 /* of one list */
#define LANGUAGE_MAX_BYTES 32
#define MAIN_MAX_BYTES     64
#define NAMES_MAX_BYTES    200

/* --- words ------------------------------------------------------------------------------------ */

static void words_release(struct runner_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
    free(words->items);
    *words = (struct runner_words){0};
}

/* Takes `word`. */
static int words_add(struct runner_words *words, char *word, struct error *err)
{
    if (words->count == RUNNER_WORDS_MAX) {
        free(word);
        return error_set(err, ERROR_LIMIT, "more than %d words", RUNNER_WORDS_MAX);
    }
    words->items = xrealloc(words->items, (words->count + 2) * sizeof(*words->items));
    words->items[words->count++] = word;
    words->items[words->count] = NULL;
    return 0;
}

/* Reads one word at *at, which moves behind it. */
static int next_word(const char **at, struct strbuf *word, struct error *err)
{
    const char *p = *at;
    bool is_quoted = *p == '"';
    p += is_quoted;
    for (; *p && (is_quoted ? *p != '"' : *p != ' ' && *p != '\t'); p++) {
        if (is_quoted && *p == '\\' && (p[1] == '"' || p[1] == '\\'))
            p++;
        strbuf_add_char(word, *p);
    }
    if (is_quoted && *p++ != '"')
        return error_set(err, ERROR_INVALID, "a quote is not closed");
    if (*p && *p != ' ' && *p != '\t')
        return error_set(err, ERROR_INVALID, "a quoted word must be followed by a blank");
    *at = p;
    return 0;
}

static int words_split(struct runner_words *words, const char *text, struct error *err)
{
    for (;;) {
        text += strspn(text, " \t");
        if (!*text)
            return 0;
        scoped_strbuf struct strbuf word;
        strbuf_init(&word, CONF_FILE_MAX_BYTES);
        if (next_word(&text, &word, err) < 0)
            return -1;
        strbuf_add_str(&word, ""); /* an empty word is a word */
        char *taken = strbuf_take(&word);
        if (words_add(words, taken ? taken : xstrdup(""), err) < 0)
            return -1;
    }
}

static bool words_have(const struct runner_words *words, const char *text)
{
    for (size_t i = 0; i < words->count; i++) {
        if (strcmp(words->items[i], text) == 0)
            return true;
    }
    return false;
}

/* --- values ----------------------------------------------------------------------------------- */

static bool is_name(const char *text)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+#._-");
    return len > 0 && len < LANGUAGE_MAX_BYTES && !text[len] && strchr(first, text[0]);
}

static int set_text(void *field, const char *value, struct error *err)
{
    char **text = field;
    if (*text)
        return error_set(err, ERROR_INVALID, "given twice");
    *text = xstrdup(value);
    return 0;
}

static int set_names(void *field, const char *value, struct error *err)
{
    struct runner_words *words = field;
    size_t before = words->count;
    if (words_split(words, value, err) < 0)
        return -1;
    for (size_t i = before; i < words->count; i++) {
        if (!is_name(words->items[i]))
            return error_set(err, ERROR_INVALID, "'%.40s' is not a name", words->items[i]);
    }
    return 0;
}

/* The program's file lies directly in the workspace. */
static int set_main(void *field, const char *value, struct error *err)
{
    if (!*value || strlen(value) >= MAIN_MAX_BYTES || strchr(value, '/') || value[0] == '.')
        return error_set(err, ERROR_INVALID, "'%.80s' is not the name of a file", value);
    return set_text(field, value, err);
}

static int set_command(void *field, const char *value, struct error *err)
{
    struct runner_words *words = field;
    if (words->count > 0)
        return error_set(err, ERROR_INVALID, "given twice");
    if (words_split(words, value, err) < 0)
        return -1;
    if (words->count == 0 || words->items[0][0] != '/')
        return error_set(err, ERROR_INVALID, "must begin with the program's absolute path");
    return 0;
}

static int set_inline(void *field, const char *value, struct error *err)
{
    const struct runner_words *words = field;
    if (set_command(field, value, err) < 0)
        return -1;
    for (size_t i = 1; i < words->count; i++) {
        if (strcmp(words->items[i], RUNNER_CODE_MARK) == 0)
            return 0;
    }
    return error_set(err, ERROR_INVALID, "has no word " RUNNER_CODE_MARK);
}

static int set_form(void *field, const char *value, struct error *err)
{
    if (strcmp(value, "frames") != 0 && strcmp(value, "plain") != 0)
        return error_set(err, ERROR_INVALID, "'%.40s' is neither frames nor plain", value);
    return set_text(field, value, err);
}

static const char *const index_names[] = {
    [RUNNER_INDEX_PYTHON] = "python",
    [RUNNER_INDEX_NPM] = "npm",
};

static int set_index(void *field, const char *value, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(index_names); i++) {
        if (strcmp(value, index_names[i]) == 0)
            return set_text(field, value, err);
    }
    return error_set(err, ERROR_INVALID, "'%.40s' is neither python nor npm", value);
}

static int add_env(void *field, const char *value, struct error *err)
{
    const char *equals = strchr(value, '=');
    if (!equals || equals == value)
        return error_set(err, ERROR_INVALID, "'%.40s' is not NAME=VALUE", value);
    return words_add(field, xstrdup(value), err);
}

#define AT(field) offsetof(struct runner, field)
static const struct runner_key {
    const char *name;
    size_t offset;
    int (*set)(void *field, const char *value, struct error *err);
} runner_keys[] = {
    {"aliases", AT(aliases), set_names},
    {"extensions", AT(extensions), set_names},
    {"main", AT(main), set_main},
    {"command", AT(command), set_command},
    {"inline", AT(inlined), set_inline},
    {"env", AT(env), add_env},
    {"version", AT(version), set_text},
    {"kernel", AT(kernel), set_main},
    {"kernel_form", AT(kernel_form), set_form},
    {"kernel_command", AT(kernel_command), set_command},
    {"installer", AT(installer), set_main},
    {"installer_command", AT(installer_command), set_command},
    {"installer_index", AT(installer_index), set_index},
    {"installer_tools", AT(installer_tools), set_names},
    {"packages_env", AT(packages_env), add_env},
};

/* --- one file --------------------------------------------------------------------------------- */

static void runner_release(struct runner *runner)
{
    free(runner->language);
    free(runner->version);
    free(runner->main);
    free(runner->image);
    free(runner->data_dir);
    words_release(&runner->aliases);
    words_release(&runner->extensions);
    free(runner->kernel);
    free(runner->kernel_form);
    words_release(&runner->kernel_command);
    free(runner->installer);
    free(runner->installer_index);
    words_release(&runner->installer_command);
    words_release(&runner->installer_tools);
    words_release(&runner->packages_env);
    words_release(&runner->command);
    words_release(&runner->inlined);
    words_release(&runner->env);
}

static void cut_list(struct runner_list *list, size_t count)
{
    while (list->count > count)
        runner_release(&list->items[--list->count]);
}

void runner_list_release(struct runner_list *list)
{
    cut_list(list, 0);
    free(list->items);
    *list = (struct runner_list){0};
}

struct reader {
    struct runner_list *list;
    size_t first; /* of the runners that this file made */
};

/* The runner of the section, made when it is new. */
static struct runner *get_section(struct reader *reader, const char *section, struct error *err)
{
    struct runner_list *list = reader->list;
    for (size_t i = reader->first; i < list->count; i++) {
        if (strcmp(list->items[i].language, section) == 0)
            return &list->items[i];
    }
    if (!is_name(section)) {
        error_set(err, ERROR_INVALID, "'[%.40s]' is not the name of a language", section);
        return NULL;
    }
    if (list->count - reader->first == LANGUAGES_MAX) {
        error_set(err, ERROR_LIMIT, "more than %d languages", LANGUAGES_MAX);
        return NULL;
    }
    list->items = xrealloc(list->items, (list->count + 1) * sizeof(*list->items));
    struct runner *runner = &list->items[list->count++];
    *runner = (struct runner){.language = xstrdup(section)};
    return runner;
}

static int read_entry(void *ctx, const char *section, const char *key, const char *value,
                      struct error *err)
{
    struct runner *runner = get_section(ctx, section, err);
    if (!runner)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(runner_keys); i++) {
        if (strcmp(key, runner_keys[i].name) != 0)
            continue;
        if (runner_keys[i].set((char *)runner + runner_keys[i].offset, value, err) < 0)
            return error_wrap(err, "%s", key);
        return 0;
    }
    return error_set(err, ERROR_INVALID, "unknown key '%.40s'", key);
}

static int finish_runner(struct runner *runner, struct error *err)
{
    if (runner->command.count == 0)
        return error_set(err, ERROR_INVALID, "[%s] has no command", runner->language);
    runner->takes_stdin = true;
    for (size_t i = 0; i < runner->command.count; i++) {
        if (strstr(runner->command.items[i], RUNNER_FILE_MARK))
            runner->takes_stdin = false;
    }
    if (!runner->main)
        runner->main = xasprintf("main.%s", runner->extensions.count ? runner->extensions.items[0]
                                                                     : runner->language);
    struct runner_words *all[] = {&runner->aliases, &runner->extensions, &runner->env};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (!all[i]->items)
            all[i]->items = xcalloc(1, sizeof(*all[i]->items));
    }
    return 0;
}

int runner_list_parse(struct runner_list *list, int dir_fd, const char *name, struct error *err)
{
    struct reader reader = {.list = list, .first = list->count};
    int answer = conf_read(dir_fd, name, read_entry, &reader, err);
    if (answer == 0 && list->count == reader.first)
        answer = error_set(err, ERROR_INVALID, "'%s' describes no language", name);
    for (size_t i = reader.first; answer == 0 && i < list->count; i++)
        answer = finish_runner(&list->items[i], err);
    if (answer < 0)
        cut_list(list, reader.first);
    return answer;
}

/* --- all stores ------------------------------------------------------------------------------- */

struct loader {
    struct runner_list *list;
    const struct image_store *store;
    struct runner_words seen; /* names of images; one in an earlier store hides a later one */
};

static void loader_release(struct loader *loader)
{
    words_release(&loader->seen);
}

static int load_image(struct loader *loader, const char *name, const uint8_t digest[SHA256_BYTES],
                      struct error *err)
{
    struct runner_list *list = loader->list;
    size_t first = list->count;
    scoped_fd int fd = -1;
    if (image_store_open_image(loader->store, digest, &fd, err) < 0 ||
        runner_list_parse(list, fd, RUNNER_CONF, err) < 0)
        return error_wrap(err, "image '%s'", name);
    for (size_t i = first; i < list->count; i++) {
        list->items[i].image = xstrdup(name);
        list->items[i].data_dir = xstrdup(image_store_data_dir(loader->store));
        memcpy(list->items[i].digest, digest, SHA256_BYTES);
    }
    return 0;
}

static int load_tag(void *ctx, const char *name, const uint8_t digest[SHA256_BYTES],
                    struct error *err)
{
    struct loader *loader = ctx;
    struct error why;
    if (words_have(&loader->seen, name))
        return 0;
    if (words_add(&loader->seen, xstrdup(name), err) < 0)
        return error_wrap(err, "read the images");
    loader->list->has_images = true;
    if (load_image(loader, name, digest, &why) < 0 && !loader->list->broken.msg[0])
        loader->list->broken = why;
    return 0;
}

int runner_list_load(struct runner_list *out, const char *const *data_dirs, struct error *err)
{
    scoped_runner_list struct runner_list list = {0};
    __attribute__((cleanup(loader_release))) struct loader loader = {.list = &list};
    for (; *data_dirs; data_dirs++) {
        scoped(image_store) struct image_store *store = NULL;
        struct error why;
        if (image_store_open(&store, *data_dirs, &why) < 0) {
            if (why.code == ERROR_NOT_FOUND)
                continue;
            *err = why;
            return -1;
        }
        loader.store = store;
        if (image_store_tags(store, load_tag, &loader, err) < 0)
            return -1;
    }
    *out = list;
    list = (struct runner_list){0};
    return 0;
}

/* --- kernels ---------------------------------------------------------------------------------- */

void runner_kernel_release(struct runner_kernel *kernel)
{
    words_release(&kernel->command);
    free(kernel->text);
    *kernel = (struct runner_kernel){0};
}

static struct runner_words take_words(struct runner_words *words)
{
    const struct runner_words taken = *words;
    *words = (struct runner_words){0};
    return taken;
}

/* What a recipe says of a language; takes the words out of `from`. False: nothing to the point. */
typedef bool (*take_fn)(void *out, struct runner *from, const char *dir);

static bool take_kernel(void *out, struct runner *from, const char *dir)
{
    struct runner_kernel *kernel = out;
    if (from->kernel_command.count == 0)
        return false;
    kernel->command = take_words(&from->kernel_command);
    kernel->is_plain = from->kernel_form && strcmp(from->kernel_form, "plain") == 0;
    kernel->text = from->kernel ? xasprintf("%s/%s", dir, from->kernel) : NULL;
    return true;
}

static bool take_installer(void *out, struct runner *from, const char *dir)
{
    struct runner_installer *installer = out;
    if (!from->installer || !from->installer_index || from->installer_command.count == 0)
        return false;
    installer->command = take_words(&from->installer_command);
    installer->tools = take_words(&from->installer_tools);
    installer->env = take_words(&from->packages_env);
    installer->text = xasprintf("%s/%s", dir, from->installer);
    installer->name = xstrdup(from->installer);
    while (strcmp(from->installer_index, index_names[installer->index]) != 0)
        installer->index++;
    return true;
}

/* 1: found. */
static int find_in_recipe(void *out, take_fn take, const char *dir, const char *language,
                          struct error *err)
{
    scoped_runner_list struct runner_list list = {0};
    struct reader reader = {.list = &list};
    scoped_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || faccessat(fd, RUNNER_KERNEL, F_OK, 0) < 0)
        return 0;
    if (conf_read(fd, RUNNER_KERNEL, read_entry, &reader, err) < 0)
        return error_wrap(err, "%s/%s", dir, RUNNER_KERNEL);
    for (size_t i = 0; i < list.count; i++) {
        if (strcmp(list.items[i].language, language) == 0 && take(out, &list.items[i], dir))
            return 1;
    }
    return 0;
}

static int find_in_recipes(void *out, take_fn take, const char *recipes_dir, const char *language,
                           struct error *err)
{
    DIR *dir = opendir(recipes_dir);
    int answer = 0;
    for (struct dirent *e; dir && answer == 0 && (e = readdir(dir));) {
        scoped_free char *path = xasprintf("%s/%s", recipes_dir, e->d_name);
        if (e->d_name[0] != '.')
            answer = find_in_recipe(out, take, path, language, err);
    }
    if (dir)
        closedir(dir);
    return answer;
}

static void copy_words(struct runner_words *out, const struct runner_words *from)
{
    for (size_t i = 0; i < from->count; i++) {
        struct error ignored; /* as many fitted before */
        (void)!words_add(out, xstrdup(from->items[i]), &ignored);
    }
}

int runner_find_kernel(struct runner_kernel *out, const struct runner *runner,
                       const char *recipes_dir, struct error *err)
{
    *out = (struct runner_kernel){0};
    if (runner->kernel_command.count > 0) {
        copy_words(&out->command, &runner->kernel_command);
        out->is_plain = runner->kernel_form && strcmp(runner->kernel_form, "plain") == 0;
        return 0;
    }
    int found = find_in_recipes(out, take_kernel, recipes_dir, runner->language, err);
    if (found < 0)
        return -1;
    if (!found) {
        error_set(err, ERROR_NOT_FOUND, "%s has no kernel, so it has no sessions",
                  runner->language);
        return error_hint(err, "run single programs with `cove run -l %s`", runner->language);
    }
    return 0;
}

void runner_installer_release(struct runner_installer *installer)
{
    words_release(&installer->command);
    words_release(&installer->tools);
    words_release(&installer->env);
    free(installer->text);
    free(installer->name);
    *installer = (struct runner_installer){0};
}

int runner_find_installer(struct runner_installer *out, const struct runner *runner,
                          const char *recipes_dir, struct error *err)
{
    *out = (struct runner_installer){0};
    int found = find_in_recipes(out, take_installer, recipes_dir, runner->language, err);
    if (found == 0)
        return error_set(err, ERROR_INVALID, "requirements: %s has no packages", runner->language);
    return found < 0 ? -1 : 0;
}

/* --- search ----------------------------------------------------------------------------------- */

static bool is_listed_before(const struct runner_list *list, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(list->items[i].language, list->items[index].language) == 0)
            return true;
    }
    return false;
}

/* Why nothing was found, beyond the message that is already in *err. */
static void hint_what_exists(const struct runner_list *list, const char *typed, struct error *err)
{
    struct nearest nearest = {.word = typed};
    scoped_strbuf struct strbuf names;
    strbuf_init(&names, NAMES_MAX_BYTES);
    for (size_t i = 0; i < list->count; i++) {
        const struct runner *runner = &list->items[i];
        nearest_offer(&nearest, runner->language);
        for (size_t a = 0; a < runner->aliases.count; a++)
            nearest_offer(&nearest, runner->aliases.items[a]);
        if (!is_listed_before(list, i))
            strbuf_add_fmt(&names, "%s%s", names.len ? ", " : "", runner->language);
    }
    if (!list->has_images)
        error_hint(err, "no image is built yet: run `cove image build`");
    else if (list->count == 0)
        error_hint(err, "%s", list->broken.msg);
    else if (nearest.best)
        error_hint(err, "did you mean '%s'? languages here: %s", nearest.best, strbuf_str(&names));
    else
        error_hint(err, "languages here: %s", strbuf_str(&names));
}

const struct runner *runner_find(const struct runner_list *list, const char *language,
                                 struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].language, language) == 0)
            return &list->items[i];
    }
    for (size_t i = 0; i < list->count; i++) {
        if (words_have(&list->items[i].aliases, language))
            return &list->items[i];
    }
    error_set(err, ERROR_NOT_FOUND, "no runner for the language '%.40s'", language);
    hint_what_exists(list, language, err);
    return NULL;
}

const struct runner *runner_find_by_file(const struct runner_list *list, const char *file,
                                         struct error *err)
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    const char *dot = strrchr(name, '.');
    if (dot && dot != name && dot[1]) {
        for (size_t i = 0; i < list->count; i++) {
            if (words_have(&list->items[i].extensions, dot + 1))
                return &list->items[i];
        }
        error_set(err, ERROR_NOT_FOUND, "no runner for files that end in '%.40s'", dot);
    } else {
        error_set(err, ERROR_INVALID, "the name '%.80s' does not tell its language", name);
    }
    hint_what_exists(list, "", err);
    if (list->count > 0 && strlen(err->hint) + 32 < sizeof(err->hint))
        snprintf(err->hint + strlen(err->hint), sizeof(err->hint) - strlen(err->hint),
                 "; name one with -l");
    return NULL;
}
