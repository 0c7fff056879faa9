/* server_config.c - options that must agree, as a table of checks */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/server_config.h"

#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "base/strbuf.h"

#define SQLITE_PREFIX   "sqlite:"
#define DATABASE_NAME   "cove.db"
#define TOKEN_MAX_BYTES 512
#define TRUST_MAX_BYTES (1 * MIB)
#define CERTIFICATE     "-----BEGIN CERTIFICATE-----"

char *server_config_dir(const struct config *c)
{
    return c->state_dir ? xstrdup(c->state_dir) : xasprintf("%s/server", c->data_dir);
}

int server_config_database(const struct config *c, char **out, struct error *err)
{
    const char *url = c->database_url;
    if (strncmp(url, SQLITE_PREFIX, strlen(SQLITE_PREFIX)) != 0) {
        error_set(err, ERROR_INVALID, "option 'database-url': only sqlite is there so far");
        return error_hint(err, "leave it out, or give sqlite:/path/of/the/database");
    }
    const char *path = url + strlen(SQLITE_PREFIX);
    if (*path && *path != '/')
        return error_set(err, ERROR_INVALID,
                         "option 'database-url': sqlite: needs an absolute path");
    scoped_free char *dir = server_config_dir(c);
    *out = *path ? xstrdup(path) : xasprintf("%s/" DATABASE_NAME, dir);
    return 0;
}

/* --- checks ----------------------------------------------------------------------------------- */

/* An open door needs a key that its owner has chosen, not one in a file that he may not know of. */
static int check_listen(const struct config *c, const struct address *listen, struct error *err)
{
    if (listen->is_loopback || c->token)
        return 0;
    error_set(err, ERROR_INVALID,
              "option 'listen': '%.80s' can be reached from other machines, and there is no token",
              c->listen);
    return error_hint(err, "set COVE_TOKEN (or COVE_TOKEN_FILE) to a long random text, or listen "
                           "at 127.0.0.1");
}

/* What goes into a header as it is. */
static int check_token(const char *name, const char *token, struct error *err)
{
    size_t len = token ? strlen(token) : 1;
    for (const char *p = token; p && *p; p++) {
        if (*p <= ' ' || *p > '~')
            len = 0;
    }
    if (len >= 1 && len <= TOKEN_MAX_BYTES)
        return 0;
    return error_set(err, ERROR_INVALID,
                     "option '%s': must have 1 to %d visible characters of ASCII and no blanks",
                     name, TOKEN_MAX_BYTES);
}

static int check_tokens(const struct config *c, const struct address *listen, struct error *err)
{
    (void)listen;
    if (check_token("token", c->token, err) < 0 ||
        check_token("internal-token", c->internal_token, err) < 0)
        return -1;
    if (c->token && c->internal_token && strcmp(c->token, c->internal_token) == 0)
        return error_set(err, ERROR_INVALID, "options 'token' and 'internal-token' are the same");
    return 0;
}

static int check_tls(const struct config *c, const struct address *listen, struct error *err)
{
    (void)listen;
    if (!c->tls_cert == !c->tls_key)
        return 0;
    return error_set(err, ERROR_INVALID, "option '%s' is given without '%s'",
                     c->tls_cert ? "tls-cert" : "tls-key", c->tls_cert ? "tls-key" : "tls-cert");
}

static int check_database(const struct config *c, const struct address *listen, struct error *err)
{
    scoped_free char *path = NULL;
    (void)listen;
    return server_config_database(c, &path, err);
}

/* It is looked for from elsewhere, too. */
static int check_state_dir(const struct config *c, const struct address *listen, struct error *err)
{
    (void)listen;
    if (!c->state_dir || c->state_dir[0] == '/')
        return 0;
    return error_set(err, ERROR_INVALID, "option 'state-dir': '%.80s' is no absolute path",
                     c->state_dir);
}

static int check_url(const struct config *c, const struct address *listen, struct error *err)
{
    (void)listen;
    if (!c->public_url || address_is_origin(c->public_url))
        return 0;
    return error_set(
        err, ERROR_INVALID,
        "option 'public-url': '%.80s' must be http[s]://NAME[:PORT], nothing behind it",
        c->public_url);
}

static int check_origins(const struct config *c, const struct address *listen, struct error *err)
{
    (void)listen;
    for (size_t i = 0; i < c->cors_origins.count; i++) {
        if (!address_is_origin(c->cors_origins.items[i]))
            return error_set(err, ERROR_INVALID,
                             "option 'cors-origins': '%.80s' must be https://NAME[:PORT], nothing "
                             "behind it",
                             c->cors_origins.items[i]);
    }
    return 0;
}

/* The usual amounts must be within the ceilings, else nobody who asks for nothing gets anything. */
static const struct {
    const char *name;
    size_t usual, most;
    void (*format)(uint64_t value, char out[FORMAT_BYTES]);
} pairs[] = {
#define PAIR(name, usual, most, format)                                                            \
    {                                                                                              \
        name, offsetof(struct config, usual), offsetof(struct config, most), format                \
    }
    PAIR("timeout", timeout_ms, timeout_max_ms, format_duration_ms),
    PAIR("memory", memory_bytes, memory_max_bytes, format_size),
    PAIR("cpus", cpus_milli, cpus_max_milli, format_milli),
    PAIR("pids", pids, pids_max, format_u64),
    PAIR("disk", disk_bytes, disk_max_bytes, format_size),
    PAIR("inodes", inodes, inodes_max, format_u64),
    PAIR("open-files", open_files, open_files_max, format_u64),
    PAIR("ttl", ttl_ms, ttl_max_ms, format_duration_ms),
    PAIR("link-ttl", link_ttl_ms, link_ttl_max_ms, format_duration_ms),
#undef PAIR
};

static int check_ceilings(const struct config *c, const struct address *listen, struct error *err)
{
    (void)listen;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        const uint64_t *usual = (const void *)((const char *)c + pairs[i].usual);
        const uint64_t *most = (const void *)((const char *)c + pairs[i].most);
        char usual_text[FORMAT_BYTES], most_text[FORMAT_BYTES];
        if (*usual <= *most)
            continue;
        pairs[i].format(*usual, usual_text);
        pairs[i].format(*most, most_text);
        return error_set(err, ERROR_INVALID, "option '%s': %s is above its ceiling '%s-max', %s",
                         pairs[i].name, usual_text, pairs[i].name, most_text);
    }
    return 0;
}

static int check_storage(const struct config *c, const struct address *listen, struct error *err)
{
    struct s3_order order;
    (void)listen;
    return server_config_s3(c, &order) ? s3_check(&order, err) : 0;
}

static int check_network(const struct config *c, const struct address *listen, struct error *err)
{
    const struct network_bounds bounds = server_config_network(c);
    (void)listen;
    return network_check_bounds(&bounds, err);
}

static int (*const checks[])(const struct config *c, const struct address *listen,
                             struct error *err) = {
    check_listen,  check_tokens,   check_tls,     check_database, check_url,
    check_origins, check_ceilings, check_network, check_storage,  check_state_dir,
};

bool server_config_s3(const struct config *c, struct s3_order *out)
{
    *out = (struct s3_order){.endpoint = c->s3_endpoint,
                             .bucket = c->s3_bucket,
                             .region = c->s3_region,
                             .access_key = c->s3_access_key,
                             .secret_key = c->s3_secret_key,
                             .session_token = c->s3_session_token,
                             .prefix = c->s3_prefix,
                             .addressing = c->s3_addressing};
    return c->s3_bucket != NULL;
}

int server_config_check(const struct config *c, struct address *listen, struct error *err)
{
    struct address parsed;
    if (address_parse(&parsed, c->listen, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        if (checks[i](c, &parsed, err) < 0)
            return -1;
    }
    *listen = parsed;
    return 0;
}

struct network_bounds server_config_network(const struct config *c)
{
    return (struct network_bounds){.most = (int)c->network_max,
                                   .python_index = c->python_index,
                                   .npm_registry = c->npm_registry,
                                   .privates = &c->egress_private};
}

static int read_trust(const char *path, struct strbuf *out, struct error *err)
{
    char bytes[16 * KIB];
    ssize_t n;
    scoped_fd int fd = fd_open_regular(path, err);
    if (fd < 0)
        return -1;
    while ((n = read(fd, bytes, sizeof(bytes))) > 0 && !out->overflow)
        strbuf_add(out, bytes, (size_t)n);
    if (n < 0)
        return error_sys(err, "read '%s'", path);
    if (out->overflow || !strstr(strbuf_str(out), CERTIFICATE))
        return error_set(err, ERROR_INVALID, "'%s' is no file of certificates in PEM", path);
    return 0;
}

int server_config_trust(const struct config *c, int *out, struct error *err)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, TRUST_MAX_BYTES);
    *out = -1;
    if (!c->egress_ca)
        return 0;
    if (read_trust(c->egress_ca, &text, err) < 0)
        return error_wrap(err, "option 'egress-ca'");
    return fd_make_file(out, "trust", text.data, text.len, err);
}

void server_config_bounds(const struct config *c, struct template_bounds *out)
{
    *out = (struct template_bounds){
        .usual = {.memory_bytes = c->memory_bytes,
                  .disk_bytes = c->disk_bytes,
                  .inodes = c->inodes,
                  .cpu_milli = (uint32_t)c->cpus_milli,
                  .pids = (uint32_t)c->pids,
                  .open_files = (uint32_t)c->open_files,
                  /* not `ttl`: a session's end may be put off */
                  .lifetime_ms = (uint32_t)c->ttl_max_ms},
        .most = {.memory_bytes = c->memory_max_bytes,
                 .disk_bytes = c->disk_max_bytes,
                 .inodes = c->inodes_max,
                 .cpu_milli = (uint32_t)c->cpus_max_milli,
                 .pids = (uint32_t)c->pids_max,
                 .open_files = (uint32_t)c->open_files_max,
                 .lifetime_ms = (uint32_t)c->ttl_max_ms},
        .timeout_ms = c->timeout_ms,
        .timeout_max_ms = c->timeout_max_ms,
        .output_bytes = c->output_bytes,
        .idle_ms = c->idle_timeout_ms,
        .network = server_config_network(c),
    };
}
