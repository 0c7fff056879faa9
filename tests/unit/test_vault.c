/* test_vault.c - secrets as they are asked for, as the sandbox sees them, and as they are kept */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vault.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/strbuf.h"
#include "check.h"

#define VALUE "sk-canary-0123456789"

static const struct egress_rule rule_items[] = {
    {"api.example.com", 0, 0}, {"example.org", 443, EGRESS_BELOW}, {"odd.example", 8443, 0}};
static const struct network_rules rules = {.items = (struct egress_rule *)rule_items,
                                           .count = ARRAY_LEN(rule_items)};
static char env_name[] = "TZ", env_value[] = "UTC";
static char *env_names[] = {env_name}, *env_values[] = {env_value};
static const struct param_map env = {.names = env_names, .values = env_values, .count = 1};

static const struct param list_rows[] = {SECRETS_ROW(0)};
static const struct param_table list_table = PARAM_TABLE(struct param_list, "Secrets", list_rows);

static int make(struct vault **out, const char *text, struct error *err)
{
    struct param_list wishes;
    scoped_json json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    *out = NULL;
    if (params_read(&wishes, &list_table, value, err) < 0)
        return -1;
    int status = vault_make(out, &wishes, &rules, &env, err);
    params_release(&wishes, &list_table);
    return status;
}

#define ONE(name, value, hosts)                                                                    \
    "{\"secrets\": [{\"name\": \"" name "\", \"value\": \"" value "\", \"hosts\": [" hosts "]}]}"

struct row {
    const char *name, *text, *want; /* the hosts, as name:port; or "!" and the complaint */
};

static const struct row rows[] = {
    {"none", "{}", ""},
    {"a host by https", ONE("T", VALUE, "\"api.example.com\""), "api.example.com:443 "},
    {"a host in another spelling", ONE("T", VALUE, "\"https://API.Example.com.\""),
     "api.example.com:443 "},
    {"a host without TLS", ONE("T", VALUE, "\"http://api.example.com\""),
     "api.example.com:80/plain "},
    {"a port", ONE("T", VALUE, "\"odd.example:8443\""), "odd.example:8443 "},
    {"below a domain", ONE("T", VALUE, "\"*.example.org\", \"a.b.example.org\""),
     "*.example.org:443 a.b.example.org:443 "},
    {"refuses a host out of the policy", ONE("T", VALUE, "\"evil.example\""),
     "!secrets[0].hosts[0]: 'evil.example', at port 443, is not within the network policy"},
    {"refuses a port out of the policy", ONE("T", VALUE, "\"api.example.com:22\""), "!port 22"},
    {"refuses a port of its own where another is meant", ONE("T", VALUE, "\"odd.example\""),
     "!port 443"},
    {"refuses all below one that is allowed alone", ONE("T", VALUE, "\"*.api.example.com\""),
     "!not within"},
    {"refuses the domain itself", ONE("T", VALUE, "\"example.org\""), "!not within"},
    {"refuses a wider domain", ONE("T", VALUE, "\"*.org\""), "!not within"},
    {"refuses plain http where only 443 is allowed", ONE("T", VALUE, "\"http://a.example.org\""),
     "!port 80"},
    {"refuses what is no host", ONE("T", VALUE, "\"a b\""), "!'a b' is not"},
    {"refuses an address with a path", ONE("T", VALUE, "\"https://api.example.com/x\""),
     "!is not [http://]HOST"},
    {"refuses no host", ONE("T", VALUE, ""), "!names no host"},
    {"refuses an empty value", ONE("T", "", "\"api.example.com\""), "!1 to 4096 bytes"},
    {"refuses a line end", ONE("T", VALUE "\\r\\nX: y", "\"api.example.com\""), "!line breaks"},
    {"refuses a name of env", ONE("TZ", VALUE, "\"api.example.com\""), "!is in env, too"},
    {"refuses a name that is set anyway", ONE("SSL_CERT_FILE", VALUE, "\"api.example.com\""),
     "!SSL_CERT_FILE"},
    {"refuses a value that is no text",
     "{\"secrets\": [{\"name\": \"T\", \"value\": [\"" VALUE "\"], \"hosts\": []}]}",
     "!secrets[0].value: expected a string"},
    {"refuses a list that is none", "{\"secrets\": \"" VALUE "\"}", "!secrets: expected a list"},
    {"refuses hosts that are no list",
     "{\"secrets\": [{\"name\": \"T\", \"value\": \"v\", \"hosts\": \"" VALUE "\"}]}",
     "!secrets[0].hosts"},
};

static void add_hosts(struct strbuf *out, const struct vault *v)
{
    for (size_t i = 0; i < vault_count(v); i++) {
        size_t count;
        const struct egress_rule *hosts = vault_hosts(v, i, &count);
        for (size_t k = 0; k < count; k++)
            strbuf_add_fmt(out, "%s%s:%u%s ", hosts[k].flags & EGRESS_BELOW ? "*." : "",
                           hosts[k].name, hosts[k].port,
                           hosts[k].flags & EGRESS_PLAIN ? "/plain" : "");
    }
}

static void test_row(void **state)
{
    const struct row *row = *state;
    struct error err = {0};
    scoped(vault) struct vault *v = NULL;
    scoped_strbuf struct strbuf hosts;
    strbuf_init(&hosts, 4096);
    int status = make(&v, row->text, &err);
    if (row->want[0] == '!') {
        assert_int_equal(status, -1);
        assert_null(v);
        assert_null(strstr(err.msg, VALUE)); /* whatever is wrong */
        assert_non_null(strstr(err.msg, row->want + 1));
        return;
    }
    assert_int_equal(status, 0);
    add_hosts(&hosts, v);
    assert_string_equal(strbuf_str(&hosts), row->want);
}

static struct vault *make_good(void)
{
    struct error err;
    struct vault *v;
    assert_int_equal(make(&v, ONE("T", VALUE, "\"api.example.com\""), &err), 0);
    return v;
}

static const char *find(char *const *list, const char *name)
{
    size_t len = strlen(name);
    const char *found = NULL;
    for (; *list; list++) {
        if (strncmp(*list, name, len) == 0 && (*list)[len] == '=')
            found = *list + len + 1; /* the last counts */
    }
    return found;
}

static void test_env(void **state)
{
    scoped(vault) struct vault *v = make_good(), *other = make_good();
    char **own = calloc(2, sizeof(*own));
    (void)state;
    own[0] = strdup("CURL_CA_BUNDLE=/mine");
    char **list = vault_env(v, own);
    const char *placeholder = find(list, "T");
    assert_int_equal(strlen(placeholder), EGRESS_PLACEHOLDER_LEN);
    assert_memory_equal(placeholder, vault_secret(v, 0)->placeholder, EGRESS_PLACEHOLDER_LEN);
    assert_memory_not_equal(placeholder, vault_secret(other, 0)->placeholder,
                            EGRESS_PLACEHOLDER_LEN);
    assert_string_equal(find(list, "SSL_CERT_FILE"), "/workspace/" VAULT_TRUST_PATH);
    assert_string_equal(find(list, "NODE_EXTRA_CA_CERTS"), "/workspace/" VAULT_TRUST_PATH);
    assert_string_equal(find(list, "CURL_CA_BUNDLE"), "/mine");
    for (char **e = list; *e; e++) {
        assert_null(strstr(*e, VALUE));
        free(*e);
    }
    free(list);
}

static void test_kept(void **state)
{
    struct error err;
    int fd = -1;
    const struct egress_authority authority = {.certificate_len = 3, .key_len = 2};
    scoped(vault) struct vault *v = make_good(), *loaded = NULL;
    (void)state;
    assert_null(vault_authority(v));
    assert_true(vault_set_authority(v, &authority));
    assert_false(vault_set_authority(v, &authority)); /* one is enough */
    assert_int_equal(vault_save(v, &fd, &err), 0);
    assert_int_equal(vault_load(&loaded, fd, &err), 0);
    assert_memory_equal(vault_secret(loaded, 0), vault_secret(v, 0), sizeof(struct egress_secret));
    assert_memory_equal(vault_authority(loaded), &authority, sizeof(authority));
    assert_int_equal(ftruncate(fd, 5000), 0);
    struct vault *none = NULL;
    assert_int_equal(vault_load(&none, fd, &err), -1);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(vault_load(&none, fd, &err), -1);
    assert_null(none);
    close(fd);
}

static void test_authority(void **state)
{
    const struct egress_authority too_long = {.certificate_len = EGRESS_CERTIFICATE_BYTES + 1},
                                  no_key = {.certificate_len = 1, .key_len = EGRESS_KEY_BYTES + 1},
                                  empty = {0};
    scoped(vault) struct vault *v = make_good();
    (void)state;
    assert_false(vault_set_authority(v, &too_long) || vault_set_authority(v, &no_key) ||
                 vault_set_authority(v, &empty));
}

static void test_trust(void **state)
{
    struct error err;
    int fd = -1;
    uint64_t size;
    struct egress_authority authority = {.certificate_len = 100, .key_len = 16};
    char text[512] = "";
    scoped(vault) struct vault *v = make_good();
    (void)state;
    memset(authority.certificate, 0xff, authority.certificate_len);
    memcpy(authority.key, "sixteen bytes...", 16);
    assert_true(vault_set_authority(v, &authority));
    assert_int_equal(vault_trust_file(v, &fd, &size, &err), 0);
    ssize_t n = read(fd, text, sizeof(text) - 1);
    assert_true(n > 0 && (uint64_t)n <= size);
    assert_memory_equal(text, "-----BEGIN CERTIFICATE-----\n//////", 34);
    char *line = strchr(text, '\n') + 1;
    assert_int_equal(strcspn(line, "\n"), 64);
    assert_non_null(strstr(text, "/w==\n-----END CERTIFICATE-----\n"));
    close(fd);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_one(&check, "a sandbox sees placeholders, and whom to trust", test_env);
    check_one(&check, "it is the same for the next process", test_kept);
    check_one(&check, "refuses what is no authority", test_authority);
    check_one(&check, "the file of trust begins with its certificate", test_trust);
    return check_run(&check, "vault");
}
