/* params_inside.h - a type of parameter as a row of functions, for the files that read tables */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/params.h"

#define PARAMS_SHOWN_BYTES 40 /* of a wrong value or name */
#define PARAMS_SHOWN_SIZE  (PARAMS_SHOWN_BYTES + sizeof("..."))
#define PARAMS_PATH_BYTES  128

struct params_reader {
    char path[PARAMS_PATH_BYTES]; /* of the field that is read: "files[2].path" */
    struct error *err;
    bool is_secret; /* what is read now is not to be shown */
};

struct params_type {
    const char *expected; /* in words */
    bool (*read)(struct params_reader *r, const struct param *p, const json_t *value, void *out);
    json_t *(*from_text)(const char *text); /* NULL: not for queries; the result may be NULL */
    void (*release)(const struct param *p, void *out);
    json_t *(*schema)(const struct param *p);
    json_t *(*write)(const struct param *p, const void *value);
};

extern const struct params_type params_types[PARAM_TYPE_COUNT];

/* Each says what is wrong with the field at r->path, and is false. */
bool params_refuse(struct params_reader *r, const char *what);
bool params_refuse_value(struct params_reader *r, const json_t *value, const char *expected);

/* Valid UTF-8, cut between two characters. */
void params_shorten(const char *text, char out[PARAMS_SHOWN_SIZE]);

/* Makes the path end, from `len` on, with a field or an item. */
void params_enter(struct params_reader *r, size_t len, const char *format, const char *name,
                  size_t index);

bool params_read_table(struct params_reader *r, const struct param_table *table,
                       const json_t *value, void *out);

static inline void *params_at(void *base, size_t offset)
{
    return (char *)base + offset;
}

static inline const void *params_at_const(const void *base, size_t offset)
{
    return (const char *)base + offset;
}
