/* rest_docs.c - /openapi.json and /docs: what this interface is, for programs and for people
 *
 * Both are the same for everybody and open: they say nothing that the source does not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/docs_page.h"
#include "api/openapi.h"
#include "api/routes.h"
#include "base/macros.h"
#include "base/scoped.h"

static bool is_known(const struct http_request *r, const char *etag)
{
    const char *known = http_header(r, "if-none-match");
    return known && strstr(known, etag);
}

/* Asked for each time, sent when it is not what the peer has. */
static void send(struct http_request *r, const char *type, const char *etag, const char *text,
                 size_t len)
{
    http_add_header(r, "ETag", etag);
    http_add_header(r, "Cache-Control", "no-cache");
    if (is_known(r, etag))
        http_respond(r, 304, NULL, NULL, 0);
    else
        http_respond(r, 200, type, text, len);
}

static void on_openapi(struct api_call *call)
{
    const struct openapi *document = api_openapi(call);
    struct http_request *r = api_take(call);
    if (r)
        send(r, "application/json", document->etag, document->text, document->len);
}

static void on_docs(struct api_call *call)
{
    struct http_request *r = api_take(call);
    if (!r)
        return;
    scoped_free char *etag = openapi_etag(docs_page, docs_page_len);
    http_add_header(r, "Content-Security-Policy", docs_policy);
    http_add_header(r, "Referrer-Policy", "no-referrer");
    http_add_header(r, "Cross-Origin-Opener-Policy", "same-origin");
    send(r, "text/html; charset=utf-8", etag, docs_page, docs_page_len);
}

static const struct api_reply docs_reply[] = {
    {200, NULL, "text/html", "A page that shows openapi.json and lets one try it."},
    {304, NULL, NULL, "It is the one that If-None-Match names."},
    {0}};
static const struct api_reply openapi_reply[] = {
    {200, "OpenApi", NULL, "The document, in OpenAPI 3.1."},
    {304, NULL, NULL, "It is the one that If-None-Match names."},
    {0}};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_GET, .pattern = "/openapi.json", .flags = API_OPEN | API_ONLY_ROOT, .handler = on_openapi,
     .id = "getOpenApi", .tag = "docs", .summary = "This description, for programs", .replies = openapi_reply},
    {.method = METHOD_GET, .pattern = "/docs", .flags = API_OPEN | API_ONLY_ROOT, .handler = on_docs,
     .id = "getDocs", .tag = "docs", .summary = "This description, for people", .replies = docs_reply},
};
/* clang-format on */
const struct api_group rest_docs_group = {rows, ARRAY_LEN(rows)};
