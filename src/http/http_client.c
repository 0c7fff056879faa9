/* http_client.c - curl's sockets and its one timer on our loop
 *
 * curl calls back while it is called: into our sockets, our timer, and who reads an answer. So that
 * nobody frees what curl stands on, an exchange that is cancelled meanwhile is only marked, and
 * swept when curl has returned. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "http/curl_library.h"

#define CONNECT_MS     5000
#define STALL_S        20
#define CONNECTIONS    16
#define HEAD_MAX_BYTES (32 * KIB)
#define BUFFER_BYTES   (64 * KIB) /* most that one on_data() has */

struct http_body {
    unsigned refs;
    char *data;
    size_t len;
};

struct http_exchange {
    struct http_client *client;
    struct http_exchange *next, **at;
    CURL *easy;
    struct curl_slist *headers;
    struct http_client_request request; /* after the begin only callbacks and body are used */
    char why[CURL_ERROR_SIZE];
    struct strbuf head; /* lines of the answer, each with a NUL in place of its end */
    struct loop_timer *timer;
    CURLcode result;
    bool is_added; /* curl knows of it */
    bool has_head; /* on_head() was called */
    bool is_paused;
    bool is_held; /* curl waits until it is no longer paused */
    bool is_over; /* curl has finished; on_done() is due */
    bool is_cancelled;
};

struct http_client {
    struct loop *loop;
    const struct curl_library *curl;
    CURLM *multi;
    struct loop_timer *timer;
    struct http_exchange *first;
    unsigned inside; /* calls to curl that have not returned */
    char *ca_file;
    long connect_ms, stall_s;
};

struct socket_watch {
    struct http_client *client;
    curl_socket_t fd;
    struct loop_watch *watch;
};

/* --- bodies ----------------------------------------------------------------------------------- */

struct http_body *http_body_new(char *data, size_t len)
{
    struct http_body *body = xcalloc(1, sizeof(*body));
    *body = (struct http_body){.refs = 1, .data = data, .len = len};
    return body;
}

struct http_body *http_body_ref(struct http_body *body)
{
    body->refs++;
    return body;
}

void http_body_unref(struct http_body *body)
{
    if (!body || --body->refs > 0)
        return;
    free(body->data);
    free(body);
}

const void *http_body_data(const struct http_body *body, size_t *len)
{
    *len = body ? body->len : 0;
    return body && body->data ? body->data : "";
}

/* --- exchanges -------------------------------------------------------------------------------- */

static void unlink_exchange(struct http_exchange *e)
{
    *e->at = e->next;
    if (e->next)
        e->next->at = e->at;
}

static void exchange_free(struct http_exchange *e)
{
    const struct curl_library *curl = e->client->curl;
    unlink_exchange(e);
    loop_timer_free(e->timer);
    if (e->is_added)
        curl->multi_remove_handle(e->client->multi, e->easy);
    curl->easy_cleanup(e->easy);
    curl->slist_free_all(e->headers);
    strbuf_release(&e->head);
    http_body_unref(e->request.body);
    free(e);
}

static int status_of(struct http_exchange *e)
{
    long status = 0;
    e->client->curl->easy_getinfo(e->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

static void tell_head(struct http_exchange *e)
{
    int status = status_of(e);
    if (e->has_head || status == 0)
        return;
    e->has_head = true;
    if (e->request.on_head)
        e->request.on_head(e->request.ctx, e, status);
}

static void finish(struct http_exchange *e)
{
    struct error err = {0};
    tell_head(e);
    if (e->is_cancelled || e->is_paused)
        return;
    if (e->result != CURLE_OK) {
        error_set(&err, e->result == CURLE_OPERATION_TIMEDOUT ? ERROR_TIMEOUT : ERROR_UNAVAILABLE,
                  "%s", e->why[0] ? e->why : e->client->curl->easy_strerror(e->result));
    }
    e->is_cancelled = true; /* whatever is done in the last call, it is swept by us */
    e->request.on_done(e->request.ctx, e, status_of(e), e->result != CURLE_OK ? &err : NULL);
}

static void sweep(struct http_client *client)
{
    if (client->inside > 0)
        return;
    for (struct http_exchange *e = client->first, *next; e; e = next) {
        next = e->next;
        if (e->is_cancelled)
            exchange_free(e);
    }
}

static void add(struct http_exchange *e)
{
    e->is_added = true;
    BUG_ON(e->client->curl->multi_add_handle(e->client->multi, e->easy) != CURLM_OK);
}

/* Those that were asked for while curl was called, which takes none then. */
static void add_new(struct http_client *client)
{
    for (struct http_exchange *e = client->first; e; e = e->next) {
        if (!e->is_added)
            add(e);
    }
}

/* After curl was called: who is done is told, who was cancelled goes. */
static void settle(struct http_client *client)
{
    int left;
    const CURLMsg *message;
    client->inside++;
    while ((message = client->curl->multi_info_read(client->multi, &left))) {
        struct http_exchange *e = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        CURLcode result = message->data.result;
        client->curl->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&e);
        e->result = result;
        e->is_over = true;
        if (!e->is_cancelled && !e->is_paused)
            finish(e);
    }
    client->inside--;
    if (client->inside > 0)
        return;
    sweep(client);
    add_new(client);
}

/* --- curl's callbacks ------------------------------------------------------------------------- */

static size_t on_header(char *data, size_t size, size_t count, void *ctx)
{
    struct http_exchange *e = ctx;
    size_t len = size * count;
    if (len >= 5 && memcmp(data, "HTTP/", 5) == 0)
        strbuf_clear(&e->head); /* what came before was not the answer itself */
    while (len > 0 && (data[len - 1] == '\n' || data[len - 1] == '\r'))
        len--;
    if (len > 0) {
        strbuf_add(&e->head, data, len);
        strbuf_add_char(&e->head, '\0');
    }
    return e->head.overflow ? 0 : size * count;
}

static size_t on_body(char *data, size_t size, size_t count, void *ctx)
{
    struct http_exchange *e = ctx;
    size_t len = size * count;
    if (e->is_cancelled)
        return 0;
    tell_head(e);
    if (e->is_paused && !e->is_cancelled) {
        e->is_held = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (!e->is_cancelled && e->request.on_data)
        e->request.on_data(e->request.ctx, data, len);
    return e->is_cancelled ? 0 : len;
}

static void act(struct http_client *client, curl_socket_t fd, int events)
{
    int running;
    client->inside++;
    client->curl->multi_socket_action(client->multi, fd, events, &running);
    client->inside--;
    settle(client);
}

static void on_ready(void *ctx, unsigned events)
{
    const struct socket_watch *s = ctx; /* may be gone when curl has been called */
    int mask = (events & LOOP_READ ? CURL_CSELECT_IN : 0) |
               (events & LOOP_WRITE ? CURL_CSELECT_OUT : 0) |
               (events & LOOP_HANGUP ? CURL_CSELECT_ERR : 0);
    act(s->client, s->fd, mask);
}

static void on_time(void *ctx)
{
    struct http_client *client = ctx;
    loop_timer_free(take_ptr(&client->timer));
    act(client, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timer(CURLM *multi, long delay_ms, void *ctx)
{
    struct http_client *client = ctx;
    (void)multi;
    loop_timer_free(take_ptr(&client->timer));
    if (delay_ms >= 0)
        client->timer = loop_timer_new(client->loop, (uint64_t)delay_ms, on_time, client);
    return 0;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket_ctx)
{
    struct http_client *client = ctx;
    struct socket_watch *s = socket_ctx;
    struct error err;
    unsigned events =
        (what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0);
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (s)
            loop_watch_free(s->watch);
        free(s);
        client->curl->multi_assign(client->multi, fd, NULL);
        return 0;
    }
    if (s) {
        loop_watch_set(s->watch, events);
        return 0;
    }
    s = xcalloc(1, sizeof(*s));
    *s = (struct socket_watch){.client = client, .fd = fd};
    if (loop_watch_new(&s->watch, client->loop, fd, events, on_ready, s, &err) < 0) {
        free(s);
        return -1;
    }
    client->curl->multi_assign(client->multi, fd, s);
    return 0;
}

/* --- asking ----------------------------------------------------------------------------------- */

static void add_header(struct http_exchange *e, const char *line)
{
    struct curl_slist *longer = e->client->curl->slist_append(e->headers, line);
    BUG_ON(!longer);
    e->headers = longer;
}

static void set_body(struct http_exchange *e, const struct http_client_request *r)
{
    const struct curl_library *curl = e->client->curl;
    size_t len;
    const void *data = http_body_data(r->body, &len);
    if (strcmp(r->method, "HEAD") == 0) {
        curl->easy_setopt(e->easy, CURLOPT_NOBODY, 1L);
    } else if (strcmp(r->method, "GET") != 0) {
        curl->easy_setopt(e->easy, CURLOPT_POSTFIELDS, data);
        curl->easy_setopt(e->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
        curl->easy_setopt(e->easy, CURLOPT_CUSTOMREQUEST, r->method);
        add_header(e, "Expect:");       /* a second round for nothing */
        add_header(e, "Content-Type:"); /* unless the caller has one: none */
    }
}

static void set_options(struct http_exchange *e, const struct http_client_request *r)
{
    const struct http_client *client = e->client;
    const struct curl_library *curl = client->curl;
    CURL *easy = e->easy;
    curl->easy_setopt(easy, CURLOPT_PRIVATE, e);
    curl->easy_setopt(easy, CURLOPT_URL, r->url);
    curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl->easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(easy, CURLOPT_PROXY, "");
    curl->easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L); /* as it was signed */
    curl->easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, client->connect_ms);
    curl->easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl->easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, client->stall_s);
    curl->easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms);
    curl->easy_setopt(easy, CURLOPT_ERRORBUFFER, e->why);
    curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl->easy_setopt(easy, CURLOPT_HEADERDATA, e);
    curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl->easy_setopt(easy, CURLOPT_WRITEDATA, e);
    if (client->ca_file)
        curl->easy_setopt(easy, CURLOPT_CAINFO, client->ca_file);
    for (const char *const *line = r->headers; line && *line; line++)
        add_header(e, *line);
    set_body(e, r);
    curl->easy_setopt(easy, CURLOPT_HTTPHEADER, e->headers);
}

struct http_exchange *http_client_ask(struct http_client *client,
                                      const struct http_client_request *request)
{
    struct http_exchange *e = xcalloc(1, sizeof(*e));
    *e = (struct http_exchange){.client = client, .request = *request, .next = client->first};
    e->at = &client->first;
    if (e->next)
        e->next->at = &e->next;
    client->first = e;
    strbuf_init(&e->head, HEAD_MAX_BYTES);
    e->easy = client->curl->easy_init();
    BUG_ON(!e->easy);
    if (request->body)
        http_body_ref(request->body);
    set_options(e, request);
    if (client->inside == 0)
        add(e);
    return e;
}

void http_exchange_pause(struct http_exchange *e)
{
    e->is_paused = true;
}

static void on_resume(void *ctx)
{
    struct http_exchange *e = ctx;
    struct http_client *client = e->client;
    loop_timer_free(take_ptr(&e->timer));
    if (e->is_paused || e->is_cancelled)
        return;
    client->inside++;
    if (e->is_over) {
        finish(e);
    } else if (e->is_held) {
        e->is_held = false;
        client->curl->easy_pause(e->easy, CURLPAUSE_CONT);
    }
    client->inside--;
    settle(client);
}

void http_exchange_resume(struct http_exchange *e)
{
    bool was_paused = e->is_paused;
    e->is_paused = false;
    if (was_paused && (e->is_held || e->is_over) && !e->timer)
        e->timer = loop_timer_new(e->client->loop, 0, on_resume, e);
}

void http_exchange_cancel(struct http_exchange *e)
{
    e->is_cancelled = true;
    sweep(e->client);
}

const char *http_exchange_header(struct http_exchange *e, const char *name)
{
    size_t len = strlen(name);
    const char *value = NULL;
    for (size_t at = 0; at < e->head.len; at += strlen(e->head.data + at) + 1) {
        const char *line = e->head.data + at;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':')
            value = line + len + 1 + strspn(line + len + 1, " \t");
    }
    return value;
}

/* --- open and end ----------------------------------------------------------------------------- */

int http_client_open(struct http_client **out, struct loop *loop, struct curl_library *library,
                     const struct http_client_config *config, struct error *err)
{
    CURLM *multi = library->multi_init();
    if (!multi)
        return error_set(err, ERROR_UNAVAILABLE, "libcurl cannot be used");
    struct http_client *client = xcalloc(1, sizeof(*client));
    *client = (struct http_client){.loop = loop,
                                   .curl = library,
                                   .multi = multi,
                                   .ca_file = config->ca_file ? xstrdup(config->ca_file) : NULL,
                                   .connect_ms =
                                       (long)(config->connect_ms ? config->connect_ms : CONNECT_MS),
                                   .stall_s = (long)(config->stall_s ? config->stall_s : STALL_S)};
    long connections = config->connections_max ? config->connections_max : CONNECTIONS;
    library->multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    library->multi_setopt(multi, CURLMOPT_SOCKETDATA, client);
    library->multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
    library->multi_setopt(multi, CURLMOPT_TIMERDATA, client);
    library->multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, connections);
    *out = client;
    return 0;
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    BUG_ON(client->inside > 0);
    while (client->first)
        exchange_free(client->first); /* NOLINT(clang-analyzer-unix.Malloc): it leaves the list */
    client->curl->multi_cleanup(client->multi);
    loop_timer_free(client->timer);
    free(client->ca_file);
    free(client);
}
