/* test_template.c - templates as they are written, and the limits that come of them */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/template.h"

#include <string.h>

#include "check.h"

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *value = json_loads(text, 0, &error);
    assert_non_null(value);
    return value;
}

static void test_whole(void **state)
{
    (void)state;
    struct template_spec t;
    struct error err;
    scoped_json json_t *value = parse(
        "{\"name\": \"data-science\", \"language\": \"python\", \"image\": \"python\", \"preload\": [\"numpy\", \"a.b\"],"
        " \"resources\": {\"memory_bytes\": \"1G\", \"cpus\": 2}, \"env\": {\"TZ\": \"UTC\"}, \"network\": {\"policy\": \"none\"},"
        " \"pool\": {\"min\": 2}, \"timeout_seconds\": 5, \"ttl\": 60, \"idle_timeout\": 10}");
    assert_int_equal(params_read(&t, &template_table, value, &err), 0);
    assert_string_equal(t.name, "data-science");
    assert_int_equal(t.resources.memory_bytes, GIB);
    assert_int_equal(t.pool.min, 2);
    assert_int_equal(t.pool.max, 16);
    assert_int_equal(t.timeout_ms, 5000);
    assert_int_equal(t.preload.count, 2);

    scoped_json json_t *kept = params_json(&t, &template_table);
    params_release(&t, &template_table);
    assert_string_equal(json_string_value(json_object_get(kept, "name")), "data-science");
}

struct wrong {
    const char *name, *text, *message;
};

static const struct wrong wrongs[] = {
    {"no name", "{\"language\": \"python\"}", "name: is required"},
    {"no language", "{\"name\": \"a\"}", "language: is required"},
    {"a name with a slash", "{\"name\": \"a/b\", \"language\": \"python\"}",
     "name: expected ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$, not \"a/b\""},
    {"a name that begins with a dot", "{\"name\": \".a\", \"language\": \"python\"}",
     "name: expected ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$, not \".a\""},
    {"a variable that is none",
     "{\"name\": \"a\", \"language\": \"python\", \"env\": {\"1A\": \"\"}}",
     "env.1A: expected ^[A-Za-z_][A-Za-z0-9_]{0,127}$, not \"1A\""},
    {"a module that is none",
     "{\"name\": \"a\", \"language\": \"python\", \"preload\": [\"os; x\"]}",
     "preload[0]: expected ^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z0-9_]+)*$, not \"os; x\""},
    {"a module with an empty part",
     "{\"name\": \"a\", \"language\": \"python\", \"preload\": [\"a..b\"]}",
     "preload[0]: expected ^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z0-9_]+)*$, not \"a..b\""},
    {"a policy that is not there",
     "{\"name\": \"a\", \"language\": \"python\", \"network\": {\"policy\": \"all\"}}",
     "network.policy: expected one of none, packages, allow, not \"all\""},
    {"no memory",
     "{\"name\": \"a\", \"language\": \"python\", \"resources\": {\"memory_bytes\": 1}}",
     "resources.memory_bytes: must be between 4000000 and 1e+15, not 1"},
};

static void test_wrong(void **state)
{
    const struct wrong *row = *state;
    struct template_spec t;
    struct error err = {0};
    scoped_json json_t *value = parse(row->text);
    assert_int_equal(params_read(&t, &template_table, value, &err), -1);
    assert_string_equal(err.msg, row->message);
}

static const struct template_bounds bounds = {
    .usual = {.memory_bytes = 256 * MIB,
              .disk_bytes = 128 * MIB,
              .inodes = 1000,
              .cpu_milli = 500,
              .pids = 128,
              .open_files = 256,
              .lifetime_ms = 1},
    .most = {.memory_bytes = GIB,
             .disk_bytes = GIB,
             .inodes = 5000,
             .cpu_milli = 2000,
             .pids = 512,
             .open_files = 1024},
};

struct granted {
    const char *name;
    struct resource_spec spec, over;
    const char *message; /* NULL: granted */
    struct spawn_limits limits;
};

#define USUAL .inodes = 1000, .pids = 128, .open_files = 256, .lifetime_ms = 1

static const struct granted grants[] = {
    {"nothing asked",
     {0},
     {0},
     NULL,
     {.memory_bytes = 256 * MIB, .disk_bytes = 128 * MIB, .cpu_milli = 500, USUAL}},
    {"the template's",
     {.memory_bytes = 512 * MIB, .cpus = 1.5},
     {0},
     NULL,
     {.memory_bytes = 512 * MIB, .disk_bytes = 128 * MIB, .cpu_milli = 1500, USUAL}},
    {"the request's",
     {.memory_bytes = 512 * MIB},
     {.memory_bytes = GIB, .disk_bytes = 512 * MIB},
     NULL,
     {.memory_bytes = GIB, .disk_bytes = 512 * MIB, .cpu_milli = 500, USUAL}},
    {"a disk that nobody chose shrinks",
     {0},
     {.memory_bytes = 64 * MIB},
     NULL,
     {.memory_bytes = 64 * MIB, .disk_bytes = 32 * MIB, .cpu_milli = 500, USUAL}},
    {"a chosen disk does not",
     {0},
     {.disk_bytes = 200 * MIB},
     "resources.disk_bytes: 209715200 is more than half of the 268435456 bytes of memory",
     {0}},
    {"too much memory",
     {0},
     {.memory_bytes = 2 * GIB},
     "resources.memory_bytes: 2147483648 is more than the 1073741824 that are allowed here",
     {0}},
    {"a template above a lowered ceiling",
     {.pids = 1000},
     {0},
     "resources.pids: 1000 is more than the 512 that are allowed here",
     {0}},
    {"too many processors",
     {.cpus = 2.001},
     {0},
     "resources.cpus: 2.001 is more than the 2 that are allowed here",
     {0}},
};

static void test_grant(void **state)
{
    const struct granted *row = *state;
    struct spawn_limits limits;
    struct error err = {0};
    int status = template_limits(&limits, &bounds, &row->spec, &row->over, &err);
    assert_int_equal(status, row->message ? -1 : 0);
    assert_string_equal(err.msg, row->message ? row->message : "");
    if (status == 0)
        assert_memory_equal(&limits, &row->limits, sizeof(limits));
    else
        assert_true(err.hint[0]);
}

struct output_case {
    const char *name;
    uint64_t asked, granted; /* granted 0: refused */
};

static const struct output_case outputs[] = {
    {"output: nothing asked is the most", 0, MIB},
    {"output: less than that", 2 * KIB, 2 * KIB},
    {"output: all of it", MIB, MIB},
    {"output: a byte more", MIB + 1, 0},
};

static void test_output(void **state)
{
    const struct output_case *row = *state;
    uint64_t granted = 0;
    struct error err = {0};
    assert_int_equal(template_output(&granted, row->asked, MIB, &err), row->granted ? 0 : -1);
    assert_int_equal(granted, row->granted);
    if (!row->granted)
        assert_string_equal(err.msg,
                            "output_bytes: 1048577 is more than the 1048576 that are allowed here");
}

/* The schema says nothing that the table would refuse. */
static void test_schema(void **state)
{
    (void)state;
    scoped_json json_t *schema = params_schema(&template_table);
    json_t *field;
    const char *name;
    json_object_foreach(json_object_get(schema, "properties"), name, field)
    {
        assert_true(json_is_string(json_object_get(field, "description")));
    }
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "a whole one", test_whole);
    check_rows(&check, wrongs, test_wrong);
    check_rows(&check, grants, test_grant);
    check_rows(&check, outputs, test_output);
    check_one(&check, "each field is described", test_schema);
    return check_run(&check, "template");
}
