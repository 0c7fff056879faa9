/* link_tunnel.c - a connection made by libcurl, and spoken on by ourselves
 *
 * libcurl brings names, proxies and TLS; an upgrade it has only for WebSocket. So the one request
 * and the head of its answer are written and read here. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/parse.h"
#include "cli/client/link_inside.h"

#define HEAD_MAX_BYTES (64 * KIB)
#define HEAD_END       "\r\n\r\n"
#define NS_PER_MS      1000000

/* --- bytes ------------------------------------------------------------------------------------ */

int link_fd(const struct link *l)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    curl_easy_getinfo(l->easy, CURLINFO_ACTIVESOCKET, &fd);
    return fd;
}

ssize_t link_read(void *ctx, void *data, size_t len)
{
    const struct link *l = ctx;
    size_t n = 0;
    CURLcode code = curl_easy_recv(l->easy, data, len, &n);
    return code == CURLE_OK ? (ssize_t)n : code == CURLE_AGAIN ? LINK_AGAIN : LINK_NO_END;
}

ssize_t link_write(void *ctx, const void *data, size_t len)
{
    const struct link *l = ctx;
    size_t n = 0;
    CURLcode code = curl_easy_send(l->easy, data, len, &n);
    return code == CURLE_OK ? (ssize_t)n : code == CURLE_AGAIN ? LINK_AGAIN : LINK_NO_END;
}

bool link_finish(void *ctx)
{
    const struct link *l = ctx;
    return strncmp(l->address, "https:", strlen("https:")) != 0 &&
           shutdown(link_fd(l), SHUT_WR) == 0;
}

/* --- the handshake ---------------------------------------------------------------------------- */

/* False: it takes too long. */
static bool wait_until(const struct link *l, short events, int64_t deadline_ns)
{
    struct pollfd p = {.fd = link_fd(l), .events = events};
    int64_t left_ms = (deadline_ns - clock_now_ns()) / NS_PER_MS;
    return left_ms > 0 && poll(&p, 1, (int)MIN(left_ms, (int64_t)INT32_MAX)) != 0;
}

static bool send_all(struct link *l, const char *text, int64_t deadline_ns)
{
    for (size_t len = strlen(text); len > 0;) {
        ssize_t n = link_write(l, text, len);
        if (n == LINK_NO_END || (n == LINK_AGAIN && !wait_until(l, POLLOUT, deadline_ns)))
            return false;
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
    return true;
}

/* One more piece of the answer; false: there is none. */
static bool receive(struct link *l, int64_t deadline_ns)
{
    char data[4 * KIB];
    ssize_t n;
    while ((n = link_read(l, data, sizeof(data))) == LINK_AGAIN) {
        if (!wait_until(l, POLLIN, deadline_ns))
            return false;
    }
    if (n <= 0)
        return false;
    strbuf_add(&l->answer, data, (size_t)n);
    return !l->answer.overflow;
}

/* The value of a header in the head, as a number; 0: it has none. */
static uint64_t number_in_head(const char *head, const char *name)
{
    uint64_t value = 0;
    const char *at = strcasestr(head, name);
    size_t len = at ? strspn(at += strlen(name), " \t") : 0;
    scoped_free char *digits = at ? xstrndup(at + len, strcspn(at + len, "\r\n")) : NULL;
    return digits && parse_u64(digits, &value) ? value : 0;
}

static int read_status(struct link *l, const char *head, struct error *err)
{
    static const char version[] = "HTTP/1.1 ";
    if (strncmp(head, version, strlen(version)) == 0)
        l->status = strtol(head + strlen(version), NULL, 10);
    if (l->status >= 101 && l->status <= 599)
        return 0;
    error_set(err, ERROR_UNAVAILABLE, "the server at '%.200s' does not answer in HTTP/1.1",
              l->address);
    return error_hint(err, "is this a server of Cove's?");
}

/* What stands behind the head is the server's reason. */
static int refuse(struct link *l, size_t head_len, int64_t deadline_ns, struct error *err)
{
    uint64_t length = number_in_head(strbuf_str(&l->answer), "\r\nContent-Length:");
    while (l->answer.len < head_len + MIN(length, (uint64_t)LINK_PROBLEM_MAX_BYTES) &&
           receive(l, deadline_ns))
        ;
    struct strbuf body;
    strbuf_init(&body, LINK_PROBLEM_MAX_BYTES);
    strbuf_add(&body, l->answer.data + head_len, l->answer.len - head_len);
    strbuf_release(&l->answer);
    l->answer = body;
    if (l->status < 400) { /* a server that knows nothing of it */
        error_set(err, ERROR_UNAVAILABLE, "the server at '%.200s' does not speak MCP in this way",
                  l->address);
        return error_hint(err, "it may be an older one");
    }
    return link_tell_refusal(l, err);
}

static int read_answer(struct link *l, int64_t deadline_ns, struct error *err)
{
    const char *end;
    strbuf_release(&l->answer);
    strbuf_init(&l->answer, HEAD_MAX_BYTES + LINK_PROBLEM_MAX_BYTES);
    while (!(end = strstr(strbuf_str(&l->answer), HEAD_END))) {
        if (l->answer.len > HEAD_MAX_BYTES || !receive(l, deadline_ns))
            return link_tell_fault(l, CURLE_GOT_NOTHING, err);
    }
    if (read_status(l, strbuf_str(&l->answer), err) < 0)
        return -1;
    if (l->status == 101)
        return 0;
    return refuse(l, (size_t)(end - l->answer.data) + strlen(HEAD_END), deadline_ns, err);
}

static int connect_to(struct link *l, struct error *err)
{
    curl_easy_reset(l->easy);
    l->status = 0;
    l->has_failed = false;
    l->why[0] = l->request_id[0] = '\0';
    link_set_place(l, l->base);
    curl_easy_setopt(l->easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(l->easy, CURLOPT_HTTPPROXYTUNNEL, 1L); /* a proxy would answer by itself */
    curl_easy_setopt(l->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(l->easy, CURLOPT_ERRORBUFFER, l->why);
    curl_easy_setopt(l->easy, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)MIN(l->timeout_ms, (uint64_t)LINK_CONNECT_TIMEOUT_MS));
    CURLcode code = curl_easy_perform(l->easy);
    return code == CURLE_OK ? 0 : link_tell_fault(l, code, err);
}

/* The head of the request; new. The path of the API is the last part of the link's. */
static char *make_request(const struct link *l, const char *path, const char *protocol)
{
    char *host = NULL, *port = NULL, *api = NULL;
    CURLU *url = curl_url();
    BUG_ON(!url || curl_url_set(url, CURLUPART_URL, l->base, 0) != CURLUE_OK ||
           curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
           curl_url_get(url, CURLUPART_PATH, &api, 0) != CURLUE_OK);
    bool has_port = curl_url_get(url, CURLUPART_PORT, &port, 0) == CURLUE_OK;
    int prefix = (int)(strlen(api) - strlen(LINK_API_PREFIX));
    char *text =
        xasprintf("GET %.*s%s HTTP/1.1\r\nHost: %s%s%s\r\nUser-Agent: cove/" COVE_VERSION
                  "\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s%s\r\n",
                  prefix, api, path, host, has_port ? ":" : "", has_port ? port : "", protocol,
                  l->authorization ? l->authorization : "", l->authorization ? "\r\n" : "");
    curl_free(host);
    curl_free(port);
    curl_free(api);
    curl_url_cleanup(url);
    return text;
}

int link_upgrade(struct link *l, const char *path, const char *protocol, struct error *err)
{
    scoped_free char *request = make_request(l, path, protocol);
    if (connect_to(l, err) < 0)
        return -1;
    int64_t deadline_ns = clock_now_ns() + (int64_t)l->timeout_ms * NS_PER_MS;
    if (!send_all(l, request, deadline_ns))
        return link_tell_fault(l, CURLE_SEND_ERROR, err);
    return read_answer(l, deadline_ns, err);
}
