/* fuzz_option.c - arguments from bytes, split at NUL: what is kept is in range */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/option.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "fuzz.h"

#define ARGS_MAX 64

struct target {
    bool fast;
    bool safe;
    char *text;
    uint64_t number;
    uint64_t size;
    uint64_t time;
    uint64_t cpus;
    struct option_list items;
    unsigned colour;
};

#define AT(field) offsetof(struct target, field)

static const char *const colours[] = {"red", "green", NULL};
static const struct option_row rows[] = {
    {.name = "fast", .short_name = 'f', .type = OPTION_BOOL, .offset = AT(fast)},
    {.name = "safe", .type = OPTION_BOOL, .offset = AT(safe), .preset = "true"},
    {.name = "text", .short_name = 't', .type = OPTION_STRING, .offset = AT(text), .max = 20},
    {.name = "number",
     .short_name = 'n',
     .type = OPTION_U64,
     .offset = AT(number),
     .min = 2,
     .max = 9},
    {.name = "size", .type = OPTION_SIZE, .offset = AT(size), .max = 1 << 20},
    {.name = "time", .type = OPTION_DURATION_MS, .offset = AT(time), .max = 60000},
    {.name = "cpus", .type = OPTION_MILLI, .offset = AT(cpus), .max = 4000},
    {.name = "item", .short_name = 'i', .type = OPTION_LIST, .offset = AT(items)},
    {.name = "colour", .type = OPTION_ENUM, .offset = AT(colour), .choices = colours},
};

static void check_target(const struct target *t, const struct option_set *set)
{
    BUG_ON(t->number != 0 && (t->number < 2 || t->number > 9));
    BUG_ON(t->size > 1 << 20 || t->time > 60000 || t->cpus > 4000 || t->colour > 1);
    BUG_ON(t->text && strlen(t->text) > 20);
    BUG_ON(t->items.count > ARGS_MAX);
    for (size_t i = 0; i < set->count; i++) {
        scoped_strbuf struct strbuf value;
        strbuf_init(&value, 1 * MIB);
        option_add_value(set, i, &value);
        BUG_ON(strlen(option_origin(set, i)) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    bool stop_at_argument = data[0] & 1;
    scoped_free char *text = xstrndup((const char *)data + 1, size - 1);
    char *argv[ARGS_MAX];
    int argc = 0;
    for (size_t at = 0; at + 1 < size && argc < ARGS_MAX; at += strlen(text + at) + 1)
        argv[argc++] = text + at;

    struct target target = {0};
    struct option_set set;
    struct option_set *const sets[] = {&set};
    struct error err;
    int before = argc;
    option_set_init(&set, rows, ARRAY_LEN(rows), &target);
    if (option_apply_flags(sets, 1, &argc, argv, stop_at_argument, &err) < 0)
        BUG_ON(err.code != ERROR_INVALID || argc != before);
    BUG_ON(argc > before);
    option_apply_presets(&set);
    check_target(&target, &set);
    option_set_release(&set);
    BUG_ON(target.text || target.items.items);
    return 0;
}
