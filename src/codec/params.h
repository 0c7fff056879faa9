/* params.h - what a request may say, as tables: read from JSON or a query, and told as JSON Schema
 *
 * One table per kind of request, used by every door. A row names a field, its type and range, and
 * where the value goes in the caller's struct. What no row names is refused by name; nothing is
 * read twice, and nothing is guessed. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/json.h"

enum param_type {
    PARAM_STRING,  /* char *, owned */
    PARAM_CHOICE,  /* int: index into choices */
    PARAM_BOOLEAN, /* bool */
    PARAM_INTEGER, /* int64_t */
    PARAM_NUMBER,  /* double */
    PARAM_SECONDS, /* uint64_t, milliseconds; a number of seconds outside */
    PARAM_SIZE,    /* uint64_t, bytes; a number, or a string such as "256M" */
    PARAM_MAP,     /* struct param_map: an object of strings */
    PARAM_STRINGS, /* struct param_strings */
    PARAM_OBJECT,  /* the struct of another table, in place */
    PARAM_LIST,    /* struct param_list of the structs of another table */
    PARAM_JSON,    /* json_t *, owned: any value */
    PARAM_TYPE_COUNT
};

struct param_strings {
    char **items;
    size_t count;
};

struct param_map {
    char **names, **values; /* in the order given */
    size_t count;
};

struct param_list {
    void *items;
    size_t count;
};

struct param_table;

struct param {
    const char *name;
    const char *other_name; /* means the same; both at once are refused */
    enum param_type type;
    bool is_required;
    bool is_secret;    /* no error shows what is in it, and no answer has it */
    size_t offset;     /* of the value */
    size_t has_offset; /* of a bool that becomes true when the field is there; 0: none */
    double min, max;   /* of numbers, seconds and sizes; both 0: any that is not negative */
    size_t max_len;    /* bytes of a string, entries of a map or list; 0: PARAM_LEN_DEFAULT */
    const char *const *choices; /* up to NULL */
    const struct param_table *table;
    const char *pattern;             /* for the schema alone: `check` is what decides */
    bool (*check)(const char *text); /* of a string, the names of a map, each of some strings */
    const char *preset;  /* as JSON, for the schema and for a field that is absent; NULL: zero */
    const char *example; /* as JSON */
    const char *help;    /* one sentence */
};

#define PARAM_LEN_DEFAULT 4096

struct param_table {
    const char *name; /* of the schema: "CreateSession" */
    size_t size;      /* of the struct */
    const struct param *rows;
    size_t count;
};

#define PARAM_TABLE(type, title, table_rows)                                                       \
    {                                                                                              \
        .name = (title), .size = sizeof(type), .rows = (table_rows),                               \
        .count = ARRAY_LEN(table_rows)                                                             \
    }

/* Fills *out, which is zeroed first. On failure nothing is left in it, and *err names the field as
 * "files[2].path", the value as far as it is short, and what was expected. */
MUST_CHECK int params_read(void *out, const struct param_table *table, const json_t *value,
                           struct error *err);

/* The same from the fields of a query: text, of which each type makes what it can. Lists and
 * objects are not for queries; a name may stand there once. */
struct param_text {
    const char *name, *value;
};
MUST_CHECK int params_read_query(void *out, const struct param_table *table,
                                 const struct param_text *fields, size_t count, struct error *err);

/* New: the same values as an object, every field of the table in its order; what is not there, as
 * far as that can be told, is null. */
json_t *params_json(const void *values, const struct param_table *table);

/* Frees what a read has put there; of a zeroed struct too. */
void params_release(void *values, const struct param_table *table);

/* New: an object schema of JSON Schema 2020-12, with nested tables in place. */
json_t *params_schema(const struct param_table *table);

/* New: the same for one row, as a query parameter has it. */
json_t *params_row_schema(const struct param *row);
