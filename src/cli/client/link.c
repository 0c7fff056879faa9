/* link.c - one curl handle, driven by hand so that it can wait for signals and keys, too */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/link_inside.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "codec/json.h"

#define TOKEN_MAX_BYTES  4096
#define ANSWER_MAX_BYTES (256 * MIB)
#define EVENT_MAX_BYTES  (128 * MIB)
#define PATH_MAX_BYTES   (64 * KIB)
#define BODY_MAX_BYTES   (256 * MIB)
#define NO_ADDRESS       "that is no address"
#define POLL_MS          200 /* between two looks whether anything came */

/* --- where the server is -----------------------------------------------------------------------
 */

static bool is_local_host(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "[::1]") == 0;
}

/* The address itself is not told: it may hold a password. */
static int refuse_address(struct error *err, const char *why)
{
    error_set(err, ERROR_INVALID, "--server: %s", why);
    return error_hint(err, "like http://127.0.0.1:8080, https://cove.example.org or "
                           "unix:/run/cove.sock");
}

/* Of the parts that an address may have; each is freed by curl_free(). */
struct parts {
    char *scheme, *host, *text, *user, *query, *fragment;
};

static const struct {
    CURLUPart part;
    size_t offset;
    bool is_needed;
    const char *why;
} part_rows[] = {
    {CURLUPART_SCHEME, offsetof(struct parts, scheme), true, NO_ADDRESS},
    {CURLUPART_HOST, offsetof(struct parts, host), true, NO_ADDRESS},
    {CURLUPART_URL, offsetof(struct parts, text), true, NO_ADDRESS},
    {CURLUPART_USER, offsetof(struct parts, user), false,
     "an address has no user or password: use --token"},
    {CURLUPART_QUERY, offsetof(struct parts, query), false, "an address has no query"},
    {CURLUPART_FRAGMENT, offsetof(struct parts, fragment), false, "an address has no fragment"},
};

/* False: *why says what is wrong with them. */
static bool read_parts(CURLU *url, struct parts *out, const char **why)
{
    for (size_t i = 0; i < ARRAY_LEN(part_rows); i++) {
        char **part = (char **)((char *)out + part_rows[i].offset);
        bool is_there = curl_url_get(url, part_rows[i].part, part, 0) == CURLUE_OK;
        *why = part_rows[i].why;
        if (is_there != part_rows[i].is_needed)
            return false;
    }
    *why = "only http, https and unix are known";
    return strcmp(out->scheme, "http") == 0 || strcmp(out->scheme, "https") == 0;
}

static void free_parts(struct parts *parts)
{
    for (size_t i = 0; i < ARRAY_LEN(part_rows); i++)
        curl_free(*(char **)((char *)parts + part_rows[i].offset));
}

static int read_url(struct link *l, const char *server, CURLU *url, struct error *err)
{
    struct parts parts = {0};
    const char *why = NO_ADDRESS;
    bool is_good =
        curl_url_set(url, CURLUPART_URL, server, 0) == CURLUE_OK && read_parts(url, &parts, &why);
    if (is_good) {
        size_t len = strlen(parts.text);
        while (len > 0 && parts.text[len - 1] == '/')
            len--;
        l->is_local = is_local_host(parts.host);
        l->address = xstrndup(parts.text, len);
        l->base = xasprintf("%s" LINK_API_PREFIX, l->address);
    }
    free_parts(&parts);
    return is_good ? 0 : refuse_address(err, why);
}

static int read_address(struct link *l, const char *server, struct error *err)
{
    static const char unix_prefix[] = "unix:";
    size_t len = strlen(unix_prefix);
    if (strncmp(server, unix_prefix, len) == 0) {
        if (server[len] != '/')
            return refuse_address(err, "the path of a socket begins with a slash");
        l->is_local = true;
        l->socket = xstrdup(server + len);
        l->address = xstrdup(server);
        l->base = xstrdup("http://localhost" LINK_API_PREFIX);
        return 0;
    }
    CURLU *url = curl_url();
    BUG_ON(!url);
    int status = read_url(l, server, url, err);
    curl_url_cleanup(url);
    return status;
}

/* --- who asks ----------------------------------------------------------------------------------
 */

static int set_token(struct link *l, const char *token, struct error *err)
{
    for (const char *p = token; *p; p++) {
        if (!isgraph((unsigned char)*p))
            return error_set(err, ERROR_INVALID,
                             "the token has a character that no token has (at place %zu)",
                             (size_t)(p - token) + 1);
    }
    l->authorization = xasprintf("Authorization: Bearer %s", token);
    l->has_token = true;
    return 0;
}

/* The operator's token is the right one for his own server, and nobody else's business: it is shown
 * to this machine only. Who cannot read it has none. */
static int read_token(struct link *l, const struct config *config, struct error *err)
{
    if (config->token)
        return set_token(l, config->token, err);
    if (!l->is_local)
        return 0;
    struct error ignored;
    scoped_free char *text = NULL;
    scoped_free char *path = config->state_dir ? xasprintf("%s/token", config->state_dir)
                                               : xasprintf("%s/server/token", config->data_dir);
    if (fd_read_file(path, &text, TOKEN_MAX_BYTES, &ignored) < 0)
        return 0;
    text[strcspn(text, "\r\n")] = '\0';
    return *text ? set_token(l, text, err) : 0;
}

/* --- its life ----------------------------------------------------------------------------------
 */

int link_open(struct link **out, const struct config *config, struct error *err)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(err, ERROR_INTERNAL, "libcurl does not start");
    scoped(link) struct link *l = xcalloc(1, sizeof(*l));
    l->multi = curl_multi_init();
    l->easy = curl_easy_init();
    BUG_ON(!l->multi || !l->easy);
    l->timeout_ms = config->server_timeout_ms;
    l->ca = config->server_ca ? xstrdup(config->server_ca) : NULL;
    if (read_address(l, config->server, err) < 0 || read_token(l, config, err) < 0)
        return -1;
    *out = take_ptr(&l);
    return 0;
}

void link_free(struct link *l)
{
    if (!l)
        return;
    curl_easy_cleanup(l->easy);
    curl_multi_cleanup(l->multi);
    curl_global_cleanup();
    strbuf_release(&l->answer);
    event_stream_free(l->events);
    json_decref(l->problem);
    free(l->base);
    free(l->socket);
    free(l->address);
    free(l->authorization);
    free(l->ca);
    free(l);
}

const json_t *link_problem(const struct link *l)
{
    return l->problem;
}

const char *link_request_id(const struct link *l)
{
    return l->request_id;
}

const char *link_address(const struct link *l)
{
    return l->address;
}

/* --- words -------------------------------------------------------------------------------------
 */

void link_add_word(struct strbuf *path, const char *word)
{
    for (const char *p = word; *p; p++) {
        bool is_plain = isascii(*p) && (isalnum((unsigned char)*p) || strchr("-._~", *p));
        if (is_plain)
            strbuf_add_char(path, *p);
        else
            strbuf_add_fmt(path, "%%%02X", (unsigned char)*p);
    }
}

void link_add_query(struct strbuf *path, const char *key, const char *value)
{
    if (!value)
        return;
    strbuf_add_char(path, strchr(strbuf_str(path), '?') ? '&' : '?');
    strbuf_add_fmt(path, "%s=", key);
    link_add_word(path, value);
}

/* --- what curl calls ----------------------------------------------------------------------------
 */

static size_t fail(struct link *l, const struct error *err)
{
    l->failure = *err;
    l->has_failed = true;
    return 0; /* curl takes that for a write that failed, and ends */
}

static bool is_accepted(const struct link *l)
{
    return l->status >= 200 && l->status < 300;
}

static size_t on_data(char *data, size_t size, size_t count, void *ctx)
{
    struct link *l = ctx;
    struct error err;
    size_t len = size * count;
    l->heard_ns = clock_now_ns();
    curl_easy_getinfo(l->easy, CURLINFO_RESPONSE_CODE, &l->status);
    if (l->events && l->status == 200) {
        if (event_stream_add(l->events, data, len, &err) < 0)
            return fail(l, &err);
        return event_stream_is_over(l->events) ? 0 : len;
    }
    if (l->request->take && is_accepted(l)) {
        if (l->request->take(l->request->ctx, data, len, &err) < 0)
            return fail(l, &err);
        return len;
    }
    strbuf_add(&l->answer, data, len);
    if (!l->answer.overflow)
        return len;
    error_set(&err, ERROR_TOO_LARGE, "the server's answer is longer than %zu bytes", l->answer.max);
    return fail(l, &err);
}

static size_t on_give(char *out, size_t size, size_t count, void *ctx)
{
    struct link *l = ctx;
    struct error err;
    ssize_t n = l->request->give(l->request->ctx, out, size * count, &err);
    if (n >= 0)
        return (size_t)n;
    fail(l, &err);
    return CURL_READFUNC_ABORT;
}

static size_t on_header(char *data, size_t size, size_t count, void *ctx)
{
    static const char name[] = "x-request-id:";
    struct link *l = ctx;
    size_t len = size * count, at = strlen(name), used = 0;
    if (len < at || strncasecmp(data, name, at) != 0)
        return len;
    for (; at < len && used + 1 < sizeof(l->request_id); at++) {
        if (isgraph((unsigned char)data[at]))
            l->request_id[used++] = data[at];
    }
    l->request_id[used] = '\0';
    return len;
}

/* --- a request ----------------------------------------------------------------------------------
 */

void link_set_place(struct link *l, const char *url)
{
    curl_easy_setopt(l->easy, CURLOPT_URL, url);
    curl_easy_setopt(l->easy, CURLOPT_PATH_AS_IS, 1L); /* ".." is the server's to refuse */
    curl_easy_setopt(l->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(l->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(l->easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(l->easy, CURLOPT_USERAGENT, "cove/" COVE_VERSION);
    if (l->socket)
        curl_easy_setopt(l->easy, CURLOPT_UNIX_SOCKET_PATH, l->socket);
    if (l->is_local) /* a proxy has another machine in mind when it hears of this one */
        curl_easy_setopt(l->easy, CURLOPT_PROXY, "");
    if (l->ca)
        curl_easy_setopt(l->easy, CURLOPT_CAINFO, l->ca);
}

/* A document has to be there in time, a file has to go on; a stream has to show life, see
 * is_silent(). */
static void set_times(struct link *l)
{
    curl_easy_setopt(l->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(l->easy, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)MIN(l->timeout_ms, (uint64_t)LINK_CONNECT_TIMEOUT_MS));
    if (l->request->give || l->request->take) {
        curl_easy_setopt(l->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(l->easy, CURLOPT_LOW_SPEED_TIME, (long)MAX(l->timeout_ms / 1000, 1u));
    } else if (!l->events) {
        curl_easy_setopt(l->easy, CURLOPT_TIMEOUT_MS, (long)l->timeout_ms);
    }
    l->heard_ns = clock_now_ns();
}

static struct curl_slist *add_header(struct curl_slist *list, const char *text)
{
    struct curl_slist *more = curl_slist_append(list, text);
    BUG_ON(!more);
    return more;
}

static struct curl_slist *make_headers(const struct link *l, const struct link_request *r)
{
    struct curl_slist *list = add_header(NULL, "Expect:");
    list = add_header(list, l->events ? "Accept: text/event-stream" : "Accept: application/json");
    list = add_header(list, r->body ? "Content-Type: application/json" : "Content-Type:");
    if (l->authorization)
        list = add_header(list, l->authorization);
    if (r->after_event && r->after_event[0]) {
        scoped_free char *text = xasprintf("Last-Event-ID: %s", r->after_event);
        list = add_header(list, text);
    }
    return list;
}

static void set_body(struct link *l, const struct link_request *r, struct strbuf *body)
{
    if (r->give) {
        curl_easy_setopt(l->easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(l->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->give_size);
        curl_easy_setopt(l->easy, CURLOPT_READFUNCTION, on_give);
        curl_easy_setopt(l->easy, CURLOPT_READDATA, l);
    }
    if (r->body)
        json_add(body, r->body, JSON_STYLE_COMPACT);
    if (r->body || strcmp(r->method, "POST") == 0) {
        curl_easy_setopt(l->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
        curl_easy_setopt(l->easy, CURLOPT_POSTFIELDS, strbuf_str(body));
    }
    curl_easy_setopt(l->easy, CURLOPT_CUSTOMREQUEST, r->method);
}

/* curl's own measure is the speed of the last seconds, which is late to tell. */
static bool is_silent(const struct link *l)
{
    return l->events && clock_now_ns() - l->heard_ns > (int64_t)l->timeout_ms * 1000000;
}

/* Until it is done, or until `wake_fd` (-1: none) is readable: then false. */
static bool drive(struct link *l, int wake_fd, CURLcode *result)
{
    struct curl_waitfd wake = {.fd = wake_fd, .events = CURL_WAIT_POLLIN};
    int running = 0, left;
    bool is_done = true;
    *result = CURLE_FAILED_INIT;
    curl_multi_add_handle(l->multi, l->easy);
    while (curl_multi_perform(l->multi, &running) == CURLM_OK && running > 0) {
        wake.revents = 0;
        curl_multi_poll(l->multi, &wake, wake_fd >= 0 ? 1 : 0, POLL_MS, NULL);
        is_done = !wake.revents;
        if (is_silent(l))
            *result = CURLE_OPERATION_TIMEDOUT;
        if (!is_done || *result == CURLE_OPERATION_TIMEDOUT)
            break;
    }
    for (const CURLMsg *m; (m = curl_multi_info_read(l->multi, &left));)
        *result = m->msg == CURLMSG_DONE ? m->data.result : *result;
    curl_multi_remove_handle(l->multi, l->easy);
    return is_done;
}

static bool perform(struct link *l, const struct link_request *r, int wake_fd, CURLcode *result)
{
    scoped_free char *url = xasprintf("%s%s", l->base, r->path);
    scoped_strbuf struct strbuf body;
    strbuf_init(&body, BODY_MAX_BYTES);
    strbuf_release(&l->answer);
    strbuf_init(&l->answer, l->events ? LINK_PROBLEM_MAX_BYTES : ANSWER_MAX_BYTES);
    json_decref(take_ptr(&l->problem));
    l->request = r;
    l->status = 0;
    l->has_failed = false;
    l->why[0] = l->request_id[0] = '\0';
    curl_easy_reset(l->easy); /* connections are the multi handle's, and live on */
    struct curl_slist *headers = make_headers(l, r);
    link_set_place(l, url);
    set_times(l);
    set_body(l, r, &body);
    curl_easy_setopt(l->easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(l->easy, CURLOPT_ERRORBUFFER, l->why);
    curl_easy_setopt(l->easy, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(l->easy, CURLOPT_WRITEDATA, l);
    curl_easy_setopt(l->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(l->easy, CURLOPT_HEADERDATA, l);
    bool is_done = drive(l, wake_fd, result);
    curl_easy_getinfo(l->easy, CURLINFO_RESPONSE_CODE, &l->status);
    curl_slist_free_all(headers);
    return is_done;
}

/* --- what went wrong ----------------------------------------------------------------------------
 */

static const struct fault {
    CURLcode code;
    enum error_code means;
    const char *hint;
} faults[] = {
    {CURLE_COULDNT_RESOLVE_HOST, ERROR_UNAVAILABLE, "--server or COVE_SERVER names the server"},
    {CURLE_COULDNT_CONNECT, ERROR_UNAVAILABLE,
     "is it running? `cove serve` starts one; --server or COVE_SERVER names another"},
    {CURLE_OPERATION_TIMEDOUT, ERROR_TIMEOUT, "--server-timeout waits longer"},
    {CURLE_PEER_FAILED_VERIFICATION, ERROR_DENIED,
     "--server-ca names the certificates by which it is known"},
    {CURLE_SSL_CACERT_BADFILE, ERROR_INVALID, "--server-ca names a file with certificates (PEM)"},
    {CURLE_SSL_CONNECT_ERROR, ERROR_UNAVAILABLE, "does it speak https?"},
    {CURLE_WEIRD_SERVER_REPLY, ERROR_UNAVAILABLE,
     "is this a server of Cove's, and not an https one?"},
    {CURLE_UNSUPPORTED_PROTOCOL, ERROR_UNAVAILABLE, "is this a server of Cove's?"},
};

int link_tell_fault(struct link *l, CURLcode code, struct error *err)
{
    if (l->has_failed) {
        *err = l->failure;
        return -1;
    }
    const char *why = l->why[0] ? l->why : curl_easy_strerror(code);
    error_set(err, ERROR_UNAVAILABLE, "ask the server at '%.200s': %s", l->address, why);
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        if (faults[i].code == code) {
            err->code = faults[i].means;
            error_hint(err, "%s", faults[i].hint);
        }
    }
    return -1;
}

static const struct {
    long status;
    enum error_code code;
} statuses[] = {{401, ERROR_DENIED},   {407, ERROR_DENIED},      {408, ERROR_TIMEOUT},
                {422, ERROR_INVALID},  {502, ERROR_UNAVAILABLE}, {507, ERROR_UNAVAILABLE},
                {410, ERROR_NOT_FOUND}};

/* Which of ours it is: by its own word where that is one of ours, else by the status. */
static enum error_code code_of(long status, const char *word)
{
    for (int i = 0; i < ERROR_CODE_COUNT; i++) {
        if (word && strcmp(error_info((enum error_code)i)->name, word) == 0)
            return (enum error_code)i;
    }
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        if (statuses[i].status == status)
            return statuses[i].code;
    }
    for (int i = 0; i < ERROR_CODE_COUNT; i++) {
        if (error_info((enum error_code)i)->http_status == status)
            return (enum error_code)i;
    }
    return status >= 400 && status < 500 ? ERROR_INVALID : ERROR_INTERNAL;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

int link_tell_refusal(struct link *l, struct error *err)
{
    const struct json_limits limits = {.max_bytes = LINK_PROBLEM_MAX_BYTES};
    struct error ignored;
    json_t *document = NULL;
    if (json_parse(&document, strbuf_str(&l->answer), l->answer.len, &limits, &ignored) < 0)
        document = NULL;
    const json_t *problem = json_object_get(document, "error");
    const char *message = text_of(problem, "message"), *hint = text_of(problem, "hint");
    error_set(err, code_of(l->status, text_of(problem, "code")), "%s", message ? message : "");
    if (hint)
        error_hint(err, "%s", hint);
    if (message) {
        l->problem = take_ptr(&document);
    } else {
        enum error_code code = err->code;
        error_set(err, code, "the server at '%.200s' answered with status %ld and no reason",
                  l->address, l->status);
        error_hint(err, "is this a server of Cove's?");
    }
    json_decref(document);
    if (l->status == 401 && !l->has_token)
        error_hint(err, "--token, COVE_TOKEN or COVE_TOKEN_FILE gives a token or a key");
    return -1;
}

int link_ask(struct link *l, const struct link_request *request, json_t **out, struct error *err)
{
    const struct json_limits limits = {.max_bytes = ANSWER_MAX_BYTES, .has_nul = true};
    CURLcode result;
    struct error why;
    perform(l, request, -1, &result);
    if (result != CURLE_OK)
        return link_tell_fault(l, result, err);
    if (!is_accepted(l))
        return link_tell_refusal(l, err);
    if (l->answer.len == 0) {
        *out = json_null();
        return 0;
    }
    if (json_parse(out, strbuf_str(&l->answer), l->answer.len, &limits, &why) == 0)
        return 0;
    error_set(err, ERROR_UNAVAILABLE, "the answer of the server at '%.200s' makes no sense: %.200s",
              l->address, why.msg);
    return error_hint(err, "is this a server of Cove's?");
}

enum link_end link_stream(struct link *l, const struct link_request *request, event_stream_fn fn,
                          void *ctx, int wake_fd, struct error *err)
{
    CURLcode result;
    l->events = event_stream_new(EVENT_MAX_BYTES, fn, ctx);
    bool is_done = perform(l, request, wake_fd, &result);
    bool is_over = event_stream_is_over(l->events);
    event_stream_free(take_ptr(&l->events));
    if (is_over)
        return LINK_OVER;
    if (!is_done)
        return LINK_WOKEN;
    if (result == CURLE_OPERATION_TIMEDOUT && l->status == 200)
        return LINK_QUIET;
    if (result == CURLE_OK && l->status != 200) {
        link_tell_refusal(l, err);
        return l->status >= 500 ? LINK_BROKEN : LINK_FAILED;
    }
    if (result == CURLE_OK)
        error_set(err, ERROR_UNAVAILABLE, "the server at '%.200s' has ended the stream too early",
                  l->address);
    else
        link_tell_fault(l, result, err);
    return l->has_failed ? LINK_FAILED : LINK_BROKEN;
}
