/* prepare.c - from options to paths, names and secrets */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coved/prepare.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "coved/coved_calls.h"
#include "coved/keepsake.h"

#define COPIER         "cove_checkpoint.so"
#define INSTALLERS     "installers"
#define URL_MAX_BYTES  (4 * KIB)
#define TOKEN_FILE     "token"
#define READABLE_MAX   (IMAGE_STORE_DIRS + 20)
#define HOST_MAX_BYTES 256

/* --- paths ------------------------------------------------------------------------------------ */

/* What stands before the last slash. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return xstrndup(path, slash && slash != path ? (size_t)(slash - path) : 1);
}

static int find_parts(struct coved *c, struct error *err)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n < 0)
        return error_sys(err, "find the running program in /proc");
    path[n] = '\0';
    scoped_free char *folder = folder_of(path);
    c->copier = xasprintf("%s/" COPIER, folder);
    c->installers = xasprintf("%s/" INSTALLERS, folder);
    return 0;
}

int prepare_paths(struct coved *c, struct error *err)
{
    if (!c->config.recipes_dir)
        return error_set(err, ERROR_INVALID, "coved is started by `cove serve`");
    if (server_config_check(&c->config, &c->listen, err) < 0 ||
        server_config_database(&c->config, &c->database, err) < 0 || find_parts(c, err) < 0)
        return -1;
    c->dir = server_config_dir(&c->config);
    image_store_dirs(c->config.data_dir, c->data_dirs);
    return 0;
}

/* --- address ---------------------------------------------------------------------------------- */

struct http_listen prepare_where(const struct coved *c)
{
    return (struct http_listen){.address = c->listen.host[0] ? c->listen.host : NULL,
                                .port = c->listen.port,
                                .path = c->listen.path[0] ? c->listen.path : NULL,
                                .tls = c->tls};
}

int prepare_socket(struct coved *c, struct error *err)
{
    const struct http_listen where = prepare_where(c);
    if (http_server_bind(&c->listen_fd, &where, err) == 0)
        return 0;
    if (err->sys_errno == EADDRINUSE)
        return error_hint(err, "another program listens there: end it, or choose another address "
                               "by --listen (COVE_LISTEN)");
    if (err->sys_errno == EACCES)
        return error_hint(err,
                          "the user of the server (uid %u) may not: choose a port above 1023, or a "
                          "folder of its own for a socket",
                          (unsigned)geteuid());
    return -1;
}

/* --- confinement ------------------------------------------------------------------------------ */

/* /proc and the cgroups tell what the machine has left. */
static int confine(struct coved *c, struct error *err)
{
    scoped_free char *database_dir = folder_of(c->database);
    scoped_free char *socket_dir = c->listen.path[0] ? folder_of(c->listen.path) : NULL;
    const char *const writable[] = {c->dir, database_dir, NULL};
    const char *readable[READABLE_MAX] = {"/proc",   "/sys/fs/cgroup", c->config.recipes_dir,
                                          c->copier, c->installers,    BUILDER_CERTIFICATES};
    char *images[IMAGE_STORE_DIRS] = {NULL};
    size_t count = 6;
    for (const char *const *file = storage_files(c->storage); *file; file++)
        readable[count++] = *file;
    for (size_t i = 0; c->data_dirs[i]; i++)
        readable[count++] = images[i] = xasprintf("%s/images", c->data_dirs[i]);
    unsigned port = storage_port(c->storage);
    size_t call_count = coved_call_count;
    scoped_free struct confine_call *more = port ? coved_calls_with_network(&call_count) : NULL;
    const struct confine_order order = {.who = "the server",
                                        .calls = more ? more : coved_calls,
                                        .call_count = call_count,
                                        .writable = writable,
                                        .readable = readable,
                                        .socket_dir = socket_dir,
                                        .connect_port = port,
                                        .allow_degraded = c->config.allow_degraded};
    int status = confine_apply(&order, err);
    for (size_t i = 0; i < ARRAY_LEN(images); i++)
        free(images[i]);
    return status;
}

int prepare_confinement(struct coved *c, struct error *err)
{
    const struct config *o = &c->config;
    if (o->tls_cert && tls_open(&c->tls, o->tls_cert, o->tls_key, err) < 0) {
        error_wrap(err, "options 'tls-cert' and 'tls-key'");
        return error_hint(err, "both are PEM files that the user of the server (uid %u) can read",
                          (unsigned)geteuid());
    }
    if (server_config_trust(o, &c->trust_fd, err) < 0)
        return error_hint(err, "it is a PEM file that the user of the server (uid %u) can read",
                          (unsigned)geteuid());
    return storage_prepare(&c->storage, &c->config, err) < 0 ? -1 : confine(c, err);
}

/* --- secrets ---------------------------------------------------------------------------------- */

static int keep(struct coved *c, char **secret, const char *name, struct error *err)
{
    return *secret ? 0 : keepsake_get(secret, c->dir, name, NULL, err);
}

/* The name is kept, too: a machine that is renamed has the same sessions as before. */
static int keep_node(struct coved *c, struct error *err)
{
    char host[HOST_MAX_BYTES] = "";
    if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
        memcpy(host, "local", sizeof("local"));
    if (c->config.sync == STORE_SYNC_NONE) { /* there will be no later start to know it */
        c->node = xstrdup(host);
        return 0;
    }
    return keepsake_get(&c->node, c->dir, "node", host, err);
}

int prepare_secrets(struct coved *c, struct error *err)
{
    struct config *o = &c->config;
    if (!o->token)
        c->token_file = xasprintf("%s/" TOKEN_FILE, c->dir);
    if (keep(c, &o->token, TOKEN_FILE, err) < 0 ||
        keep(c, &o->internal_token, "internal-token", err) < 0 ||
        keep(c, &o->file_secret, "file-secret", err) < 0)
        return -1;
    return keep_node(c, err);
}

/* --- names ------------------------------------------------------------------------------------ */

void prepare_guard(struct coved *c, struct guard *out)
{
    const struct config *o = &c->config;
    size_t count = 0;
    c->hosts = xcalloc(o->hosts.count + 3, sizeof(*c->hosts));
    c->origins = xcalloc(o->cors_origins.count + 1, sizeof(*c->origins));
    for (size_t i = 0; i < o->hosts.count; i++)
        c->hosts[count++] = xstrdup(o->hosts.items[i]);
    if (o->public_url)
        c->hosts[count++] = xstrdup(strstr(o->public_url, "://") + 3);
    if (c->listen.host[0] && !c->listen.is_any)
        c->hosts[count++] = strchr(c->listen.host, ':') ? xasprintf("[%s]", c->listen.host)
                                                        : xstrdup(c->listen.host);
    for (size_t i = 0; i < o->cors_origins.count; i++)
        c->origins[i] = o->cors_origins.items[i];
    *out = (struct guard){.hosts = (const char *const *)c->hosts, .origins = c->origins};
}

void prepare_urls(struct coved *c)
{
    scoped_strbuf struct strbuf address;
    strbuf_init(&address, URL_MAX_BYTES);
    if (c->listen.path[0])
        strbuf_add_str(&address, "http://localhost");
    else
        address_add_url(&c->listen, c->tls != NULL, &address);
    c->address = xstrdup(strbuf_str(&address));
    c->url = xstrdup(c->config.public_url ? c->config.public_url : c->address);
}
