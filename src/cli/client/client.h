/* client.h - what every command against a server gets */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"
#include "cli/client/doc.h"
#include "cli/client/link.h"
#include "codec/json.h"

#define CLIENT_PATH_MAX (64 * KIB)

struct client {
    struct cli *cli;
    struct link *link;
};

/* Answers the exit status, or -1 with *err filled. */
typedef int (*client_fn)(struct client *c, void *options, int argc, char **argv, struct error *err);

int client_session_list(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_session_create(struct client *c, void *options, int argc, char **argv,
                          struct error *err);
int client_session_show(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_session_rm(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_session_extend(struct client *c, void *options, int argc, char **argv,
                          struct error *err);
int client_session_reset(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_session_interrupt(struct client *c, void *options, int argc, char **argv,
                             struct error *err);
int client_exec(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_cp(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_logs(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_template_list(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_template_show(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_template_create(struct client *c, void *options, int argc, char **argv,
                           struct error *err);
int client_template_update(struct client *c, void *options, int argc, char **argv,
                           struct error *err);
int client_template_rm(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_key_list(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_key_create(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_key_rm(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_workspace_list(struct client *c, void *options, int argc, char **argv,
                          struct error *err);
int client_workspace_show(struct client *c, void *options, int argc, char **argv,
                          struct error *err);
int client_workspace_save(struct client *c, void *options, int argc, char **argv,
                          struct error *err);
int client_workspace_restore(struct client *c, void *options, int argc, char **argv,
                             struct error *err);
int client_workspace_rm(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_mcp(struct client *c, void *options, int argc, char **argv, struct error *err);
int client_top(struct client *c, void *options, int argc, char **argv, struct error *err);

/* --- what they share ---------------------------------------------------------------------------
 */

/* The path of `word`, between `before` and `after`: /sessions/ WORD /reset. Owned by the caller. */
char *client_path(const char *before, const char *word, const char *after);

/* One request; `body` is taken, NULL: none. *out is a new value. */
MUST_CHECK int client_ask(struct client *c, const char *method, const char *path, json_t *body,
                          json_t **out, struct error *err);

/* Every page of a list, as one document like that of a single page. */
MUST_CHECK int client_list(struct client *c, const char *path, const char *key, json_t **out,
                           struct error *err);

/* The same request for each of argv, at least one. Each answer is given to `show`, or with --json
 * printed: a single one as it is, several as a list. */
struct client_each {
    const char *what; /* of what the words are: "a session" */
    const char *method, *before, *after;
    int (*show)(struct client *c, const char *word, const json_t *answer, struct error *err);
};
MUST_CHECK int client_for_each(struct client *c, const struct client_each *each, int argc,
                               char **argv, struct error *err);

MUST_CHECK int client_print(const struct strbuf *text, struct error *err);
MUST_CHECK int client_print_json(const json_t *document, struct error *err);
MUST_CHECK int client_say(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* NAME=VALUE texts as members of object[key]; nothing when there are none. */
MUST_CHECK int client_set_pairs(json_t *object, const char *key, const struct option_list *pairs,
                                const char *option, struct error *err);
/* Members of object[key] for those that were given. */
void client_set_resources(json_t *object, const char *key, const struct resource_options *r);
void client_set_text(json_t *object, const char *key, const char *text);         /* NULL: nothing */
void client_set_seconds(json_t *object, const char *key, uint64_t milliseconds); /* 0: nothing */
