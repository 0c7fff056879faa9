/* fuzz_params.c - any document against a table of every type: taken or refused, and nothing kept
 *
 * The first byte says whether the rest is a JSON document or the fields of a query. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/params.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "fuzz.h"

struct part {
    char *path;
    int64_t count;
};

struct all {
    char *text;
    int choice;
    bool is_on, has_on;
    int64_t whole;
    double number;
    uint64_t wait_ms, bytes;
    struct param_map map;
    struct param_strings strings;
    struct part part;
    struct param_list parts;
    json_t *any;
};

static bool is_short(const char *text)
{
    return strlen(text) < 4;
}

static const struct param part_rows[] = {
    {.name = "p",
     .type = PARAM_STRING,
     .is_required = true,
     .offset = offsetof(struct part, path),
     .check = is_short},
    {.name = "n", .type = PARAM_INTEGER, .offset = offsetof(struct part, count), .preset = "3"},
};
static const struct param_table part_table = PARAM_TABLE(struct part, "Part", part_rows);
static const char *const choices[] = {"a", "bb", NULL};

#define AT(field) offsetof(struct all, field)
static const struct param rows[] = {
    {.name = "text", .type = PARAM_STRING, .offset = AT(text), .max_len = 32},
    {.name = "choice", .type = PARAM_CHOICE, .offset = AT(choice), .choices = choices},
    {.name = "on", .type = PARAM_BOOLEAN, .offset = AT(is_on), .has_offset = AT(has_on)},
    {.name = "whole", .type = PARAM_INTEGER, .offset = AT(whole), .min = -9, .max = 9},
    {.name = "number", .type = PARAM_NUMBER, .offset = AT(number), .min = -1, .max = 1e300},
    {.name = "wait", .other_name = "w", .type = PARAM_SECONDS, .offset = AT(wait_ms)},
    {.name = "bytes", .type = PARAM_SIZE, .offset = AT(bytes), .max = 1e15},
    {.name = "map", .type = PARAM_MAP, .offset = AT(map), .max_len = 4, .check = is_short},
    {.name = "strings", .type = PARAM_STRINGS, .offset = AT(strings), .max_len = 4},
    {.name = "part", .type = PARAM_OBJECT, .offset = AT(part), .table = &part_table},
    {.name = "parts", .type = PARAM_LIST, .offset = AT(parts), .table = &part_table, .max_len = 3},
    {.name = "any", .type = PARAM_JSON, .offset = AT(any)},
};
static const struct param_table table = PARAM_TABLE(struct all, "All", rows);

static void check(int status, const struct all *all, const struct error *err)
{
    if (status < 0) {
        BUG_ON(!err->msg[0] || !utf8_is_valid(err->msg, strlen(err->msg)));
        return;
    }
    BUG_ON(all->text && strlen(all->text) > 32);
    BUG_ON(all->choice < 0 || all->choice > 1);
    BUG_ON(all->whole < -9 || all->whole > 9);
    BUG_ON(all->map.count > 4 || all->strings.count > 4 || all->parts.count > 3);
    for (size_t i = 0; i < all->parts.count; i++)
        BUG_ON(!((const struct part *)all->parts.items)[i].path);
    scoped_json json_t *written = params_json(all, &table);
    BUG_ON(json_object_size(written) != ARRAY_LEN(rows));
}

static int read_document(struct all *all, const uint8_t *data, size_t size, struct error *err)
{
    static const struct json_limits limits = {.max_bytes = 1 * MIB, .max_depth = 16};
    scoped_json json_t *value = NULL;
    memset(all, 0, sizeof(*all));
    if (json_parse(&value, (const char *)data, size, &limits, err) < 0)
        return -1;
    return params_read(all, &table, value, err);
}

/* name, NUL, value, NUL, and so on */
static int read_fields(struct all *all, const uint8_t *data, size_t size, struct error *err)
{
    struct param_text fields[8];
    size_t count = 0;
    char *text = xcalloc(1, size + 2), *at = text, *end = text + size;
    memcpy(text, data, size);
    for (; at < end && count < ARRAY_LEN(fields); count++) {
        fields[count].name = at;
        fields[count].value = at + strlen(at) + 1;
        at = (char *)fields[count].value;
        if (at > end)
            fields[count].value = "";
        else
            at += strlen(at) + 1;
    }
    int status = params_read_query(all, &table, fields, count, err);
    free(text);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct all all;
    struct error err = {0};
    if (size == 0)
        return 0;
    int status = data[0] == 'q' ? read_fields(&all, data + 1, size - 1, &err)
                                : read_document(&all, data + 1, size - 1, &err);
    check(status, &all, &err);
    params_release(&all, &table);
    return 0;
}
