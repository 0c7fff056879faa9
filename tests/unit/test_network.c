/* test_network.c - policies as people write them, as rules, and as variables */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/network.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "check.h"

static char private_a[] = "db.internal:5432", private_b[] = "*.corp.example", bad_host[] = "a b";
static char *privates_items[] = {private_a, private_b, NULL};
static const struct option_list privates = {.items = privates_items, .count = 2};
static const struct network_bounds bounds = {.most = NETWORK_ALLOW,
                                             .python_index = "http://127.0.0.1:8099/simple",
                                             .npm_registry = "https://npm.internal/",
                                             .privates = &privates};

struct row {
    const char *name, *text, *want; /* rules; or "!" and the complaint */
};

static const struct row rows[] = {
    {"nothing", "{}", ""},
    {"none", "{\"policy\": \"none\"}", ""},
    {"indexes, and the operator's own", "{\"policy\": \"packages\"}",
     "pypi.org files.pythonhosted.org registry.npmjs.org 127.0.0.1:8099! npm.internal:443! "},
    {"hosts", "{\"policy\": \"allow\", \"allow\": [\"Example.COM.\", \"*.a.org:81\"]}",
     "example.com *.a.org:81 "},
    {"an index that is named is the operator's",
     "{\"policy\": \"allow\", \"allow\": [\"127.0.0.1:8099\", \"127.0.0.1\"]}",
     "127.0.0.1:8099! 127.0.0.1 "},
    {"hosts that he vouches for",
     "{\"policy\": \"allow\", \"allow\": [\"db.internal:5432\", \"db.internal\", "
     "\"a.corp.example\", \"corp.example\", \"*.corp.example\"]}",
     "db.internal:5432! db.internal a.corp.example! corp.example *.corp.example! "},
    {"refuses hosts that are none", "{\"policy\": \"allow\", \"allow\": [\"a b\"]}", "!network"},
    {"refuses a list without a host", "{\"policy\": \"allow\"}", "!names no host"},
    {"refuses hosts of another policy", "{\"policy\": \"packages\", \"allow\": [\"a.org\"]}",
     "!is for the policy 'allow' only"},
    {"refuses a star alone", "{\"policy\": \"allow\", \"allow\": [\"*\"]}", "!"},
    {"refuses a star before an address", "{\"policy\": \"allow\", \"allow\": [\"*.10.0.0.1\"]}",
     "!"},
};

static int make(struct network_rules *rules, struct network_spec *spec, const char *text,
                struct error *err)
{
    scoped_json json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    if (params_read(spec, &network_table, value, err) < 0)
        return error_wrap(err, "network");
    return network_rules_make(rules, spec, &bounds, err);
}

static void test_row(void **state)
{
    const struct row *row = *state;
    struct network_rules rules = {0};
    struct network_spec spec = {0};
    struct error err;
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 4096);
    if (make(&rules, &spec, row->text, &err) < 0) {
        assert_int_equal(row->want[0], '!');
        assert_non_null(strstr(err.msg, row->want + 1));
    } else {
        for (size_t i = 0; i < rules.count; i++) {
            const struct egress_rule *r = &rules.items[i];
            strbuf_add_fmt(&got, "%s%s", r->flags & EGRESS_BELOW ? "*." : "", r->name);
            if (r->port)
                strbuf_add_fmt(&got, ":%u", r->port);
            strbuf_add_fmt(&got, "%s ", r->flags & EGRESS_PRIVATE ? "!" : "");
        }
        assert_string_equal(strbuf_str(&got), row->want);
    }
    network_rules_release(&rules);
    network_release(&spec);
}

static void test_ceiling(void **state)
{
    const struct network_bounds low = {.most = NETWORK_PACKAGES};
    const struct network_spec allow = {.policy = NETWORK_ALLOW};
    const struct network_spec packages = {.policy = NETWORK_PACKAGES};
    struct error err;
    (void)state;
    assert_int_equal(network_check(&packages, &low, &err), 0);
    assert_int_equal(network_check(&allow, &low, &err), -1);
    assert_int_equal(err.code, ERROR_DENIED);
}

static bool has(char *const *env, const char *want)
{
    for (; *env; env++) {
        if (strcmp(*env, want) == 0)
            return true;
    }
    return false;
}

static void free_all(char **env)
{
    for (char **e = env; *e; e++)
        free(*e);
    free(env);
}

static void test_env(void **state)
{
    char own_a[] = "HTTP_PROXY=mine", own_b[] = "A=b";
    char *own[] = {own_a, own_b, NULL};
    struct network_rules rules = {0};
    struct network_spec spec = {0}, none = {0};
    struct error err;
    (void)state;
    assert_int_equal(make(&rules, &spec, "{\"policy\": \"packages\"}", &err), 0);
    char **env = network_env(&spec, &rules, &bounds, own);
    assert_true(has(env, "HTTP_PROXY=mine") && has(env, "A=b"));
    assert_false(has(env, "HTTP_PROXY=http://127.0.0.1:808"));
    assert_true(has(env, "https_proxy=http://127.0.0.1:808") && has(env, "NODE_USE_ENV_PROXY=1"));
    /* 127.0.0.1 is the index here, so it is not reached without the proxy */
    assert_true(has(env, "NO_PROXY=localhost,::1"));
    assert_true(has(env, "PIP_INDEX_URL=http://127.0.0.1:8099/simple"));
    assert_true(has(env, "npm_config_registry=https://npm.internal/"));
    free_all(env);
    env = network_env(&none, &rules, &bounds, own);
    assert_string_equal(env[0], "HTTP_PROXY=mine");
    assert_null(env[2]);
    free_all(env);
    network_rules_release(&rules);
    network_release(&spec);
}

static void test_round(void **state)
{
    struct network_spec spec = {0}, back = {0}, copy = {0};
    struct network_rules rules = {0};
    struct error err;
    (void)state;
    assert_int_equal(
        make(&rules, &spec, "{\"policy\": \"allow\", \"allow\": [\"a.org\", \"b.org\"]}", &err), 0);
    scoped_json json_t *value = network_json(&spec);
    network_read(&back, value);
    network_copy(&copy, &back);
    assert_int_equal(copy.policy, NETWORK_ALLOW);
    assert_int_equal(copy.allow.count, 2);
    assert_string_equal(copy.allow.items[1], "b.org");
    network_release(&spec);
    network_release(&back);
    network_release(&copy);
    network_rules_release(&rules);
    network_read(&back, NULL);
    assert_int_equal(back.policy, NETWORK_NONE);
}

static void test_operator(void **state)
{
    static char *bad_items[] = {bad_host, NULL};
    static const struct option_list bad = {.items = bad_items, .count = 1};
    const struct network_bounds wrong[] = {{.python_index = "pypi.org"},
                                           {.python_index = "https://me:secret@index/"},
                                           {.npm_registry = "file:///etc"},
                                           {.privates = &bad}};
    struct error err;
    (void)state;
    assert_int_equal(network_check_bounds(&bounds, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(network_check_bounds(&wrong[i], &err), -1);
        assert_null(strstr(err.msg, "secret"));
    }
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_one(&check, "no more than the operator grants", test_ceiling);
    check_one(&check, "programs are told where the proxy is", test_env);
    check_one(&check, "is read back as it was written", test_round);
    check_one(&check, "the operator's own words are checked, and not repeated", test_operator);
    return check_run(&check, "network");
}
