/* template.c - the table of a template, and what it amounts to in limits */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/template.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/macros.h"
#include "core/session.h"

#define NAME_BYTES     64
#define VARIABLE_BYTES 128
#define MODULE_BYTES   128
#define PRELOADS_MAX   64
#define VARIABLES_MAX  256
#define POOL_MAX       1024
#define YEAR_S         (366.0 * 24 * 3600)

/* --- words ----------------------------------------------------------------------------------- */

static bool is_made_of(const char *text, const char *others, size_t max)
{
    size_t len = 0;
    for (; text[len]; len++) {
        bool is_usual = isascii(text[len]) && isalnum((unsigned char)text[len]);
        if (len == max || (!is_usual && !strchr(others, text[len])))
            return false;
    }
    return len > 0;
}

bool template_name_is_valid(const char *text)
{
    return is_made_of(text, "._-", NAME_BYTES) && isalnum((unsigned char)text[0]);
}

bool template_variable_is_valid(const char *text)
{
    return is_made_of(text, "_", VARIABLE_BYTES) && !isdigit((unsigned char)text[0]);
}

static bool is_module(const char *text)
{
    return is_made_of(text, "._", MODULE_BYTES) && !isdigit((unsigned char)text[0]) &&
           text[0] != '.' && !strstr(text, "..") && text[strlen(text) - 1] != '.';
}

/* --- tables ---------------------------------------------------------------------------------- */

/* clang-format off */
#define AT(field) offsetof(struct resource_spec, field)
static const struct param resource_rows[] = {
    {.name = "memory_bytes", .type = PARAM_SIZE, .offset = AT(memory_bytes), .min = 4e6, .max = 1e15,
     .example = "268435456", .help = "Memory, with everything that is written to files."},
    {.name = "cpus", .type = PARAM_NUMBER, .offset = AT(cpus), .min = 0.01, .max = 1024,
     .example = "0.5", .help = "Processors, as a share of their time."},
    {.name = "pids", .type = PARAM_INTEGER, .offset = AT(pids), .min = 2, .max = 1e6,
     .example = "128", .help = "Processes and threads at a time."},
    {.name = "disk_bytes", .type = PARAM_SIZE, .offset = AT(disk_bytes), .min = 65536, .max = 1e15,
     .example = "134217728", .help = "What all files together may have; they live in memory, so at most half of it."},
    {.name = "inodes", .type = PARAM_INTEGER, .offset = AT(inodes), .min = 16, .max = 1e9,
     .help = "Files and directories."},
    {.name = "open_files", .type = PARAM_INTEGER, .offset = AT(open_files), .min = 16, .max = 1e7,
     .help = "Files that one process may have open."},
    {.name = "forks", .type = PARAM_INTEGER, .offset = AT(forks), .max = SESSION_FORKS_MAX,
     .help = "How often a session can be forked (python): each takes the place of a session from the start."},
};
#undef AT
const struct param_table resource_table = PARAM_TABLE(struct resource_spec, "Resources", resource_rows);

static const struct param pool_rows[] = {
    {.name = "min", .type = PARAM_INTEGER, .offset = offsetof(struct pool_spec, min), .max = POOL_MAX,
     .preset = "0", .help = "Sessions that wait ready even when nobody asks."},
    {.name = "max", .type = PARAM_INTEGER, .offset = offsetof(struct pool_spec, max), .max = POOL_MAX,
     .preset = "16", .help = "The most that wait when many ask; 0: none, each is made when it is asked for."},
};
static const struct param_table pool_table = PARAM_TABLE(struct pool_spec, "Pool", pool_rows);

#define AT(field) offsetof(struct template_spec, field)
#define ROWS \
    {.name = "name", .type = PARAM_STRING, .is_required = true, .offset = AT(name), .max_len = NAME_BYTES, \
     .check = template_name_is_valid, .pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", \
     .example = "\"data-science\"", .help = "By which sessions ask for it."}, \
    {.name = "description", .type = PARAM_STRING, .offset = AT(description), .max_len = 2000, \
     .help = "For people."}, \
    {.name = "language", .type = PARAM_STRING, .is_required = true, .offset = AT(language), .max_len = NAME_BYTES, \
     .check = template_name_is_valid, .pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", \
     .example = "\"python\"", .help = "The language of its sessions, as listed by /runners."}, \
    {.name = "image", .type = PARAM_STRING, .offset = AT(image), .max_len = NAME_BYTES, \
     .check = template_name_is_valid, .pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", \
     .example = "\"python\"", .help = "Its root image; without one, the first that has the language."}, \
    {.name = "resources", .type = PARAM_OBJECT, .offset = AT(resources), .table = &resource_table, \
     .help = "What each sandbox may use."}, \
    {.name = "env", .type = PARAM_MAP, .offset = AT(env), .max_len = VARIABLES_MAX, \
     .check = template_variable_is_valid, .pattern = "^[A-Za-z_][A-Za-z0-9_]{0,127}$", \
     .example = "{\"TZ\": \"UTC\"}", .help = "Variables of every program in it."}, \
    {.name = "preload", .type = PARAM_STRINGS, .offset = AT(preload), .max_len = PRELOADS_MAX, \
     .check = is_module, .pattern = "^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z0-9_]+)*$", \
     .example = "[\"numpy\", \"pandas\"]", .help = "Modules that are imported before a session is given out (python)."}, \
    REQUIREMENTS_ROW(AT(requirements), "Packages that its sandboxes have, from the index of the language."), \
    {.name = "network", .type = PARAM_OBJECT, .offset = AT(network), .table = &network_table, \
     .preset = "{}", .help = "What its sandboxes may reach."}, \
    {.name = "pool", .type = PARAM_OBJECT, .offset = AT(pool), .table = &pool_table, \
     .preset = "{}", .help = "How many sessions are made in advance."}, \
    {.name = "timeout", .other_name = "timeout_seconds", .type = PARAM_SECONDS, .offset = AT(timeout_ms), \
     .min = 0.001, .max = YEAR_S, .example = "30", .help = "Time limit, in seconds, of an execution that has no other."}, \
    OUTPUT_ROW(AT(output_bytes), "Bytes that are kept of each stream of an execution that asks for no other amount."), \
    {.name = "ttl", .other_name = "ttl_seconds", .type = PARAM_SECONDS, .offset = AT(ttl_ms), \
     .min = 1, .max = YEAR_S, .example = "3600", .help = "Seconds after which a session ends, used or not."}, \
    {.name = "idle_timeout", .other_name = "idle_timeout_seconds", .type = PARAM_SECONDS, .offset = AT(idle_ms), \
     .min = 1, .max = YEAR_S, .example = "600", .help = "Seconds after which an unused session ends."}
static const struct param rows[] = {ROWS};
const struct param_table template_table = PARAM_TABLE(struct template_spec, "CreateTemplate", rows);

#define OF(field) offsetof(struct template_change, field)
static const struct param change_rows[] = {
    ROWS,
    {.name = "version", .type = PARAM_INTEGER, .offset = OF(version), .min = 1, .max = 1e15,
     .example = "3", .help = "The version that is to be replaced; another one is refused."},
    {.name = "id", .type = PARAM_STRING, .offset = OF(id), .max_len = NAME_BYTES,
     .help = "Its own, when a document is sent back as it was read."},
    {.name = "created_at", .type = PARAM_STRING, .offset = OF(created_at), .max_len = NAME_BYTES,
     .help = "Not looked at."},
    {.name = "updated_at", .type = PARAM_STRING, .offset = OF(updated_at), .max_len = NAME_BYTES,
     .help = "Not looked at."},
    {.name = "problem", .type = PARAM_STRING, .offset = OF(problem), .help = "Not looked at."},
};
#undef OF
const struct param_table template_change_table =
    PARAM_TABLE(struct template_change, "ReplaceTemplate", change_rows);
#undef ROWS
#undef AT
/* clang-format on */

/* --- limits ---------------------------------------------------------------------------------- */

struct wish {
    const char *name;
    double value; /* what was asked for, 0: nothing */
    double usual, most;
};

static int grant(double *out, const struct wish *w, struct error *err)
{
    *out = w->value > 0 ? w->value : MIN(w->usual, w->most);
    if (*out <= w->most)
        return 0;
    error_set(err, ERROR_INVALID,
              "resources.%s: %.15g is more than the %.15g that are allowed here", w->name, w->value,
              w->most);
    return error_hint(err, "ask for less, or have the operator raise the limit");
}

static double first_of(double a, double b)
{
    return a > 0 ? a : b;
}

/* Half of the memory, as files are charged there. */
static int fit_disk(struct spawn_limits *l, bool was_chosen, struct error *err)
{
    uint64_t most = l->memory_bytes / 2;
    if (l->disk_bytes <= most)
        return 0;
    if (!was_chosen) {
        l->disk_bytes = most;
        return 0;
    }
    error_set(err, ERROR_INVALID,
              "resources.disk_bytes: %" PRIu64 " is more than half of the %" PRIu64
              " bytes of memory",
              l->disk_bytes, l->memory_bytes);
    return error_hint(err, "files live in memory and count there: ask for twice as much memory");
}

int template_limits(struct spawn_limits *out, const struct template_bounds *b,
                    const struct resource_spec *spec, const struct resource_spec *over,
                    struct error *err)
{
    static const struct resource_spec nothing;
    const struct resource_spec *o = over ? over : &nothing;
    const struct spawn_limits *u = &b->usual, *m = &b->most;
    const struct wish wishes[] = {
        {"memory_bytes", first_of((double)o->memory_bytes, (double)spec->memory_bytes),
         (double)u->memory_bytes, (double)m->memory_bytes},
        {"disk_bytes", first_of((double)o->disk_bytes, (double)spec->disk_bytes),
         (double)u->disk_bytes, (double)m->disk_bytes},
        {"cpus", first_of(o->cpus, spec->cpus), u->cpu_milli / 1000.0, m->cpu_milli / 1000.0},
        {"inodes", first_of((double)o->inodes, (double)spec->inodes), (double)u->inodes,
         (double)m->inodes},
        {"pids", first_of((double)o->pids, (double)spec->pids), u->pids, m->pids},
        {"open_files", first_of((double)o->open_files, (double)spec->open_files), u->open_files,
         m->open_files},
    };
    double granted[ARRAY_LEN(wishes)];
    for (size_t i = 0; i < ARRAY_LEN(wishes); i++) {
        if (grant(&granted[i], &wishes[i], err) < 0)
            return -1;
    }
    *out = (struct spawn_limits){
        .memory_bytes = (uint64_t)granted[0],
        .disk_bytes = (uint64_t)granted[1],
        .cpu_milli = (uint32_t)(granted[2] * 1000 + 0.5),
        .inodes = (uint64_t)granted[3],
        .pids = (uint32_t)granted[4],
        .open_files = (uint32_t)granted[5],
        .lifetime_ms = u->lifetime_ms,
    };
    return fit_disk(out, wishes[1].value > 0, err);
}

int template_output(uint64_t *out, uint64_t asked, uint64_t most, struct error *err)
{
    if (asked > most) {
        error_set(err, ERROR_INVALID,
                  "output_bytes: %" PRIu64 " is more than the %" PRIu64 " that are allowed here",
                  asked, most);
        return error_hint(err, "ask for less, or have the operator raise the limit");
    }
    *out = asked ? asked : most;
    return 0;
}
