/* vault.c - one piece of memory, which is the same in a file and is wiped at its end */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vault.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "codec/base64.h"
#include "core/builder.h"
#include "core/template.h"
#include "wire/guest.h"

#define NAME_BYTES      129
#define HOST_MAX_BYTES  300
#define PORT_HTTP       80
#define PORT_HTTPS      443
#define TRUST_MAX_BYTES (8 * MIB)
#define PEM_COLUMNS     64
#define VERSION         1

/* clang-format off */
#define AT(field) offsetof(struct secret_wish, field)
static const struct param secret_rows[] = {
    {.name = "name", .type = PARAM_STRING, .is_required = true, .offset = AT(name), .max_len = NAME_BYTES - 1,
     .check = template_variable_is_valid, .pattern = "^[A-Za-z_][A-Za-z0-9_]{0,127}$", .example = "\"API_TOKEN\"",
     .help = "The variable that has the placeholder inside."},
    {.name = "value", .type = PARAM_STRING, .is_required = true, .is_secret = true, .offset = AT(value), .max_len = EGRESS_SECRET_BYTES,
     .help = "What is sent instead: one line. It is in no answer, no log and no file."},
    {.name = "hosts", .type = PARAM_STRINGS, .is_required = true, .offset = AT(hosts), .max_len = EGRESS_SECRET_HOSTS_MAX,
     .example = "[\"api.example.com\"]",
     .help = "Where it belongs, within the network policy: HOST or HOST:PORT by https, http://HOST[:PORT] without TLS; as *.HOST all below one."},
};
#undef AT
const struct param_table secret_table = PARAM_TABLE(struct secret_wish, "Secret", secret_rows);
/* clang-format on */

/* What each kind of program looks at. */
static const char *const trust_variables[] = {
    "SSL_CERT_FILE",     "REQUESTS_CA_BUNDLE",  "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",    "NODE_EXTRA_CA_CERTS", "PIP_CERT",
    "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",       "DENO_CERT",
};

struct item {
    char name[NAME_BYTES];
    struct egress_secret secret;
    uint32_t host_count;
    struct egress_rule hosts[EGRESS_SECRET_HOSTS_MAX];
};

struct vault {
    uint32_t version, count;
    struct egress_authority authority;
    struct item items[];
};

static size_t size_of(size_t count)
{
    return sizeof(struct vault) + count * sizeof(struct item);
}

static struct vault *vault_new(size_t count)
{
    struct vault *v = xcalloc(1, size_of(count));
    v->version = VERSION;
    v->count = (uint32_t)count;
    return v;
}

struct vault *vault_copy(const struct vault *from)
{
    if (!from)
        return NULL;
    struct vault *v = vault_new(from->count);
    memcpy(v, from, size_of(from->count));
    return v;
}

void vault_free(struct vault *v)
{
    if (!v)
        return;
    explicit_bzero(v, size_of(v->count));
    free(v);
}

/* --- making one ---------------------------------------------------------------------------------
 */

static void make_placeholder(char out[EGRESS_PLACEHOLDER_LEN])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t chance[EGRESS_PLACEHOLDER_HEX / 2];
    size_t at = sizeof(EGRESS_PLACEHOLDER) - 1;
    BUG_ON(getrandom(chance, sizeof(chance), 0) != (ssize_t)sizeof(chance));
    memcpy(out, EGRESS_PLACEHOLDER, at);
    for (size_t i = 0; i < sizeof(chance); i++) {
        out[at++] = digits[chance[i] >> 4];
        out[at++] = digits[chance[i] & 15];
    }
}

/* The proxy asks for the same. */
static bool is_one_line(const char *value)
{
    for (; *value; value++) {
        if (((unsigned char)*value < ' ' && *value != '\t') || *value == 0x7f)
            return false;
    }
    return true;
}

static int check_name(const struct vault *v, size_t index, const char *name,
                      const struct param_map *env, struct error *err)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(v->items[i].name, name) == 0)
            return error_set(err, ERROR_INVALID, "secrets[%zu].name: '%s' is there twice", index,
                             name);
    }
    for (size_t i = 0; env && i < env->count; i++) {
        if (strcmp(env->names[i], name) == 0)
            return error_set(err, ERROR_INVALID, "secrets[%zu].name: '%s' is in env, too", index,
                             name);
    }
    for (size_t i = 0; i < ARRAY_LEN(trust_variables); i++) {
        if (strcmp(trust_variables[i], name) == 0)
            return error_set(err, ERROR_INVALID,
                             "secrets[%zu].name: '%s' is set where there are secrets", index, name);
    }
    return 0;
}

static int set_value(struct item *item, size_t index, const char *value, struct error *err)
{
    size_t len = strlen(value);
    if (len == 0 || len > sizeof(item->secret.value) || !is_one_line(value))
        return error_set(err, ERROR_INVALID,
                         "secrets[%zu].value: must be 1 to %d bytes without line breaks and other "
                         "control characters",
                         index, EGRESS_SECRET_BYTES);
    make_placeholder(item->secret.placeholder);
    memcpy(item->secret.value, value, len);
    item->secret.len = (uint32_t)len;
    return 0;
}

static bool parse_host(struct egress_rule *out, const char *text)
{
    bool is_plain = strncmp(text, "http://", 7) == 0;
    bool is_secure = strncmp(text, "https://", 8) == 0;
    if (strlen(text) > HOST_MAX_BYTES || !network_parse_host(out, text + (is_plain    ? 7
                                                                          : is_secure ? 8
                                                                                      : 0)))
        return false;
    if (!out->port)
        out->port = is_plain ? PORT_HTTP : PORT_HTTPS;
    out->flags |= is_plain ? (uint32_t)EGRESS_PLAIN : 0;
    return true;
}

static int add_host(struct item *item, size_t index, const char *text,
                    const struct network_rules *rules, struct error *err)
{
    struct egress_rule host;
    if (item->host_count == ARRAY_LEN(item->hosts))
        return error_set(err, ERROR_INVALID, "secrets[%zu].hosts: at most %d are taken", index,
                         EGRESS_SECRET_HOSTS_MAX);
    if (!parse_host(&host, text))
        return error_set(err, ERROR_INVALID,
                         "secrets[%zu].hosts[%u]: '%.80s' is not [http://]HOST[:PORT]", index,
                         item->host_count, text);
    if (!network_rules_cover(rules, &host)) {
        error_set(err, ERROR_INVALID,
                  "secrets[%zu].hosts[%u]: '%.80s', at port %u, is not within the network policy",
                  index, item->host_count, text, host.port);
        return error_hint(err, "name it in network.allow, or leave it out here");
    }
    item->hosts[item->host_count++] = host;
    return 0;
}

static int fill_item(struct vault *v, size_t index, const struct secret_wish *wish,
                     const struct network_rules *rules, const struct param_map *env,
                     struct error *err)
{
    struct item *item = &v->items[index];
    if (check_name(v, index, wish->name, env, err) < 0 ||
        set_value(item, index, wish->value, err) < 0)
        return -1;
    snprintf(item->name, sizeof(item->name), "%s", wish->name);
    for (size_t i = 0; i < wish->hosts.count; i++) {
        if (add_host(item, index, wish->hosts.items[i], rules, err) < 0)
            return -1;
    }
    return item->host_count
               ? 0
               : error_set(err, ERROR_INVALID, "secrets[%zu].hosts: names no host", index);
}

int vault_make(struct vault **out, const struct param_list *wishes,
               const struct network_rules *rules, const struct param_map *env, struct error *err)
{
    const struct secret_wish *list = wishes->items;
    *out = NULL;
    if (wishes->count == 0)
        return 0;
    scoped(vault) struct vault *v = vault_new(wishes->count);
    for (size_t i = 0; i < wishes->count; i++) {
        if (fill_item(v, i, &list[i], rules, env, err) < 0)
            return error_word(err, "bad_secret");
    }
    *out = take_ptr(&v);
    return 0;
}

json_t *vault_wishes_json(const struct param_list *wishes)
{
    json_t *list = json_array();
    const struct secret_wish *items = wishes->items;
    for (size_t i = 0; i < wishes->count; i++) {
        json_t *hosts = json_array();
        for (size_t k = 0; k < items[i].hosts.count; k++)
            json_array_append_new(hosts, json_string(items[i].hosts.items[k]));
        json_array_append_new(list, json_pack("{s:s, s:o}", "name", items[i].name, "hosts", hosts));
    }
    return list;
}

/* --- inside -------------------------------------------------------------------------------------
 */

static bool has_variable(char *const *list, const char *name)
{
    size_t len = strlen(name);
    for (; list && *list; list++) {
        if (strncmp(*list, name, len) == 0 && (*list)[len] == '=')
            return true;
    }
    return false;
}

char **vault_env(const struct vault *v, char **own)
{
    size_t count = 0, own_count = 0;
    if (!v)
        return own;
    while (own && own[own_count])
        own_count++;
    char **list = xcalloc(v->count + ARRAY_LEN(trust_variables) + own_count + 1, sizeof(*list));
    for (size_t i = 0; i < v->count; i++)
        list[count++] = xasprintf("%s=%.*s", v->items[i].name, (int)EGRESS_PLACEHOLDER_LEN,
                                  v->items[i].secret.placeholder);
    for (size_t i = 0; i < ARRAY_LEN(trust_variables); i++) {
        if (!has_variable(own, trust_variables[i]))
            list[count++] =
                xasprintf("%s=" GUEST_WORKSPACE "/" VAULT_TRUST_PATH, trust_variables[i]);
    }
    for (size_t i = 0; i < own_count; i++)
        list[count++] = own[i];
    free(own);
    return list;
}

/* A machine without any trusts nobody, so there is nobody to add. */
static void add_system_roots(struct strbuf *out)
{
    char bytes[64 * KIB];
    ssize_t n;
    scoped_fd int fd = open(BUILDER_CERTIFICATES, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = read(fd, bytes, sizeof(bytes))) > 0)
        strbuf_add(out, bytes, (size_t)n);
}

/* RFC 7468. */
static void add_pem(struct strbuf *out, const struct egress_authority *a)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, BASE64_ENCODED_LEN(EGRESS_CERTIFICATE_BYTES));
    base64_add(&text, a->certificate, a->certificate_len);
    strbuf_add_str(out, "-----BEGIN CERTIFICATE-----\n");
    for (size_t at = 0; at < text.len; at += PEM_COLUMNS)
        strbuf_add_fmt(out, "%.*s\n", PEM_COLUMNS, text.data + at);
    strbuf_add_str(out, "-----END CERTIFICATE-----\n");
}

int vault_trust_file(const struct vault *v, int *out, uint64_t *size, struct error *err)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, TRUST_MAX_BYTES);
    BUG_ON(!v->authority.certificate_len);
    add_pem(&text, &v->authority); /* first: what is cut is not this */
    add_system_roots(&text);
    *size = text.len;
    return fd_make_file(out, "trust", strbuf_str(&text), text.len, err);
}

/* --- for others ---------------------------------------------------------------------------------
 */

int vault_save(const struct vault *v, int *out, struct error *err)
{
    return fd_make_file(out, "vault", v, size_of(v->count), err);
}

/* Our own earlier self has written it; but it may have been of another version. */
int vault_load(struct vault **out, int fd, struct error *err)
{
    struct {
        uint32_t version, count;
    } head; /* as in struct vault */
    struct stat st;
    if (fstat(fd, &st) < 0 || pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
        return error_sys(err, "read the secrets");
    if (head.version != VERSION || head.count == 0 || head.count > EGRESS_SECRETS_MAX ||
        (size_t)st.st_size != size_of(head.count))
        return error_set(err, ERROR_UNAVAILABLE, "the secrets are of another version");
    scoped(vault) struct vault *v = vault_new(head.count);
    if (pread(fd, v, size_of(head.count), 0) != st.st_size)
        return error_sys(err, "read the secrets");
    *out = take_ptr(&v);
    return 0;
}

size_t vault_count(const struct vault *v)
{
    return v ? v->count : 0;
}

const struct egress_secret *vault_secret(const struct vault *v, size_t index)
{
    return &v->items[index].secret;
}

const struct egress_rule *vault_hosts(const struct vault *v, size_t index, size_t *count)
{
    *count = v->items[index].host_count;
    return v->items[index].hosts;
}

const struct egress_authority *vault_authority(const struct vault *v)
{
    return v->authority.certificate_len ? &v->authority : NULL;
}

bool vault_set_authority(struct vault *v, const struct egress_authority *a)
{
    if (v->authority.certificate_len || a->certificate_len == 0 ||
        a->certificate_len > sizeof(a->certificate) || a->key_len > sizeof(a->key))
        return false;
    v->authority = *a;
    return true;
}
