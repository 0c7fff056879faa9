/* test_params.c - requests by tables: what is taken, what is refused and in which words */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/params.h"

#include <string.h>

#include "base/strbuf.h"
#include "check.h"

struct file {
    char *path, *content;
};

struct place {
    char *host;
    int64_t port;
};

struct request {
    char *code;
    int language;
    bool is_queued, has_cpus;
    int64_t count;
    double cpus;
    uint64_t timeout_ms, memory_bytes;
    struct param_map env;
    struct param_strings packages;
    struct place place;
    struct param_list files;
    json_t *metadata;
};

static bool is_name(const char *text)
{
    return *text && strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == strlen(text);
}

static const struct param file_rows[] = {
    {.name = "path",
     .type = PARAM_STRING,
     .is_required = true,
     .offset = offsetof(struct file, path),
     .max_len = 8},
    {.name = "content", .type = PARAM_STRING, .offset = offsetof(struct file, content)},
};
static const struct param_table file_table = PARAM_TABLE(struct file, "File", file_rows);

static const struct param place_rows[] = {
    {.name = "host",
     .type = PARAM_STRING,
     .offset = offsetof(struct place, host),
     .preset = "\"here\""},
    {.name = "port",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct place, port),
     .min = 1,
     .max = 65535},
};
static const struct param_table place_table = PARAM_TABLE(struct place, "Place", place_rows);

static const char *const languages[] = {"python", "bash", NULL};

#define AT(field) offsetof(struct request, field)
static const struct param rows[] = {
    {.name = "code",
     .type = PARAM_STRING,
     .is_required = true,
     .offset = AT(code),
     .max_len = 16,
     .help = "What to run.",
     .example = "\"print(1)\""},
    {.name = "language",
     .type = PARAM_CHOICE,
     .offset = AT(language),
     .choices = languages,
     .preset = "\"bash\""},
    {.name = "queue", .type = PARAM_BOOLEAN, .offset = AT(is_queued)},
    {.name = "count", .type = PARAM_INTEGER, .offset = AT(count)},
    {.name = "cpus",
     .type = PARAM_NUMBER,
     .offset = AT(cpus),
     .has_offset = AT(has_cpus),
     .min = 0.5,
     .max = 2},
    {.name = "timeout",
     .other_name = "timeout_seconds",
     .type = PARAM_SECONDS,
     .offset = AT(timeout_ms),
     .min = 0.001,
     .max = 600,
     .preset = "30"},
    {.name = "memory", .type = PARAM_SIZE, .offset = AT(memory_bytes), .min = 1024, .max = 1 << 30},
    {.name = "env",
     .type = PARAM_MAP,
     .offset = AT(env),
     .max_len = 2,
     .check = is_name,
     .pattern = "^[A-Z_]+$"},
    {.name = "packages", .type = PARAM_STRINGS, .offset = AT(packages), .max_len = 3},
    {.name = "place", .type = PARAM_OBJECT, .offset = AT(place), .table = &place_table},
    {.name = "files", .type = PARAM_LIST, .offset = AT(files), .table = &file_table, .max_len = 2},
    {.name = "metadata", .type = PARAM_JSON, .offset = AT(metadata)},
};
static const struct param_table table = PARAM_TABLE(struct request, "Request", rows);

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *value = json_loads(text, JSON_DECODE_ANY, &error);
    assert_non_null(value);
    return value;
}

static void test_all(void **state)
{
    (void)state;
    struct request r;
    struct error err;
    scoped_json json_t *value = parse(
        "{\"code\": \"print(1)\", \"language\": \"python\", \"queue\": true, \"count\": 7, \"cpus\": 1,"
        " \"timeout_seconds\": 0.0101, \"memory\": \"64K\", \"env\": {\"B\": \"2\", \"A\": \"\"},"
        " \"packages\": [\"numpy\", \"\"], \"place\": {\"port\": 80}, \"metadata\": {\"k\": [1]},"
        " \"files\": [{\"path\": \"a\"}, {\"path\": \"b\", \"content\": \"x\"}]}");
    assert_int_equal(params_read(&r, &table, value, &err), 0);
    assert_string_equal(r.code, "print(1)");
    assert_int_equal(r.language, 0);
    assert_true(r.is_queued && r.has_cpus && r.cpus == 1);
    assert_int_equal(r.count, 7);
    assert_int_equal(r.timeout_ms, 11); /* not less than what was asked for */
    assert_int_equal(r.memory_bytes, 65536);
    assert_int_equal(r.env.count, 2);
    assert_string_equal(r.env.names[0], "B"); /* in the order given */
    assert_string_equal(r.env.values[1], "");
    assert_int_equal(r.packages.count, 2);
    assert_string_equal(r.packages.items[0], "numpy");
    assert_string_equal(r.place.host, "here");
    assert_int_equal(r.place.port, 80);
    assert_int_equal(r.files.count, 2);
    const struct file *files = r.files.items;
    assert_string_equal(files[1].content, "x");
    assert_null(files[0].content);
    assert_true(json_is_object(r.metadata));
    scoped_json json_t *written = params_json(&r, &table);
    params_release(&r, &table);
    params_release(&r, &table); /* a second time there is nothing */

    struct request again;
    assert_int_equal(params_read(&again, &table, written, &err), 0);
    scoped_json json_t *twice = params_json(&again, &table);
    assert_true(json_equal(written, twice));
    assert_int_equal(json_object_size(twice), ARRAY_LEN(rows));
    assert_int_equal(again.timeout_ms, 11);
    params_release(&again, &table);
}

static void test_least(void **state)
{
    (void)state;
    struct request r;
    struct error err;
    scoped_json json_t *value = parse("{\"code\": \"\", \"env\": null, \"cpus\": null}");
    assert_int_equal(params_read(&r, &table, value, &err), 0);
    assert_int_equal(r.language, 1);
    assert_int_equal(r.timeout_ms, 30000);
    assert_false(r.has_cpus || r.is_queued);
    assert_int_equal(r.env.count + r.files.count + r.memory_bytes, 0);
    assert_null(r.place.host); /* the object itself was not there */
    scoped_json json_t *written = params_json(&r, &table);
    assert_true(json_is_null(json_object_get(written, "cpus"))); /* 0 could not have been said */
    assert_true(json_is_null(json_object_get(written, "memory")));
    assert_int_equal(json_integer_value(json_object_get(written, "count")), 0);
    params_release(&r, &table);
    assert_int_equal(params_read(&r, &table, written, &err), 0);
    params_release(&r, &table);
}

struct refusal {
    const char *name, *text, *message, *hint;
    enum error_code code;
};

static const struct refusal refusals[] = {
    {"no object", "[]", "body: expected an object, not []", "", ERROR_INVALID},
    {"nothing", "{}", "code: is required", "", ERROR_INVALID},
    {"null for what is required", "{\"code\": null}", "code: is required", "", ERROR_INVALID},
    {"unknown field", "{\"code\": \"\", \"timeot\": 1}", "timeot: no such field",
     "did you mean 'timeout'?", ERROR_INVALID},
    {"unknown field of a part", "{\"code\": \"\", \"place\": {\"hots\": 1}}",
     "place.hots: no such field", "did you mean 'host'?", ERROR_INVALID},
    {"number for text", "{\"code\": 1}", "code: expected a string, not 1", "", ERROR_INVALID},
    {"long text", "{\"code\": \"12345678901234567\"}", "code: has 17 bytes; at most 16 are taken",
     "", ERROR_TOO_LARGE},
    {"wrong word", "{\"code\": \"\", \"language\": \"perl\"}",
     "language: expected one of python, bash, not \"perl\"", "", ERROR_INVALID},
    {"word of another type", "{\"code\": \"\", \"language\": 0}",
     "language: expected one of python, bash, not 0", "", ERROR_INVALID},
    {"text for a switch", "{\"code\": \"\", \"queue\": \"true\"}",
     "queue: expected true or false, not \"true\"", "", ERROR_INVALID},
    {"half a number", "{\"code\": \"\", \"count\": 1.5}", "count: expected a whole number, not 1.5",
     "", ERROR_INVALID},
    {"negative", "{\"code\": \"\", \"count\": -1}", "count: must not be negative, and is -1", "",
     ERROR_INVALID},
    {"too much", "{\"code\": \"\", \"cpus\": 3}", "cpus: must be between 0.5 and 2, not 3", "",
     ERROR_INVALID},
    {"no time", "{\"code\": \"\", \"timeout\": 0}", "timeout: must be between 0.001 and 600, not 0",
     "", ERROR_INVALID},
    {"the other name is told", "{\"code\": \"\", \"timeout_seconds\": \"1\"}",
     "timeout_seconds: expected a number, not \"1\"", "", ERROR_INVALID},
    {"both names", "{\"code\": \"\", \"timeout\": 1, \"timeout_seconds\": 1}",
     "timeout: is given twice, as timeout_seconds too", "", ERROR_INVALID},
    {"a size that is none", "{\"code\": \"\", \"memory\": \"much\"}",
     "memory: expected a number of bytes, or a string such as \"256M\", not \"much\"", "",
     ERROR_INVALID},
    {"a size of less than nothing", "{\"code\": \"\", \"memory\": -5}",
     "memory: expected a number of bytes, or a string such as \"256M\", not -5", "", ERROR_INVALID},
    {"too many entries", "{\"code\": \"\", \"env\": {\"A\": \"\", \"B\": \"\", \"C\": \"\"}}",
     "env: has 3 entries; at most 2 are taken", "", ERROR_TOO_LARGE},
    {"a name that is none", "{\"code\": \"\", \"env\": {\"A\": \"\", \"b\": \"\"}}",
     "env.b: expected ^[A-Z_]+$, not \"b\"", "", ERROR_INVALID},
    {"a value that is no text", "{\"code\": \"\", \"env\": {\"A\": 1}}",
     "env.A: expected a string, not 1", "", ERROR_INVALID},
    {"a list for a map", "{\"code\": \"\", \"env\": []}",
     "env: expected an object of strings, not []", "", ERROR_INVALID},
    {"one wrong of several", "{\"code\": \"\", \"packages\": [\"a\", 2]}",
     "packages[1]: expected a string, not 2", "", ERROR_INVALID},
    {"text for a list", "{\"code\": \"\", \"packages\": \"a\"}",
     "packages: expected a list of strings, not \"a\"", "", ERROR_INVALID},
    {"deep inside", "{\"code\": \"\", \"files\": [{\"path\": \"a\"}, {\"path\": \"123456789\"}]}",
     "files[1].path: has 9 bytes; at most 8 are taken", "", ERROR_TOO_LARGE},
    {"missing deep inside", "{\"code\": \"\", \"files\": [{\"content\": \"a\"}]}",
     "files[0].path: is required", "", ERROR_INVALID},
    {"no object in a list", "{\"code\": \"\", \"files\": [1]}",
     "files[0]: expected an object, not 1", "", ERROR_INVALID},
    {"a wrong value is cut",
     "{\"code\": \"\", \"queue\": \"0123456789012345678901234567890123456789\"}",
     "queue: expected true or false, not \"012345678901234567890123456789012345678...", "",
     ERROR_INVALID},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct request r;
    struct error err = {0};
    scoped_json json_t *value = parse(row->text);
    assert_int_equal(params_read(&r, &table, value, &err), -1);
    assert_string_equal(err.msg, row->message);
    assert_string_equal(err.hint, row->hint);
    assert_int_equal(err.code, row->code);
    struct request none = {0};
    assert_memory_equal(&r.files, &none.files, sizeof(none.files)); /* nothing is left to free */
    assert_null(r.code);
}

struct query {
    const char *name;
    struct param_text fields[3];
    size_t count;
    const char *message; /* NULL: taken */
};

static const struct query queries[] = {
    {"query: all kinds", {{"code", "x"}, {"count", "12"}, {"queue", "true"}}, 3, NULL},
    {"query: numbers and sizes", {{"code", "x"}, {"cpus", "1.5"}, {"memory", "2K"}}, 3, NULL},
    {"query: text that is no number",
     {{"code", "x"}, {"count", "12x"}},
     2,
     "count: expected a whole number, not \"12x\""},
    {"query: an empty number",
     {{"code", "x"}, {"cpus", ""}},
     2,
     "cpus: expected a number, not \"\""},
    {"query: a number in another notation",
     {{"code", "x"}, {"cpus", "0x1p0"}},
     2,
     "cpus: expected a number, not \"0x1p0\""},
    {"query: infinity",
     {{"code", "x"}, {"cpus", "1e999"}},
     2,
     "cpus: expected a number, not \"1e999\""},
    {"query: twice", {{"code", "x"}, {"code", "y"}}, 2, "code: is given twice"},
    {"query: not UTF-8", {{"code", "\xff"}}, 1, "code: expected a string, not \"\xef\xbf\xbd\""},
    {"query: what is for bodies", {{"code", "x"}, {"files", "[]"}}, 2, "files: no such field"},
    {"query: unknown", {{"cod", "x"}}, 1, "cod: no such field"},
};

static void test_query(void **state)
{
    const struct query *row = *state;
    struct request r;
    struct error err = {0};
    int status = params_read_query(&r, &table, row->fields, row->count, &err);
    assert_int_equal(status, row->message ? -1 : 0);
    assert_string_equal(err.msg, row->message ? row->message : "");
    if (status == 0)
        assert_string_equal(r.code, "x");
    params_release(&r, &table);
}

static void test_schema(void **state)
{
    (void)state;
    scoped_json json_t *schema = params_schema(&table);
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 1 << 16);
    json_t *properties = json_object_get(schema, "properties");
    static const struct {
        const char *field, *schema;
    } expected[] = {
        {"code",
         "{\"type\":\"string\",\"maxLength\":16,\"description\":\"What to run.\",\"examples\":[\"print(1)\"]}"},
        {"language",
         "{\"type\":[\"string\",\"null\"],\"enum\":[\"python\",\"bash\",null],\"default\":\"bash\"}"},
        {"timeout_seconds",
         "{\"type\":[\"number\",\"null\"],\"minimum\":0.001,\"maximum\":600.0,\"default\":30}"},
        {"count", "{\"type\":[\"integer\",\"null\"],\"minimum\":0}"},
        {"env",
         "{\"type\":[\"object\",\"null\"],\"additionalProperties\":{\"type\":\"string\"},\"maxProperties\":2,\"propertyNames\":{\"pattern\":\"^[A-Z_]+$\"}}"},
        {"metadata", "{}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        strbuf_clear(&text);
        json_add(&text, json_object_get(properties, expected[i].field), JSON_STYLE_COMPACT);
        assert_string_equal(strbuf_str(&text), expected[i].schema);
    }
    strbuf_clear(&text);
    json_add(&text, json_object_get(schema, "required"), JSON_STYLE_COMPACT);
    assert_string_equal(strbuf_str(&text), "[\"code\"]");
    strbuf_clear(&text);
    json_add(&text, json_object_get(schema, "not"), JSON_STYLE_COMPACT);
    assert_string_equal(strbuf_str(&text), "{\"required\":[\"timeout\",\"timeout_seconds\"]}");
    assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
    assert_string_equal(json_string_value(json_object_get(schema, "title")), "Request");
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "every type", test_all);
    check_one(&check, "presets, and null for nothing", test_least);
    check_rows(&check, refusals, test_refusal);
    check_rows(&check, queries, test_query);
    check_one(&check, "schema", test_schema);
    return check_run(&check, "params");
}
