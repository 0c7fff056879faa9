/* option.h - the one table of options: flag --x-y, environment COVE_X_Y, file key x-y, preset
 *
 * A table row says where its value lives in a struct of the caller; an option_set binds a table to
 * one such struct and remembers where each value came from. Sources may be applied in any order:
 * a value yields only to a source of equal or higher rank (preset < file < environment < flag),
 * and a bad value is an error even when a better source hides it. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct strbuf;

/* The field in the target struct has the type on the right. */
enum option_type {
    OPTION_BOOL,        /* bool */
    OPTION_STRING,      /* char *, owned by the set; NULL when nobody set it and preset is NULL */
    OPTION_U64,         /* uint64_t */
    OPTION_SIZE,        /* uint64_t, bytes: 64K, 512M, 2G */
    OPTION_DURATION_MS, /* uint64_t, milliseconds: 30, 0.5, 200ms, 5s, 2m, 1h */
    OPTION_MILLI,       /* uint64_t, thousandths: 0.5 gives 500 */
    OPTION_LIST,        /* struct option_list; one item per flag, commas in environment and file */
    OPTION_ENUM,        /* unsigned, index into choices */
};

enum option_flags {
    OPTION_ENV = 1 << 0,  /* may come from the environment */
    OPTION_FILE = 1 << 1, /* may come from cove.conf */
    OPTION_CONFIG = OPTION_ENV | OPTION_FILE,
    OPTION_SECRET = 1 << 2, /* never printed; COVE_X_FILE names a file that holds it */
    OPTION_HIDDEN = 1 << 3, /* accepted, but not in help, manual and completion */
};

struct option_list {
    char **items; /* owned by the set */
    size_t count;
};

struct option_row {
    const char *name; /* kebab-case */
    char short_name;  /* 0: none */
    enum option_type type;
    unsigned flags;             /* of enum option_flags */
    size_t offset;              /* of the field in the target struct */
    const char *preset;         /* as text; NULL leaves the field zero */
    uint64_t min, max;          /* of the value (of a STRING: its length); max 0 is no limit */
    const char *const *choices; /* ENUM: NULL-terminated */
    const char *arg;            /* name of the value in help; NULL takes one from the type */
    const char *group;          /* heading in help; NULL is the command's own "Options" */
    const char *help;           /* one sentence, no full stop */
    const char *const *also;    /* other environment names, NULL-terminated, read after COVE_X */
};

enum option_source {
    OPTION_SOURCE_NONE,
    OPTION_SOURCE_PRESET,
    OPTION_SOURCE_FILE,
    OPTION_SOURCE_ENVIRONMENT,
    OPTION_SOURCE_FLAG,
};

struct option_origin {
    enum option_source source;
    char *text; /* owned: "flag --x"; NULL is "default" */
};

struct option_set {
    const struct option_row *rows; /* borrowed for the life of the set */
    size_t count;
    void *target; /* borrowed; its strings and lists belong to the set */
    struct option_origin *origins;
};

/* `target` must be zeroed and outlive the set. Ended by option_set_release(), which frees and
 * zeroes the strings and lists in the target. */
void option_set_init(struct option_set *set, const struct option_row *rows, size_t count,
                     void *target);
void option_set_release(struct option_set *set); /* a zeroed set is fine */

/* Takes the flags out of argv (--x v, --x=v, -xv, -x v, --x and --no-x for BOOL, -- ends), trying
 * the sets in order. Afterwards argv[0..*argc) holds the other arguments in order. With
 * `stop_at_argument` everything from the first one on is left alone. argv[0] is looked at too: pass
 * argv + 1 of main(). */
MUST_CHECK int option_apply_flags(struct option_set *const *sets, size_t set_count, int *argc,
                                  char **argv, bool stop_at_argument, struct error *err);

/* Reads COVE_X_Y, COVE_X_Y_FILE of secrets, and the rows' other names. Empty is not set. */
MUST_CHECK int option_apply_environment(struct option_set *set, struct error *err);

/* Reads a file of "key = value" lines. A missing file is ERROR_NOT_FOUND. */
MUST_CHECK int option_apply_file(struct option_set *set, const char *path, struct error *err);

/* Fills what no other source did. A bad preset is a bug. */
void option_apply_presets(struct option_set *set);

/* Forgets what any source said of it; its preset holds. No such option is a bug. */
void option_unset(struct option_set *set, const char *name);

const char *option_origin(const struct option_set *set, size_t row); /* borrowed, never NULL */
bool option_is_set(const struct option_set *set, size_t row);        /* by more than its preset */

/* The value as text that the option would accept again; a secret is masked, no value is "". */
void option_add_value(const struct option_set *set, size_t row, struct strbuf *out);

/* "a size from 16M to 1T", "one of: debug, info"; and "SIZE", what help shows as its value ("" for
 * a BOOL); and "COVE_X_Y". */
void option_add_allowed(const struct option_row *row, struct strbuf *out);
const char *option_arg(const struct option_row *row);
void option_add_environment_name(const struct option_row *row, struct strbuf *out);
