/* house.h - a server with doors of all kinds, for the tests of who gets in
 *
 * A real store and a real server on the loopback address, with a few routes of its own and those of
 * /keys. Both clocks stand still unless a test turns them. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/auth_inside.h"
#include "api/routes.h"
#include "base/strbuf.h"
#include "core/api_key.h"
#include "http/http_server.h"
#include "store_world.h"

#define SECOND          1000000000ll
#define HOUSE_TOKEN     "operator-token-0123456789"
#define HOUSE_INTERNAL  "internal-token-0123456789"
#define HOUSE_SHORT     "guess-me"
#define HOUSE_WALL_NS   (1800000000 * SECOND)
#define HOUSE_SECRET_AT 32 /* of the text of a key: what is before it is public */
#define BEARER          "Authorization: Bearer "

extern int64_t house_wall_ns;     /* the time of the wall clock */
extern size_t house_compared;     /* how often secrets were compared */
void house_pass_time(int64_t ns); /* of both clocks */

struct house {
    struct world world;
    struct log log;
    struct api api;
    struct api_server server;
    struct api_table *table;
    struct http_server *http;
    bool is_loaded;
    struct error err;    /* of the load */
    struct strbuf shown; /* secrets, one per line: none may be in the log */
    /* the last answer */
    struct strbuf text;
    struct loop_watch *watch;
    int fd;
    int status;
    json_t *body;
};

extern const struct auth_order house_usual;

void house_open(struct house *h);
void house_close(struct house *h);                                /* no secret may be in the log */
void house_load(struct house *h, const struct auth_order *order); /* as a new process does */

/* A key in the store, as an earlier process has left it. */
struct api_key house_put_key(struct house *h, struct store_key record);

void house_note_secret(struct house *h, const char *text); /* that must not be in the log */
char *house_read_log(struct house *h);                     /* owned */

/* `headers`: lines with their ends; `body` NULL: none. Each answers the status. */
int house_request_from(struct house *h, const char *from, const char *line, const char *headers,
                       const char *body);
int house_request(struct house *h, const char *line, const char *secret, const char *body);
int house_get(struct house *h, const char *path, const char *secret);

/* Of the last answer. */
const char *house_word(const json_t *object, const char *name); /* "(none)" */
const char *house_failure(const struct house *h, const char *name);
bool house_has_header(const struct house *h, const char *line);
void house_assert_who(const struct house *h, const char *owner, bool sees_all, const char *scopes);
