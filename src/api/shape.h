/* shape.h - what answers look like, as tables of fields; told as JSON Schema 2020-12
 *
 * The counterpart of params.h for the other direction. An object has every field of its table, but
 * for those that are OPTIONAL, and no other. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/id.h"
#include "codec/json.h"

enum shape_type {
    SHAPE_TEXT,    /* `of`: NULL, or a pattern */
    SHAPE_ID,      /* of kind `id` */
    SHAPE_TIME,    /* as clock_format() writes it */
    SHAPE_WORD,    /* one of `words` */
    SHAPE_BOOLEAN, /* true or false */
    SHAPE_COUNT,   /* a whole number, not negative */
    SHAPE_INTEGER, /* a whole number */
    SHAPE_NUMBER,  /* not negative */
    SHAPE_OBJECT,  /* `of`: another shape, or several with | between them */
    SHAPE_INNER,   /* the same as JSON in a text */
    SHAPE_ANY,     /* any JSON value */
    SHAPE_TYPE_COUNT
};

enum shape_flags {
    SHAPE_NULL = 1 << 0,     /* may be null */
    SHAPE_OPTIONAL = 1 << 1, /* may be absent */
    SHAPE_LIST = 1 << 2,     /* an array of it */
    SHAPE_MAP = 1 << 3,      /* an object whose members, of any name, are it */
};

/* The words of an enum, by their number; NULL past the last. */
typedef const char *(*shape_words_fn)(size_t index);

struct shape_field {
    const char *name;
    enum shape_type type;
    unsigned flags;
    const char *of;
    enum id_kind id;
    shape_words_fn words;
    const char *help;
    const char *example; /* as JSON; NULL: none */
};

struct shape {
    const char *name; /* "Session" */
    const char *help;
    const struct shape_field *fields;
    size_t count;
};

#define SHAPE_REF_PREFIX "#/components/schemas/"

/* New: the schema of an object; other shapes are named by a $ref below SHAPE_REF_PREFIX. */
json_t *shape_schema(const struct shape *shape);
json_t *shape_ref(const char *name); /* new: {"$ref": ...} */
