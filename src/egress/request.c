/* request.c - targets in, heads out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/request.h"

#include <string.h>

#define PORT_HTTP  80
#define PORT_HTTPS 443

static const char *read_tunnel(struct request *r, const char *target)
{
    if (!authority_parse(&r->to, target, strlen(target)) || !r->to.port)
        return "CONNECT needs HOST:PORT, the host in ASCII and without a user";
    r->is_tunnel = true;
    return NULL;
}

const char *request_read(struct request *out, const struct framing_head *head)
{
    *out = (struct request){0};
    if (strcmp(head->verb, "CONNECT") == 0)
        return head->is_chunked ||
                       (head->content_length != FRAMING_NO_LENGTH && head->content_length)
                   ? "CONNECT has no body"
                   : read_tunnel(out, head->target);
    if (authority_parse_url(&out->to, head->target, "http", &out->path)) {
        if (!out->to.port)
            out->to.port = PORT_HTTP;
        return NULL;
    }
    if (strncmp(head->target, "https:", 6) == 0)
        return "https goes through CONNECT: set HTTPS_PROXY, too";
    return "this is a proxy: the target is http://HOST[:PORT]/..., the host in ASCII and without a "
           "user";
}

static bool is_same_host(const struct request *r, const struct authority *host)
{
    return strcmp(host->name, r->to.name) == 0 &&
           (host->port ? host->port : PORT_HTTPS) == r->to.port;
}

const char *request_read_inner(struct request *r, const struct framing_head *head)
{
    struct authority host;
    if (head->target[0] != '/')
        return "inside a tunnel the target is a path";
    if (!head->host || !authority_parse(&host, head->host, strlen(head->host)))
        return "inside a tunnel the Host header names the host, in ASCII and without a user";
    if (!is_same_host(r, &host))
        return "the Host header names another host than the tunnel, which leads to one with a "
               "secret";
    r->is_tunnel = false;
    r->is_secure = true;
    r->path = head->target;
    return NULL;
}

/* What is between the sandbox and us, and what is written anew. */
static bool is_left_out(const struct framing_head *head, const char *name)
{
    static const char *const names[] = {
        "host",  "connection", "keep-alive", "proxy-connection",  "proxy-authorization",
        "te",    "trailer",    "upgrade",    "transfer-encoding", "content-length",
        "expect"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    /* what the Connection header names is for the next neighbour only, too */
    for (size_t i = 0; i < head->header_count; i++) {
        if (strcmp(head->headers[i].name, "connection") == 0 &&
            framing_list_has(head->headers[i].value, name))
            return true;
    }
    return false;
}

static void add_authority(const struct request *r, struct strbuf *out)
{
    bool is_v6 = strchr(r->to.name, ':');
    strbuf_add_fmt(out, "%s%s%s", is_v6 ? "[" : "", r->to.name, is_v6 ? "]" : "");
    if (r->to.port != (r->is_secure ? PORT_HTTPS : PORT_HTTP))
        strbuf_add_fmt(out, ":%u", r->to.port);
}

/* Answers with a secret in them are looked through, so they are asked for as they are. */
static bool is_encoding(const char *name)
{
    return strcmp(name, "accept-encoding") == 0;
}

static void add_headers(const struct framing_head *head, const struct secrets_view *view,
                        struct strbuf *out)
{
    for (size_t i = 0; i < head->header_count; i++) {
        const struct framing_header *header = &head->headers[i];
        if (is_left_out(head, header->name) || (view->count > 0 && is_encoding(header->name)))
            continue;
        strbuf_add_fmt(out, "%s: ", header->name);
        secrets_fill(view, header->name, header->value, out);
        strbuf_add_str(out, "\r\n");
    }
}

void request_add_head(const struct request *r, const struct framing_head *head,
                      const struct secrets_view *view, struct strbuf *out)
{
    strbuf_add_fmt(out, "%s %s%s HTTP/1.1\r\nHost: ", head->verb, r->path[0] == '/' ? "" : "/",
                   r->path);
    add_authority(r, out);
    strbuf_add_str(out, "\r\n");
    add_headers(head, view, out);
    if (head->is_chunked)
        strbuf_add_str(out, "transfer-encoding: chunked\r\n");
    else if (head->content_length != FRAMING_NO_LENGTH)
        strbuf_add_fmt(out, "content-length: %llu\r\n", (unsigned long long)head->content_length);
    strbuf_add_str(out, "connection: close\r\n\r\n");
}
