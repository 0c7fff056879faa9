/* client_cp.c - `cove cp`: between a local end and a path of a session */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "cli/client/client.h"
#include "cli/client/ending.h"
#include "cli/term.h"

#define WORKSPACE "/workspace"
#define NAME_CHARS                                                                                 \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-" /* of a session */

struct copy {
    struct client *c;
    const char *local;
    char *session, *path; /* "": the workspace */
    struct ending ending;
    struct term_bar bar;
    bool has_bar;
    uint64_t done, total; /* total 0: not known */
};

/* --- what was meant ----------------------------------------------------------------------------
 */

/* SESSION:PATH; NULL: it is a local name. */
static const char *find_colon(const char *word)
{
    size_t len = strspn(word, NAME_CHARS);
    bool is_name = len > 0 && word[0] != '.' && word[len] == ':';
    return is_name ? word + len : NULL;
}

/* Without what says nothing; what is above the workspace is the server's to refuse. */
static int read_path(struct copy *copy, const char *path, struct error *err)
{
    size_t prefix = strlen(WORKSPACE);
    if (strncmp(path, WORKSPACE, prefix) == 0 && (path[prefix] == '/' || !path[prefix]))
        path += prefix + (path[prefix] == '/');
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    if (strcmp(path, ".") == 0)
        path++;
    if (path[0] == '/') {
        error_set(err, ERROR_INVALID, "'%s' is not in the workspace", path);
        return error_hint(err, "give the path relative to " WORKSPACE);
    }
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    copy->path = xstrndup(path, len);
    return 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* --- the server --------------------------------------------------------------------------------
 */

/* Owned: /sessions/ID/files/PATH, with its slashes. */
static char *files_path(const struct copy *copy, const char *path)
{
    struct strbuf out;
    strbuf_init(&out, CLIENT_PATH_MAX);
    strbuf_add_str(&out, "/sessions/");
    link_add_word(&out, copy->session);
    strbuf_add_str(&out, "/files");
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, "/");
        scoped_free char *part = xstrndup(at, len);
        strbuf_add_char(&out, '/');
        link_add_word(&out, part);
        at += len + (at[len] == '/');
    }
    return strbuf_take(&out);
}

/* What is there; NULL: nothing. */
static int look(struct copy *copy, json_t **out, struct error *err)
{
    scoped_free char *path = files_path(copy, copy->path);
    scoped_free char *full = xasprintf("%s?format=json", path);
    if (copy->path[0] == '\0') {
        *out = json_pack("{s:s, s:i}", "kind", "directory", "size", 0);
        return 0;
    }
    if (client_ask(copy->c, "GET", full, NULL, out, err) == 0)
        return 0;
    const json_t *problem = json_object_get(link_problem(copy->c->link), "error");
    if (strcmp(doc_text(problem, "code", ""), "file_not_found") != 0)
        return -1;
    *out = NULL;
    return 0;
}

static bool is_directory(const json_t *file)
{
    return file && strcmp(doc_text(file, "kind", ""), "directory") == 0;
}

static void show_progress(struct copy *copy, size_t len)
{
    copy->done += len;
    if (copy->has_bar)
        term_bar_update(&copy->bar, copy->local, copy->done, copy->total);
}

/* --- up ----------------------------------------------------------------------------------------
 */

static ssize_t give(void *ctx, char *out, size_t size, struct error *err)
{
    struct copy *copy = ctx;
    ssize_t n;
    do
        n = read(copy->ending.fd, out, size);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_sys(err, "read '%s'", copy->local);
    if (n == 0 && ending_finish(&copy->ending, err) < 0)
        return -1;
    show_progress(copy, (size_t)n);
    return n;
}

/* Into a directory that is there it goes under its own name. */
static char *choose_remote(const struct copy *copy, const json_t *there)
{
    scoped_free char *local = xstrdup(copy->local);
    size_t len = strlen(local);
    while (len > 1 && local[len - 1] == '/')
        local[--len] = '\0';
    const char *name = base_name(local);
    bool has_name = strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && *name;
    if (!is_directory(there) || copy->ending.is_standard || !has_name)
        return xstrdup(copy->path);
    return xasprintf("%s%s%s", copy->path, copy->path[0] ? "/" : "", name);
}

static char *upload_path(const struct copy *copy, const char *remote)
{
    struct strbuf out;
    char mode[8];
    bool is_tree = copy->ending.tar != 0;
    scoped_free char *path = files_path(copy, is_tree ? "" : remote);
    snprintf(mode, sizeof(mode), "%03o", copy->ending.mode);
    strbuf_init(&out, CLIENT_PATH_MAX);
    strbuf_add_str(&out, path);
    link_add_query(&out, is_tree ? "directory" : "mode", !is_tree ? mode : *remote ? remote : NULL);
    return strbuf_take(&out);
}

static int copy_up(struct copy *copy, json_t **out, struct error *err)
{
    scoped_json json_t *there = NULL;
    if (look(copy, &there, err) < 0)
        return -1;
    scoped_free char *remote = choose_remote(copy, there);
    if (!*remote && copy->ending.tar == 0) {
        error_set(err, ERROR_INVALID, "the workspace itself is no file");
        return error_hint(err, "name the file: SESSION:NAME");
    }
    scoped_free char *path = upload_path(copy, remote);
    copy->total = copy->ending.size > 0 ? (uint64_t)copy->ending.size : 0;
    const struct link_request request = {
        .method = "PUT", .path = path, .give = give, .give_size = copy->ending.size, .ctx = copy};
    if (link_ask(copy->c->link, &request, out, err) < 0)
        return -1;
    if (!json_is_object(*out)) /* an archive has no object of its own */
        *out = json_pack("{s:s, s:I}", "path", remote, "size", (json_int_t)copy->done);
    return 0;
}

/* --- down --------------------------------------------------------------------------------------
 */

static int take(void *ctx, const void *data, size_t len, struct error *err)
{
    struct copy *copy = ctx;
    show_progress(copy, len);
    return fd_write_all(copy->ending.fd, data, len, err);
}

/* The same for a directory of this machine. */
static char *choose_local(const struct copy *copy)
{
    struct stat st;
    const char *name = copy->path[0] ? base_name(copy->path) : "workspace";
    if (strcmp(copy->local, "-") == 0 || stat(copy->local, &st) < 0 || !S_ISDIR(st.st_mode))
        return xstrdup(copy->local);
    return xasprintf("%s/%s", copy->local, name);
}

static int open_local(struct copy *copy, const char *local, bool is_tree, struct error *err)
{
    if (!is_tree || strcmp(local, "-") == 0) /* an archive may go to standard output as it is */
        return ending_open_file(&copy->ending, local, err);
    return ending_open_tree(&copy->ending, local, err);
}

static int copy_down(struct copy *copy, json_t **out, struct error *err)
{
    scoped_json json_t *there = NULL, *ignored = NULL;
    if (look(copy, &there, err) < 0)
        return -1;
    if (!there) {
        error_set(err, ERROR_NOT_FOUND, "'%s' is not in the session", copy->path);
        return -1;
    }
    bool is_tree = is_directory(there);
    scoped_free char *local = choose_local(copy);
    scoped_free char *path = files_path(copy, copy->path);
    scoped_free char *full = xasprintf("%s%s", path, is_tree ? "?format=tar" : "");
    const struct link_request request = {.method = "GET", .path = full, .take = take, .ctx = copy};
    if (open_local(copy, local, is_tree, err) < 0)
        return -1;
    copy->total = is_tree ? 0 : (uint64_t)doc_number(there, "size", 0);
    if (link_ask(copy->c->link, &request, &ignored, err) < 0 ||
        ending_finish(&copy->ending, err) < 0)
        return -1;
    *out = json_pack("{s:s, s:I}", "path", local, "size", (json_int_t)copy->done);
    return 0;
}

/* --- both --------------------------------------------------------------------------------------
 */

static int run(struct copy *copy, bool is_up, struct error *err)
{
    scoped_json json_t *document = NULL;
    bool is_json = copy->c->cli->config.json;
    copy->has_bar = !is_json && term_is_terminal(STDERR_FILENO);
    term_bar_init(&copy->bar, STDERR_FILENO);
    int status = is_up ? copy_up(copy, &document, err) : copy_down(copy, &document, err);
    if (copy->has_bar)
        term_bar_finish(&copy->bar);
    return status < 0 || !is_json ? status : client_print_json(document, err);
}

int client_cp(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    (void)options;
    struct copy copy = {.c = c, .ending = {.fd = -1}};
    const char *colons[2] = {argc == 2 ? find_colon(argv[0]) : NULL,
                             argc == 2 ? find_colon(argv[1]) : NULL};
    if (!colons[0] == !colons[1]) {
        error_set(err, ERROR_INVALID, "cp takes a local name and SESSION:PATH, in either order");
        return error_hint(err, "cove cp data.csv SESSION:data.csv");
    }
    int remote = colons[0] ? 0 : 1;
    bool is_up = remote == 1;
    copy.local = argv[1 - remote];
    copy.session = xstrndup(argv[remote], (size_t)(colons[remote] - argv[remote]));
    int status = read_path(&copy, colons[remote] + 1, err);
    if (status == 0 && is_up)
        status = ending_open_source(&copy.ending, copy.local, err);
    if (status == 0)
        status = run(&copy, is_up, err);
    ending_release(&copy.ending);
    free(copy.session);
    free(copy.path);
    return status;
}
