/* sigv4.h - AWS Signature Version 4: a request and keys in, its signature out
 *
 * Pure: the time is an argument, nothing is sent. The secret key leaves this module only as an
 * HMAC. Names and values are given as they are and encoded here; what does not change the meaning
 * of a request (order, case of header names, spaces around values) does not change its signature.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define SIGV4_DATE_BYTES        sizeof("20150830T123600Z")
#define SIGV4_HASH_BYTES        65 /* SHA-256 in hex, and NUL */
#define SIGV4_PAIRS_MAX         24 /* of a query, or of headers; without those that are added here */
#define SIGV4_UNSIGNED          "UNSIGNED-PAYLOAD"
#define SIGV4_PRESIGN_MAX_S     (7 * 24 * 3600u)
#define SIGV4_REQUEST_MAX_BYTES (64 * KIB) /* of its canonical form */

struct sigv4_keys {
    const char *access_key;
    const char *secret_key;
    const char *session_token; /* NULL: none */
    const char *region;
    const char *service;
};

struct sigv4_pair {
    const char *name, *value;
};

struct sigv4_request {
    const char *method;
    const char *host; /* with its port, as it is sent */
    const char *path; /* as it is sent: encoded by sigv4_add_path() */
    const struct sigv4_pair *query;
    size_t query_count;
    const struct sigv4_pair *headers; /* that are signed beside host, date and token */
    size_t header_count;
    const char *payload_hash; /* of the body in hex, or SIGV4_UNSIGNED */
    int64_t time_s;           /* since the epoch */
};

/* Answers false when the request is too large to be signed. Adds the value of "Authorization" to
 * `out`; `date` is that of "x-amz-date", which is to be sent with it, as is "x-amz-security-token"
 * when there is a token. */
bool sigv4_sign(const struct sigv4_keys *keys, const struct sigv4_request *request,
                char date[SIGV4_DATE_BYTES], struct strbuf *out);

/* The same as a query for whoever has no keys: adds "a=b&...&X-Amz-Signature=..." to `out`. */
bool sigv4_presign(const struct sigv4_keys *keys, const struct sigv4_request *request,
                   unsigned expires_s, struct strbuf *out);

void sigv4_hash(const void *data, size_t len, char hex[SIGV4_HASH_BYTES]);

/* Everything but letters, digits and "-._~" becomes %XX; in a path slashes stay. */
void sigv4_add_path(struct strbuf *out, const char *path);
void sigv4_add_word(struct strbuf *out, const char *word);

/* "a=b&c=d", encoded, in the order in which it is signed; nothing for none. */
void sigv4_add_query(struct strbuf *out, const struct sigv4_pair *query, size_t count);
