/* client_exec.c - `cove exec`: code in a session of a server, followed to its end
 *
 * It is started first and followed then, so that its id is known from the beginning: to cancel it,
 * and to find it again when the connection breaks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cli/client/client.h"
#include "cli/client/follow.h"
#include "cli/term.h"
#include "codec/base64.h"

#define CODE_MAX_BYTES (4 * MIB) /* as the server allows, for code, stdin and each file */

/* --- what is sent ------------------------------------------------------------------------------
 */

static int read_text(const char *path, const char *what, char **out, struct error *err)
{
    scoped_free char *text = NULL;
    int status = strcmp(path, "-") == 0 ? fd_read_text(STDIN_FILENO, &text, CODE_MAX_BYTES, err)
                                        : fd_read_file(path, &text, CODE_MAX_BYTES, err);
    if (status < 0)
        return error_wrap(err, "read %s", what);
    if (!utf8_is_valid(text, strlen(text)))
        return error_set(err, ERROR_INVALID, "%s is not UTF-8 text", what);
    *out = take_ptr(&text);
    return 0;
}

static int set_code(json_t *body, const struct exec_options *o, const char *file, struct error *err)
{
    scoped_free char *code = NULL;
    if (!o->code && !file && term_is_terminal(STDIN_FILENO))
        return error_set(err, ERROR_INVALID,
                         "no program: give a FILE, -c CODE, or pipe it into standard input");
    bool is_piped = !o->code && (!file || strcmp(file, "-") == 0);
    if (is_piped && o->stdin_file && strcmp(o->stdin_file, "-") == 0)
        return error_set(err, ERROR_INVALID, "standard input cannot be the program and its input");
    if (!o->code && read_text(file ? file : "-", "the program", &code, err) < 0)
        return -1;
    client_set_text(body, "code", o->code ? o->code : code);
    return 0;
}

static int set_stdin(json_t *body, const struct exec_options *o, struct error *err)
{
    scoped_free char *text = NULL;
    if (!o->stdin_file)
        return 0;
    if (read_text(o->stdin_file, "--stdin", &text, err) < 0)
        return -1;
    client_set_text(body, "stdin", text);
    return 0;
}

static int read_bytes(const char *path, struct strbuf *out, struct error *err)
{
    scoped_fd int fd = fd_open_regular(path, err);
    if (fd < 0)
        return -1;
    scoped_free char *bytes = xmalloc(CODE_MAX_BYTES + 1);
    ssize_t len = fd_read_full(fd, bytes, CODE_MAX_BYTES + 1);
    if (len < 0)
        return error_sys(err, "read '%s'", path);
    if ((size_t)len > CODE_MAX_BYTES)
        return error_set(err, ERROR_TOO_LARGE, "'%s' has more than %d MB", path,
                         (int)(CODE_MAX_BYTES / MIB));
    base64_add(out, bytes, (size_t)len);
    return 0;
}

/* PATH or PATH:DEST */
static int add_file(json_t *files, const char *text, struct error *err)
{
    const char *colon = strrchr(text, ':'), *slash = strrchr(text, '/');
    scoped_free char *path = colon ? xstrndup(text, (size_t)(colon - text)) : xstrdup(text);
    const char *name = colon ? colon + 1 : slash ? slash + 1 : text;
    scoped_strbuf struct strbuf encoded;
    strbuf_init(&encoded, BASE64_ENCODED_LEN(CODE_MAX_BYTES) + 1);
    if (read_bytes(path, &encoded, err) < 0)
        return error_wrap(err, "--file");
    json_array_append_new(files, json_pack("{s:o, s:s}", "path", json_text(name, strlen(name)),
                                           "content_base64", strbuf_str(&encoded)));
    return 0;
}

static int set_files(json_t *body, const struct exec_options *o, struct error *err)
{
    if (o->files.count == 0)
        return 0;
    json_t *files = json_array();
    json_object_set_new(body, "files", files);
    for (size_t i = 0; i < o->files.count; i++) {
        if (add_file(files, o->files.items[i], err) < 0)
            return -1;
    }
    return 0;
}

static int fill_body(json_t *body, const struct exec_options *o, const char *file,
                     struct error *err)
{
    if (set_code(body, o, file, err) < 0 || set_stdin(body, o, err) < 0 ||
        set_files(body, o, err) < 0 || client_set_pairs(body, "env", &o->env, "--env", err) < 0)
        return -1;
    client_set_text(body, "mode", "async");
    client_set_text(body, "language", o->language);
    client_set_seconds(body, "timeout", o->timeout_ms);
    if (o->may_queue)
        json_object_set_new(body, "queue", json_true());
    return 0;
}

/* --- the command -------------------------------------------------------------------------------
 */

static int follow(struct client *c, const char *execution, int signal_fd, struct error *err)
{
    const struct follow_order order = {
        .execution = execution,
        .style = c->cli->config.json ? FOLLOW_QUIET : FOLLOW_SHOW,
        .signal_fd = signal_fd,
        .may_cancel = true,
    };
    scoped_json json_t *document = NULL;
    enum follow_end end = follow_run(c, &order, &document, err);
    if (end == FOLLOW_FAILED) {
        if (!err->hint[0])
            error_hint(err, "`cove logs --follow %s` goes on", execution);
        return -1;
    }
    if (end == FOLLOW_LEFT)
        return 128 + SIGINT;
    if (c->cli->config.json && client_print_json(document, err) < 0)
        return -1;
    return follow_status(document);
}

/* The server's own hint is for those who write requests. */
static int hint_busy(const struct client *c, struct error *err)
{
    const json_t *problem = json_object_get(link_problem(c->link), "error");
    if (strcmp(doc_text(problem, "code", ""), "session_busy") == 0)
        error_hint(err, "--queue waits for it, and `cove session interrupt` interrupts it");
    return -1;
}

int client_exec(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    const struct exec_options *o = options;
    scoped_json json_t *body = json_object(), *started = NULL;
    scoped_fd int signal_fd = -1;
    if (argc < 1 || argc > 2 || (argc == 2 && o->code))
        return error_set(err, ERROR_INVALID,
                         "give a session, and a FILE or -c CODE, like "
                         "`cove exec analysis -c 'print(6 * 7)'`");
    if (fill_body(body, o, argc == 2 ? argv[1] : NULL, err) < 0)
        return -1;
    scoped_free char *path = client_path("/sessions/", argv[0], "/execute");
    if (!o->is_detached && follow_open_signals(&signal_fd, err) < 0)
        return -1;
    if (client_ask(c, "POST", path, json_incref(body), &started, err) < 0)
        return hint_busy(c, err);
    const char *id = doc_text(started, "id", NULL);
    if (!id)
        return error_set(err, ERROR_UNAVAILABLE, "the server's answer has no id");
    if (o->is_detached)
        return c->cli->config.json ? client_print_json(started, err) : client_say(err, "%s", id);
    return follow(c, id, signal_fd, err);
}
