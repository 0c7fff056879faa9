/* option.c - values from flags, environment, files and presets into the caller's struct
 *
 * Every value goes through store(): parsed and checked first, kept only when its source ranks at
 * least as high as the one that set the field before. Values of secrets never reach a message. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/option.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "base/strbuf.h"

#define TEXT_MAX_BYTES   (4 * KIB) /* of a name or a range in words */
#define SECRET_MAX_BYTES (64 * KIB)

/* Where a value is being taken from. */
struct origin {
    enum option_source source;
    const char *text;
};

union value {
    bool boolean;
    uint64_t number;
    unsigned choice;
};

struct type_info {
    const char *arg;
    const char *noun; /* "must be <noun> from MIN to MAX" */
    bool (*parse)(const char *text, uint64_t *out);
    void (*format)(uint64_t value, char out[FORMAT_BYTES]);
};

static const struct type_info types[] = {
    [OPTION_BOOL] = {"", "true or false", NULL, NULL},
    [OPTION_STRING] = {"TEXT", "text", NULL, NULL},
    [OPTION_U64] = {"N", "a whole number", parse_u64, format_u64},
    [OPTION_SIZE] = {"SIZE", "a size", parse_size, format_size},
    [OPTION_DURATION_MS] = {"TIME", "a duration", parse_duration_ms, format_duration_ms},
    [OPTION_MILLI] = {"N", "a number", parse_milli, format_milli},
    [OPTION_LIST] = {"TEXT", "text", NULL, NULL},
    [OPTION_ENUM] = {"WORD", "one of: ", NULL, NULL},
};

static void *field_of(const struct option_set *set, size_t row)
{
    return (char *)set->target + set->rows[row].offset;
}

static void list_clear(struct option_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct option_list){0};
}

static void list_add(struct option_list *list, const char *item, size_t len)
{
    list->items = xrealloc(list->items, (list->count + 1) * sizeof(*list->items));
    list->items[list->count++] = xstrndup(item, len);
}

void option_set_init(struct option_set *set, const struct option_row *rows, size_t count,
                     void *target)
{
    *set = (struct option_set){.rows = rows, .count = count, .target = target};
    set->origins = xcalloc(count, sizeof(*set->origins));
}

/* Numbers stay as they are: a preset, if there is one, takes their place. */
static void forget(struct option_set *set, size_t row)
{
    free(set->origins[row].text);
    set->origins[row] = (struct option_origin){0};
    if (set->rows[row].type == OPTION_STRING) {
        char **text = field_of(set, row);
        free(*text);
        *text = NULL;
    } else if (set->rows[row].type == OPTION_LIST) {
        list_clear(field_of(set, row));
    }
}

void option_set_release(struct option_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        forget(set, i);
    free(set->origins);
    *set = (struct option_set){0};
}

const char *option_origin(const struct option_set *set, size_t row)
{
    return set->origins[row].text ? set->origins[row].text : "default";
}

bool option_is_set(const struct option_set *set, size_t row)
{
    return set->origins[row].source > OPTION_SOURCE_PRESET;
}

/* --- words ---------------------------------------------------------------------------------- */

const char *option_arg(const struct option_row *row)
{
    return row->arg ? row->arg : types[row->type].arg;
}

void option_add_environment_name(const struct option_row *row, struct strbuf *out)
{
    strbuf_add_str(out, "COVE_");
    for (const char *p = row->name; *p; p++)
        strbuf_add_char(out, *p == '-' ? '_' : (char)toupper((unsigned char)*p));
}

static void add_range(const struct option_row *row, struct strbuf *out)
{
    char min[FORMAT_BYTES], max[FORMAT_BYTES];
    void (*format)(uint64_t, char[FORMAT_BYTES]) = types[row->type].format;
    bool is_length = !format;
    if (is_length)
        format = format_u64;
    format(row->min, min);
    format(row->max, max);
    const char *unit = is_length ? " bytes" : "";
    if (row->max > 0)
        strbuf_add_fmt(out, " %s %s to %s%s", is_length ? "of" : "from", min, max, unit);
    else if (row->min > 0)
        strbuf_add_fmt(out, " of at least %s%s", min, unit);
}

void option_add_allowed(const struct option_row *row, struct strbuf *out)
{
    strbuf_add_str(out, types[row->type].noun);
    if (row->type == OPTION_ENUM) {
        for (size_t i = 0; row->choices[i]; i++)
            strbuf_add_fmt(out, "%s%s", i > 0 ? ", " : "", row->choices[i]);
    } else if (row->type != OPTION_BOOL) {
        add_range(row, out);
    }
}

void option_add_value(const struct option_set *set, size_t row, struct strbuf *out)
{
    const struct option_row *option = &set->rows[row];
    const void *field = field_of(set, row);
    const struct option_list *list = field;
    char number[FORMAT_BYTES];

    if (option->flags & OPTION_SECRET) {
        strbuf_add_str(out, *(char *const *)field ? "********" : "");
        return;
    }
    switch (option->type) {
    case OPTION_BOOL:
        strbuf_add_str(out, *(const bool *)field ? "true" : "false");
        break;
    case OPTION_STRING:
        strbuf_add_str(out, *(char *const *)field ? *(char *const *)field : "");
        break;
    case OPTION_U64:
    case OPTION_SIZE:
    case OPTION_DURATION_MS:
    case OPTION_MILLI:
        types[option->type].format(*(const uint64_t *)field, number);
        strbuf_add_str(out, number);
        break;
    case OPTION_LIST:
        for (size_t i = 0; i < list->count; i++)
            strbuf_add_fmt(out, "%s%s", i > 0 ? "," : "", list->items[i]);
        break;
    case OPTION_ENUM:
        strbuf_add_str(out, option->choices[*(const unsigned *)field]);
        break;
    }
}

/* --- one value ------------------------------------------------------------------------------ */

static bool in_range(const struct option_row *row, uint64_t value)
{
    return value >= row->min && (row->max == 0 || value <= row->max);
}

static bool parse_choice(const struct option_row *row, const char *text, unsigned *out)
{
    for (unsigned i = 0; row->choices[i]; i++) {
        if (strcmp(row->choices[i], text) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool parse_value(const struct option_row *row, const char *text, union value *out)
{
    switch (row->type) {
    case OPTION_BOOL:
        return parse_bool(text, &out->boolean);
    case OPTION_STRING:
    case OPTION_LIST:
        return in_range(row, strlen(text));
    case OPTION_U64:
    case OPTION_SIZE:
    case OPTION_DURATION_MS:
    case OPTION_MILLI:
        return types[row->type].parse(text, &out->number) && in_range(row, out->number);
    case OPTION_ENUM:
        return parse_choice(row, text, &out->choice);
    }
    return false;
}

static int refuse(const struct option_row *row, const char *text, const struct origin *origin,
                  struct error *err)
{
    scoped_strbuf struct strbuf allowed;
    strbuf_init(&allowed, TEXT_MAX_BYTES);
    option_add_allowed(row, &allowed);
    bool is_secret = row->flags & OPTION_SECRET;
    return error_set(err, ERROR_INVALID, "option '%s' (%s): %s%.80s%s must be %s", row->name,
                     origin->text ? origin->text : "preset", is_secret ? "" : "'",
                     is_secret ? "its value" : text, is_secret ? "" : "'", strbuf_str(&allowed));
}

/* Items of one source add up, those of another source take their place. Only a flag is taken
 * whole: its user can repeat it, and an item may hold a comma. */
static void store_list(struct option_list *list, const char *text, bool is_same, bool is_whole)
{
    if (!is_same)
        list_clear(list);
    if (is_whole) {
        list_add(list, text, strlen(text));
        return;
    }
    while (*text) {
        text += strspn(text, ", ");
        size_t len = strcspn(text, ",");
        const char *next = text + len;
        while (len > 0 && text[len - 1] == ' ')
            len--;
        if (len > 0)
            list_add(list, text, len);
        text = next;
    }
}

static void store_value(const struct option_row *row, void *field, const char *text,
                        const union value *value)
{
    if (row->type == OPTION_BOOL) {
        *(bool *)field = value->boolean;
    } else if (row->type == OPTION_ENUM) {
        *(unsigned *)field = value->choice;
    } else if (row->type == OPTION_STRING) {
        free(*(char **)field);
        *(char **)field = xstrdup(text);
    } else {
        *(uint64_t *)field = value->number;
    }
}

static int store(struct option_set *set, size_t index, const char *text,
                 const struct origin *origin, struct error *err)
{
    const struct option_row *row = &set->rows[index];
    struct option_origin *old = &set->origins[index];
    union value value = {0};
    if (!parse_value(row, text, &value))
        return refuse(row, text, origin, err);
    if (origin->source < old->source)
        return 0;

    if (row->type == OPTION_LIST) {
        bool is_same = old->source == origin->source && old->text && origin->text &&
                       strcmp(old->text, origin->text) == 0;
        store_list(field_of(set, index), text, is_same, origin->source == OPTION_SOURCE_FLAG);
    } else {
        store_value(row, field_of(set, index), text, &value);
    }
    old->source = origin->source;
    free(old->text);
    old->text = origin->text ? xstrdup(origin->text) : NULL;
    return 0;
}

/* --- presets, file, environment -------------------------------------------------------------- */

void option_apply_presets(struct option_set *set)
{
    const struct origin origin = {OPTION_SOURCE_PRESET, NULL};
    for (size_t i = 0; i < set->count; i++) {
        struct error err;
        if (set->rows[i].preset && set->origins[i].source == OPTION_SOURCE_NONE)
            BUG_ON(store(set, i, set->rows[i].preset, &origin, &err) < 0);
    }
}

void option_unset(struct option_set *set, const char *name)
{
    size_t row = 0;
    while (row < set->count && strcmp(set->rows[row].name, name) != 0)
        row++;
    BUG_ON(row == set->count);
    forget(set, row);
    option_apply_presets(set);
}

struct file_reading {
    struct option_set *set;
    struct origin origin;
};

static int unknown_key(const struct option_set *set, const char *key, struct error *err)
{
    struct nearest nearest = {.word = key};
    for (size_t i = 0; i < set->count; i++) {
        if (set->rows[i].flags & OPTION_FILE)
            nearest_offer(&nearest, set->rows[i].name);
    }
    error_set(err, ERROR_INVALID, "unknown option '%.80s'", key);
    return nearest.best ? error_hint(err, "did you mean '%s'?", nearest.best) : -1;
}

static int file_entry(void *ctx, const char *section, const char *key, const char *value,
                      struct error *err)
{
    struct file_reading *reading = ctx;
    struct option_set *set = reading->set;
    if (*section)
        return error_set(err, ERROR_INVALID, "section '[%.80s]' has no place here", section);
    for (size_t i = 0; i < set->count; i++) {
        if ((set->rows[i].flags & OPTION_FILE) && strcmp(set->rows[i].name, key) == 0)
            return store(set, i, value, &reading->origin, err);
    }
    return unknown_key(set, key, err);
}

int option_apply_file(struct option_set *set, const char *path, struct error *err)
{
    scoped_free char *origin = xasprintf("file %s", path);
    struct file_reading reading = {set, {OPTION_SOURCE_FILE, origin}};
    return conf_read(AT_FDCWD, path, file_entry, &reading, err);
}

/* An empty variable is how compose files and unit files spell "not set". */
static const char *environment_get(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int apply_variable(struct option_set *set, size_t row, const char *name, struct error *err)
{
    const char *value = environment_get(name);
    if (!value)
        return 0;
    scoped_free char *text = xasprintf("environment %s", name);
    const struct origin origin = {OPTION_SOURCE_ENVIRONMENT, text};
    return store(set, row, value, &origin, err);
}

static int apply_secret_file(struct option_set *set, size_t row, const char *name,
                             struct error *err)
{
    const char *path = environment_get(name);
    if (!path)
        return 0;
    scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_sys(err, "environment %s: open '%s'", name, path);
    scoped_free char *secret = NULL;
    if (fd_read_text(fd, &secret, SECRET_MAX_BYTES, err) < 0)
        return error_wrap(err, "environment %s: read '%s'", name, path);
    secret[strcspn(secret, "\r\n")] = '\0';

    scoped_free char *text = xasprintf("environment %s", name);
    const struct origin origin = {OPTION_SOURCE_ENVIRONMENT, text};
    return store(set, row, secret, &origin, err);
}

int option_apply_environment(struct option_set *set, struct error *err)
{
    scoped_strbuf struct strbuf name;
    strbuf_init(&name, TEXT_MAX_BYTES);
    for (size_t i = 0; i < set->count; i++) {
        const struct option_row *row = &set->rows[i];
        if (!(row->flags & OPTION_ENV))
            continue;
        /* The option's own name wins over the others, and the first of those over the rest. */
        size_t others = 0;
        while (row->also && row->also[others])
            others++;
        while (others > 0) {
            if (apply_variable(set, i, row->also[--others], err) < 0)
                return -1;
        }
        strbuf_clear(&name);
        option_add_environment_name(row, &name);
        if (apply_variable(set, i, strbuf_str(&name), err) < 0)
            return -1;
        if (row->flags & OPTION_SECRET) {
            strbuf_add_str(&name, "_FILE");
            if (apply_secret_file(set, i, strbuf_str(&name), err) < 0)
                return -1;
        }
    }
    return 0;
}

/* --- flags ---------------------------------------------------------------------------------- */

struct flags {
    struct option_set *const *sets;
    size_t set_count;
    int argc;
    char **argv;
    int at; /* the argument being read */
};

struct found {
    struct option_set *set;
    size_t row;
};

/* By `len` bytes of a long name, or by a short name when `name` is NULL. */
static bool find_row(const struct flags *f, const char *name, size_t len, char short_name,
                     struct found *out)
{
    for (size_t s = 0; s < f->set_count; s++) {
        for (size_t i = 0; i < f->sets[s]->count; i++) {
            const struct option_row *row = &f->sets[s]->rows[i];
            bool is_it = name ? strncmp(row->name, name, len) == 0 && row->name[len] == '\0'
                              : row->short_name == short_name;
            if (is_it) {
                *out = (struct found){f->sets[s], i};
                return true;
            }
        }
    }
    return false;
}

static int unknown_flag(const struct flags *f, const char *name, size_t len, struct error *err)
{
    scoped_free char *word = xstrndup(name, MIN(len, TEXT_MAX_BYTES));
    struct nearest nearest = {.word = word};
    for (size_t s = 0; s < f->set_count; s++) {
        for (size_t i = 0; i < f->sets[s]->count; i++) {
            if (!(f->sets[s]->rows[i].flags & OPTION_HIDDEN))
                nearest_offer(&nearest, f->sets[s]->rows[i].name);
        }
    }
    error_set(err, ERROR_INVALID, "unknown option '--%.80s'", word);
    return nearest.best ? error_hint(err, "did you mean '--%s'?", nearest.best) : -1;
}

static int store_flag(const struct found *found, const char *value, struct error *err)
{
    scoped_free char *text = xasprintf("flag --%s", found->set->rows[found->row].name);
    const struct origin origin = {OPTION_SOURCE_FLAG, text};
    return store(found->set, found->row, value, &origin, err);
}

/* Stores `attached` (from --x=v or -xv), or the next argument when there is none. */
static int store_with_value(struct flags *f, const struct found *found, const char *attached,
                            struct error *err)
{
    const struct option_row *row = &found->set->rows[found->row];
    if (!attached) {
        if (f->at + 1 >= f->argc)
            return error_set(err, ERROR_INVALID, "option '--%s' needs a value: --%s %s", row->name,
                             row->name, option_arg(row));
        attached = f->argv[++f->at];
    }
    return store_flag(found, attached, err);
}

static bool is_bool(const struct found *found)
{
    return found->set->rows[found->row].type == OPTION_BOOL;
}

static int apply_long(struct flags *f, const char *name, struct error *err)
{
    size_t len = strcspn(name, "=");
    const char *attached = name[len] == '=' ? name + len + 1 : NULL;
    struct found found;
    if (find_row(f, name, len, 0, &found)) {
        if (is_bool(&found) && !attached)
            attached = "true";
        return store_with_value(f, &found, attached, err);
    }
    if (!attached && strncmp(name, "no-", 3) == 0 && find_row(f, name + 3, len - 3, 0, &found) &&
        is_bool(&found))
        return store_flag(&found, "false", err);
    return unknown_flag(f, name, len, err);
}

static int apply_short(struct flags *f, const char *letters, struct error *err)
{
    for (; *letters; letters++) {
        struct found found;
        if (!find_row(f, NULL, 0, *letters, &found))
            return error_set(err, ERROR_INVALID, "unknown option '-%c'", *letters);
        if (!is_bool(&found))
            return store_with_value(f, &found, letters[1] ? letters + 1 : NULL, err);
        if (store_flag(&found, "true", err) < 0)
            return -1;
    }
    return 0;
}

int option_apply_flags(struct option_set *const *sets, size_t set_count, int *argc, char **argv,
                       bool stop_at_argument, struct error *err)
{
    struct flags f = {.sets = sets, .set_count = set_count, .argc = *argc, .argv = argv};
    int kept = 0;
    bool has_ended = false;
    for (; f.at < f.argc; f.at++) {
        const char *arg = argv[f.at];
        bool is_flag = !has_ended && arg[0] == '-' && arg[1] != '\0';
        if (!is_flag) {
            has_ended = has_ended || stop_at_argument;
            argv[kept++] = argv[f.at];
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            has_ended = true;
            continue;
        }
        int status = arg[1] == '-' ? apply_long(&f, arg + 2, err) : apply_short(&f, arg + 1, err);
        if (status < 0)
            return -1;
    }
    *argc = kept;
    return 0;
}
