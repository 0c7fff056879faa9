/* link_inside.h - what the files of the link share */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <curl/curl.h>

#include "cli/client/link.h"

#define LINK_API_PREFIX         "/api/v1"
#define LINK_ID_MAX_BYTES       128
#define LINK_PROBLEM_MAX_BYTES  (64 * KIB) /* of a refusal that answers a stream */
#define LINK_CONNECT_TIMEOUT_MS 10000

struct link {
    CURLM *multi;
    CURL *easy;
    char *base;   /* URL of the API, or NULL... */
    char *socket; /* ...with the path of a socket */
    char *address;
    char *authorization; /* the header; NULL: none */
    char *ca;
    uint64_t timeout_ms;
    bool is_local; /* on this machine */
    bool has_token;

    /* of the request under way */
    char why[CURL_ERROR_SIZE];
    long status;
    struct strbuf answer;
    struct event_stream *events; /* NULL: a document is wanted */
    const struct link_request *request;
    int64_t heard_ns;     /* when anything came last */
    struct error failure; /* of our own reading */
    bool has_failed;

    json_t *problem;
    char request_id[LINK_ID_MAX_BYTES];
};

void link_set_place(struct link *link, const char *url);

/* What libcurl says, and what the server does (its status and answer are in the link); -1. */
int link_tell_fault(struct link *link, CURLcode code, struct error *err);
int link_tell_refusal(struct link *link, struct error *err);
