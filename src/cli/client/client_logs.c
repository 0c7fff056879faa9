/* client_logs.c - `cove logs`: what executions have printed, and print */
/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/parse.h"
#include "cli/client/client.h"
#include "cli/client/follow.h"
#include "cli/term.h"
#include "cli/term_text.h"

#define EXECUTION_PREFIX "exe_"
#define LOOK_EVERY_MS    500 /* for new executions of a session that is followed */
#define LINE_MAX_BYTES   4096
#define GO_ON            (-2) /* no exit status */

struct logs {
    struct client *c;
    const struct logs_options *options;
    int signal_fd;
    json_t *seen; /* ids of executions that were shown, as keys */
};

/* --- one execution -----------------------------------------------------------------------------
 */

static int follow_one(struct logs *l, const char *id, struct error *err)
{
    const struct follow_order order = {
        .execution = id,
        .style = l->c->cli->config.json ? FOLLOW_EVENTS : FOLLOW_SHOW,
        .signal_fd = l->signal_fd,
    };
    scoped_json json_t *document = NULL;
    enum follow_end end = follow_run(l->c, &order, &document, err);
    return end == FOLLOW_FAILED ? -1 : end == FOLLOW_LEFT ? 128 + SIGINT : 0;
}

static int get_one(struct logs *l, const char *id, json_t **out, struct error *err)
{
    scoped_free char *path = client_path("/executions/", id, "");
    return client_ask(l->c, "GET", path, NULL, out, err);
}

static int show_one(struct logs *l, const char *id, struct error *err)
{
    scoped_json json_t *document = NULL;
    if (l->options->follow)
        return follow_one(l, id, err);
    if (get_one(l, id, &document, err) < 0)
        return -1;
    if (l->c->cli->config.json)
        return client_print_json(document, err);
    follow_show(document);
    return 0;
}

/* --- those of a session ------------------------------------------------------------------------
 */

/* On stderr, so that stdout has what the programs wrote and nothing else. */
static void show_head(const json_t *summary)
{
    bool has_colour = term_has_colour(STDERR_FILENO);
    scoped_strbuf struct strbuf line;
    strbuf_init(&line, LINE_MAX_BYTES);
    const char *const words[] = {doc_text(summary, "id", "-"), doc_text(summary, "created_at", "-"),
                                 doc_text(summary, "state", "-")};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        strbuf_add_str(&line, i ? "  " : "");
        term_text_add(&line, words[i], strlen(words[i]), false);
    }
    fprintf(stderr, "%s-- %s%s\n", term_style(has_colour, TERM_DIM), strbuf_str(&line),
            term_style(has_colour, TERM_PLAIN));
}

static int list_some(struct logs *l, const char *session, json_t **out, struct error *err)
{
    char limit[FORMAT_BYTES];
    scoped_strbuf struct strbuf path;
    strbuf_init(&path, CLIENT_PATH_MAX);
    strbuf_add_str(&path, "/executions");
    format_u64(l->options->limit, limit);
    link_add_query(&path, "session", session);
    link_add_query(&path, "limit", limit);
    return client_ask(l->c, "GET", strbuf_str(&path), NULL, out, err);
}

/* Those that were not shown yet, the oldest first. */
static int show_new(struct logs *l, const json_t *page, struct error *err)
{
    const json_t *list = json_object_get(page, "executions");
    for (size_t i = json_array_size(list); i-- > 0;) {
        const json_t *summary = json_array_get(list, i);
        const char *id = doc_text(summary, "id", NULL);
        if (!id || json_object_get(l->seen, id))
            continue;
        json_object_set_new(l->seen, id, json_true());
        if (!l->c->cli->config.json)
            show_head(summary);
        int status = show_one(l, id, err);
        if (status != 0)
            return status;
    }
    return 0;
}

static bool is_interrupted(struct logs *l)
{
    struct pollfd wait = {.fd = l->signal_fd, .events = POLLIN};
    return poll(&wait, 1, LOOK_EVERY_MS) > 0;
}

static int get_session(struct logs *l, const char *word, json_t **out, struct error *err)
{
    scoped_free char *path = client_path("/sessions/", word, "");
    return client_ask(l->c, "GET", path, NULL, out, err);
}

/* One look at what is new; whether the session has ended was asked before, so that nothing that it
 * still did is missed. */
static int look(struct logs *l, const char *id, struct error *err)
{
    scoped_json json_t *session = NULL, *page = NULL;
    if (get_session(l, id, &session, err) < 0 || list_some(l, id, &page, err) < 0)
        return -1;
    int status = show_new(l, page, err);
    if (status != 0)
        return status;
    return doc_has(session, "ended_at") ? 0 : GO_ON;
}

/* By its id: a session that has ended has no name any more. */
static int follow_session(struct logs *l, const char *word, struct error *err)
{
    scoped_json json_t *session = NULL;
    if (get_session(l, word, &session, err) < 0)
        return -1;
    const char *id = doc_text(session, "id", word);
    int status;
    while ((status = look(l, id, err)) == GO_ON) {
        if (is_interrupted(l))
            return 128 + SIGINT;
    }
    return status;
}

/* With --json one document with the whole of each. */
static int print_session(struct logs *l, const json_t *page, struct error *err)
{
    const json_t *list = json_object_get(page, "executions");
    json_t *all = json_array();
    scoped_json json_t *answer = json_pack("{s:o}", "executions", all);
    for (size_t i = json_array_size(list); i-- > 0;) {
        json_t *document;
        const char *id = doc_text(json_array_get(list, i), "id", "");
        if (get_one(l, id, &document, err) < 0)
            return -1;
        json_array_append_new(all, document);
    }
    return client_print_json(answer, err);
}

static int show_session(struct logs *l, const char *session, struct error *err)
{
    scoped_json json_t *page = NULL;
    if (l->options->follow)
        return follow_session(l, session, err);
    if (list_some(l, session, &page, err) < 0)
        return -1;
    return l->c->cli->config.json ? print_session(l, page, err) : show_new(l, page, err);
}

int client_logs(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    struct logs l = {.c = c, .options = options, .signal_fd = -1};
    if (argc != 1)
        return error_set(err, ERROR_INVALID, "of what? Give a session or an execution (exe_...)");
    if (l.options->follow && follow_open_signals(&l.signal_fd, err) < 0)
        return -1;
    l.seen = json_object();
    bool is_execution = strncmp(argv[0], EXECUTION_PREFIX, strlen(EXECUTION_PREFIX)) == 0;
    int status = is_execution ? show_one(&l, argv[0], err) : show_session(&l, argv[0], err);
    scoped_close_fd(&l.signal_fd);
    json_decref(l.seen);
    return status;
}
