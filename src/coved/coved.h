/* coved.h - all that the server keeps, and how its parts speak of it
 *
 * One thread, one loop. start.c puts it together step by step, each from the callback of the one
 * before; stop.c takes it apart again in the opposite order. main() owns it. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/mcp/mcp_door.h"
#include "base/log.h"
#include "core/capacity.h"
#include "core/executors.h"
#include "core/node.h"
#include "core/server_config.h"
#include "core/shelf.h"
#include "core/uploads.h"
#include "coved/storage.h"
#include "coved/upkeep.h"
#include "http/http_server.h"
#include "http/tls.h"
#include "image/image_store.h"
#include "runtime/spawner_client.h"

#define COVED_SIGNALS 3

struct coved {
    struct config config;
    struct option_set options; /* of config */
    struct address listen;
    struct log log;
    struct log_loss log_loss;
    bool is_log_terminal; /* where it goes, behind the spawner's pipe */
    int status;           /* to exit with */
    bool is_stopping;
    int64_t started_ns;

    struct gateway *gateway;
    char *dir; /* what it writes is here */
    char *database;
    char *copier;
    char *installers; /* folder of what is handed into builds of packages */
    char *node;
    char *address;    /* where it listens, as a url for this machine */
    char *url;        /* how clients reach it */
    char *token_file; /* NULL: the operator has given one */
    const char *data_dirs[IMAGE_STORE_DIRS];
    char **hosts;         /* NULL-terminated, owned */
    const char **origins; /* the same, of borrowed texts */

    struct loop *loop;
    struct loop_signal *signals[COVED_SIGNALS];
    struct tls *tls;
    int trust_fd;  /* what the proxy is to trust, until it is given; -1: nothing more */
    int listen_fd; /* bound while it still could be; -1: not yet, or the server has it */
    struct spawner_client *spawner;
    struct store *store;
    struct storage *storage;
    struct uploads *uploads;
    struct archive *archive;
    struct links links;
    struct capacity *capacity;
    struct packages_source packages;
    struct builder *builder;
    struct catalog *catalog;
    struct plane *plane;
    struct shelf *shelf;
    struct auth *auth;
    struct node *beats;
    struct upkeep *upkeep;
    struct executors *executors;
    struct api_table *table;
    struct api api;
    struct api_server server;
    struct http_server *http;
    struct mcp_door *mcp;
};

/* --- start.c ---------------------------------------------------------------------------------- */

/* Begins; the rest happens in the loop. On failure it was told why, and c->status is set. */
MUST_CHECK int start_begin(struct coved *c);

/* --- stop.c ----------------------------------------------------------------------------------- */

/* Lets requests come to their end, then leaves the loop. A second call cuts them off. */
void stop_begin(struct coved *c);

/* At once, with this status. */
void stop_now(struct coved *c, int status);

/* Frees everything, after the loop has ended. Sandboxes are left to the spawner. */
void stop_release(struct coved *c);
