/* refusal.h - what the HTTP layer itself answers when it does not take a request
 *
 * One row for each reason: status, code and words. Most of them end the connection, since after a
 * message that is not understood nobody knows where the next one begins. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct strbuf;

/* clang-format off */
#define REFUSALS(X)                                                                                \
    /* name                status code                        message */                           \
    X(NONE,                0,   "",                           "")                                  \
    X(REQUEST_LINE,        400, "bad_request_line",           "the request line is not 'METHOD /path HTTP/1.1'") \
    X(HEADER,              400, "bad_header",                 "a header line is malformed or has a character that is not allowed") \
    X(LINE_END,            400, "bad_line_end",               "lines of a request end with CR LF")  \
    X(FOLD,                400, "bad_header",                 "a header must not go on in the next line") \
    X(HOST,                400, "bad_host",                   "there must be exactly one Host header with a valid name") \
    X(REPEATED,            400, "repeated_header",            "a header that may come once came twice") \
    X(CONTENT_LENGTH,      400, "bad_content_length",         "Content-Length is not one plain number") \
    X(TRANSFER_ENCODING,   400, "bad_transfer_encoding",      "the only Transfer-Encoding is 'chunked', in HTTP/1.1, without Content-Length") \
    X(CHUNK,               400, "bad_chunk",                  "the chunked body is malformed")     \
    X(TRAILER,             400, "trailers_refused",           "trailers after a chunked body are not taken") \
    X(TARGET,              400, "bad_path",                   "the path or the query is malformed") \
    X(SYNTAX,              400, "bad_request",                "this is not an HTTP request")        \
    X(UPGRADE,             400, "bad_upgrade",                "this is not a WebSocket handshake of version 13") \
    X(FOREIGN_ORIGIN,      403, "origin_refused",             "requests from pages of this origin are not allowed") \
    X(NO_PATH,             404, "not_found",                  "there is nothing at this path")      \
    X(NO_METHOD,           405, "method_not_allowed",         "this path does not take this method") \
    X(SLOW,                408, "request_timeout",            "the request did not arrive in time") \
    X(BODY_TOO_LARGE,      413, "body_too_large",             "the body is larger than this route takes") \
    X(TARGET_TOO_LONG,     414, "uri_too_long",               "the path is too long")               \
    X(CONTENT_ENCODING,    415, "unsupported_encoding",       "bodies with a Content-Encoding are not taken") \
    X(EXPECTATION,         417, "expectation_failed",         "the only expectation that can be met is 100-continue") \
    X(FOREIGN_HOST,        421, "host_refused",               "this server does not answer for this host name") \
    X(UPGRADE_REQUIRED,    426, "upgrade_required",           "this path speaks WebSocket")         \
    X(TOO_MANY_OF_PEER,    429, "too_many_connections",       "this address has too many connections open") \
    X(HEADERS_TOO_LARGE,   431, "headers_too_large",          "the headers are too many or too large") \
    X(METHOD,              501, "method_not_implemented",     "this method is not known here")      \
    X(TOO_MANY,            503, "too_many_connections",       "the server has too many connections open") \
    X(DRAINING,            503, "shutting_down",              "the server is shutting down")        \
    X(VERSION,             505, "http_version_not_supported", "only HTTP/1.0 and HTTP/1.1 are spoken here")
/* clang-format on */

enum refusal {
#define X(name, status, code, message) REFUSAL_##name,
    REFUSALS(X)
#undef X
        REFUSAL_COUNT
};

struct refusal_info {
    int status;
    const char *code;
    const char *message;
};

const struct refusal_info *refusal_info(enum refusal refusal);

/* Adds the one shape of errors: {"error":{"code","message","hint","request_id"}}. `hint` and
 * `request_id` may be NULL, which is null. */
struct refusal_text {
    const char *code;
    const char *message;
    const char *hint;
    const char *request_id;
};
void refusal_add_json(struct strbuf *out, const struct refusal_text *text);

/* "Not Found"; "Unknown" for a status without a name. */
const char *refusal_reason(int status);
