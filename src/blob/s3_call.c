/* s3_call.c - one request: signed anew for each attempt, sent, judged, tried again
 *
 * Pauses grow by two and are drawn at random up to their length, so that many who failed together
 * do not come back together. An attempt that has brought bytes of a download forward begins the
 * count anew, and the next one asks for the rest only. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "blob/s3_inside.h"

#define PAUSE_MAX_MS  8000
#define SKEW_LIMIT_S  300 /* S3 takes a quarter of an hour */
#define LINE_BYTES    (4 * KIB)
#define LINES_MAX     16
#define QUERY_BYTES   (16 * KIB)
#define NS_PER_S      1000000000ll
#define RANGE_BYTES   64
#define ETAG_BYTES    (BLOB_ETAG_MAX_BYTES + 2)
#define CALL_LIMIT_MS 120000 /* one attempt that is not a download */

struct s3_call {
    struct s3 *s3;
    struct s3_call *next, **at;
    struct s3_call_order order; /* its texts are owned */
    char hash[SIGV4_HASH_BYTES];
    struct http_exchange *exchange;
    struct loop_timer *timer;
    unsigned attempt, failures;
    bool has_skewed; /* the clock was put right once */
    bool has_begun;  /* on_head() was called */
    bool is_part;    /* this attempt asks for a range */
    bool is_good;    /* the answer of this attempt is a success */
    bool is_paused;
    int status;
    uint64_t received;
    char etag[BLOB_ETAG_MAX_BYTES];
    char cause[128];    /* of the last failure, for the operator: it names hosts */
    struct strbuf text; /* of an answer that is not streamed */
    struct s3_answer answer;
};

static void send_attempt(struct s3_call *call);

/* --- memory ---------------------------------------------------------------------------------- */

static void copy_pairs(struct sigv4_pair pairs[S3_PAIRS_MAX])
{
    for (size_t i = 0; i < S3_PAIRS_MAX && pairs[i].name; i++)
        pairs[i] = (struct sigv4_pair){xstrdup(pairs[i].name), xstrdup(pairs[i].value)};
}

static void free_pairs(struct sigv4_pair pairs[S3_PAIRS_MAX])
{
    for (size_t i = 0; i < S3_PAIRS_MAX && pairs[i].name; i++) {
        free((char *)pairs[i].name);
        free((char *)pairs[i].value);
    }
}

static size_t count_pairs(const struct sigv4_pair pairs[S3_PAIRS_MAX])
{
    size_t count = 0;
    while (count < S3_PAIRS_MAX && pairs[count].name)
        count++;
    return count;
}

static void call_free(struct s3_call *call)
{
    *call->at = call->next;
    if (call->next)
        call->next->at = call->at;
    loop_timer_free(call->timer);
    free((char *)call->order.key);
    free(call->order.owned);
    free_pairs(call->order.query);
    free_pairs(call->order.headers);
    http_body_unref(call->order.body);
    strbuf_release(&call->text);
    s3_answer_release(&call->answer);
    free(call);
}

/* --- the outcome of an attempt ---------------------------------------------------------------- */

static void finish(struct s3_call *call, const struct error *err)
{
    struct blob_health *figures = &call->s3->figures;
    bool is_storages = err && err->code == ERROR_UNAVAILABLE;
    figures->done += !err;
    figures->failed += err != NULL;
    figures->is_failing = is_storages;
    if (is_storages)
        snprintf(figures->why, sizeof(figures->why), "bucket '%s' at %s: %.300s%s%.100s",
                 call->s3->bucket, call->s3->endpoint, err->msg, call->cause[0] ? ": " : "",
                 call->cause);
    call->order.on_done(call->order.ctx, call, err);
    call_free(call);
}

static void on_pause_over(void *ctx)
{
    struct s3_call *call = ctx;
    loop_timer_free(take_ptr(&call->timer));
    send_attempt(call);
}

static uint64_t draw_pause(const struct s3_call *call)
{
    uint64_t most = call->s3->pause_ms << MIN(call->failures, 10u);
    uint32_t chance = 0;
    most = MIN(most, (uint64_t)PAUSE_MAX_MS);
    if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) < 0)
        chance = UINT32_MAX / 2;
    return most / 4 + (3 * most / 4) * (chance >> 8) / (UINT32_MAX >> 8);
}

static void try_again(struct s3_call *call, uint64_t pause_ms)
{
    call->s3->figures.retried++;
    call->timer = loop_timer_new(call->s3->loop, pause_ms, on_pause_over, call);
}

/* Only a request that was refused says that clocks differ: dates of proxies are often wrong. */
static bool learn_time(struct s3_call *call, const char *date)
{
    int64_t server_ns = date ? s3_time_ns(date) : 0;
    int64_t skew_s = server_ns / NS_PER_S - clock_wall_ns() / NS_PER_S;
    if (server_ns == 0 || call->has_skewed || call->status != 403 ||
        llabs(skew_s - call->s3->skew_s) < SKEW_LIMIT_S)
        return false;
    call->has_skewed = true;
    call->s3->skew_s = skew_s;
    return true;
}

static void judge(struct s3_call *call, const char *date, const struct error *cause)
{
    struct error err;
    bool has_text = call->text.len > 0 && !call->is_good;
    if (has_text)
        s3_answer_parse(&call->answer, call->text.data, call->text.len);
    const struct s3_failure failure = {.what = call->order.what,
                                       .key = call->order.key,
                                       .status = call->status,
                                       .code = call->answer.code,
                                       .region = call->answer.region,
                                       .is_silent = cause != NULL};
    if (!cause && learn_time(call, date)) {
        try_again(call, 0);
    } else if (s3_error_passes(&failure) && ++call->failures < call->s3->attempts) {
        try_again(call, draw_pause(call));
    } else {
        s3_error(&err, &failure);
        if (cause)
            snprintf(call->cause, sizeof(call->cause), "%.100s", cause->msg);
        finish(call, &err);
    }
}

/* S3 may find out that it cannot after it has said 200. */
static bool is_late_error(struct s3_call *call)
{
    if (call->order.is_stream || call->text.len == 0)
        return false;
    if (!s3_answer_parse(&call->answer, call->text.data, call->text.len) || call->text.overflow)
        return true;
    return strcmp(call->answer.root, "Error") == 0;
}

/* A server that does not know ranges would send the wrong bytes. */
static bool is_wanted(const struct s3_call *call)
{
    return call->status >= 200 && call->status < 300 && (!call->is_part || call->status == 206);
}

static void on_done(void *ctx, struct http_exchange *exchange, int status, const struct error *err)
{
    struct s3_call *call = ctx;
    const char *date = http_exchange_header(exchange, "date");
    call->exchange = exchange; /* for those who look at headers in the last call */
    call->status = status;
    call->is_good = !err && is_wanted(call);
    if ((!err && status == 200 && !call->is_good) || (call->is_good && is_late_error(call))) {
        call->is_good = false;
        call->status = 500;
    }
    if (call->is_good) {
        finish(call, NULL);
        return;
    }
    scoped_free char *copy = date ? xstrdup(date) : NULL;
    call->exchange = NULL;
    judge(call, copy, err);
}

static void on_head(void *ctx, struct http_exchange *exchange, int status)
{
    struct s3_call *call = ctx;
    struct blob_info info;
    call->exchange = exchange;
    call->status = status;
    call->is_good = is_wanted(call);
    if (!call->is_good || !call->order.is_stream || call->has_begun)
        return;
    call->has_begun = true;
    s3_call_info(call, &info);
    memcpy(call->etag, info.etag, sizeof(call->etag));
    if (call->order.on_head)
        call->order.on_head(call->order.ctx, call);
}

static void on_data(void *ctx, const void *data, size_t len)
{
    struct s3_call *call = ctx;
    if (!call->order.is_stream || !call->is_good) {
        strbuf_add(&call->text, data, len);
        return;
    }
    call->received += len;
    call->failures = 0;
    call->order.on_data(call->order.ctx, data, len);
}

/* --- sending ---------------------------------------------------------------------------------- */

struct lines {
    char *items[LINES_MAX + 1];
    size_t count;
};

static void lines_add(struct lines *lines, const char *name, const char *value)
{
    BUG_ON(lines->count == LINES_MAX);
    lines->items[lines->count++] = xasprintf("%s: %s", name, value);
}

static void lines_release(struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        free(lines->items[i]);
}

/* The headers that are signed: the order's, those of the body, and the range that is missing. */
static size_t add_headers(const struct s3_call *call, struct sigv4_pair *pairs,
                          char range[RANGE_BYTES], char etag[ETAG_BYTES])
{
    const struct s3_call_order *o = &call->order;
    size_t count = count_pairs(o->headers);
    uint64_t from = o->offset + call->received;
    memcpy(pairs, o->headers, count * sizeof(pairs[0]));
    pairs[count++] = (struct sigv4_pair){"x-amz-content-sha256", call->hash};
    if (call->is_part) {
        if (o->length > 0)
            snprintf(range, RANGE_BYTES, "bytes=%llu-%llu", (unsigned long long)from,
                     (unsigned long long)(o->offset + o->length - 1));
        else
            snprintf(range, RANGE_BYTES, "bytes=%llu-", (unsigned long long)from);
        pairs[count++] = (struct sigv4_pair){"range", range};
    }
    if (call->has_begun && call->etag[0]) {
        snprintf(etag, ETAG_BYTES, "\"%s\"", call->etag);
        pairs[count++] = (struct sigv4_pair){"if-match", etag};
    }
    return count;
}

static void add_path(const struct s3_call *call, struct strbuf *out)
{
    strbuf_add_str(out, call->s3->root);
    if (!call->order.key)
        return;
    sigv4_add_path(out, call->s3->prefix);
    sigv4_add_path(out, call->order.key);
}

static void ask(struct s3_call *call, const char *url, struct lines *lines)
{
    const struct http_client_request request = {.method = call->order.method,
                                                .url = url,
                                                .headers = (const char *const *)lines->items,
                                                .body = call->order.body,
                                                .timeout_ms =
                                                    call->order.is_stream ? 0 : CALL_LIMIT_MS,
                                                .on_head = on_head,
                                                .on_data = on_data,
                                                .on_done = on_done,
                                                .ctx = call};
    call->exchange = http_client_ask(call->s3->client, &request);
    if (call->is_paused)
        http_exchange_pause(call->exchange);
}

static bool is_part(const struct s3_call *call)
{
    const struct s3_call_order *o = &call->order;
    return o->is_stream && (o->offset + call->received > 0 || o->length > 0);
}

static void send_attempt(struct s3_call *call)
{
    const struct s3 *s3 = call->s3;
    struct lines lines = {.count = 0};
    scoped_strbuf struct strbuf path, url, authorization;
    struct sigv4_pair headers[S3_PAIRS_MAX + 3];
    char range[RANGE_BYTES], etag[ETAG_BYTES], date[SIGV4_DATE_BYTES];
    const struct sigv4_keys keys = s3_keys(s3);
    call->attempt++;
    call->is_part = is_part(call);
    strbuf_init(&path, LINE_BYTES);
    strbuf_init(&url, QUERY_BYTES);
    strbuf_init(&authorization, LINE_BYTES);
    add_path(call, &path);
    size_t query_count = count_pairs(call->order.query);
    const struct sigv4_request request = {.method = call->order.method,
                                          .host = s3->host,
                                          .path = strbuf_str(&path),
                                          .query = call->order.query,
                                          .query_count = query_count,
                                          .headers = headers,
                                          .header_count = add_headers(call, headers, range, etag),
                                          .payload_hash = call->hash,
                                          .time_s = s3_now_s(s3)};
    BUG_ON(!sigv4_sign(&keys, &request, date, &authorization)); /* lengths were checked */
    strbuf_add_fmt(&url, "%s%s%s", s3->base, strbuf_str(&path), query_count ? "?" : "");
    sigv4_add_query(&url, call->order.query, query_count);
    for (size_t i = 0; i < request.header_count; i++)
        lines_add(&lines, headers[i].name, headers[i].value);
    lines_add(&lines, "host", s3->host);
    lines_add(&lines, "x-amz-date", date);
    lines_add(&lines, "authorization", strbuf_str(&authorization));
    if (s3->session_token)
        lines_add(&lines, "x-amz-security-token", s3->session_token);

    call->is_good = false;
    strbuf_clear(&call->text);
    s3_answer_release(&call->answer);
    call->answer = (struct s3_answer){0};
    ask(call, strbuf_str(&url), &lines);
    lines_release(&lines);
}

struct s3_call *s3_call_begin(struct s3 *s3, const struct s3_call_order *order)
{
    struct s3_call *call = xcalloc(1, sizeof(*call));
    size_t len;
    *call = (struct s3_call){.s3 = s3, .order = *order, .next = s3->calls, .at = &s3->calls};
    if (call->next)
        call->next->at = &call->next;
    s3->calls = call;
    call->order.key = order->key ? xstrdup(order->key) : NULL;
    copy_pairs(call->order.query);
    copy_pairs(call->order.headers);
    if (order->body)
        http_body_ref(order->body);
    const void *data = http_body_data(order->body, &len);
    sigv4_hash(data, len, call->hash);
    strbuf_init(&call->text, S3_ANSWER_BYTES);
    send_attempt(call);
    return call;
}

void s3_call_cancel(struct s3_call *call)
{
    if (call->exchange)
        http_exchange_cancel(call->exchange);
    call_free(call);
}

void s3_call_pause(struct s3_call *call)
{
    call->is_paused = true;
    if (call->exchange)
        http_exchange_pause(call->exchange);
}

void s3_call_resume(struct s3_call *call)
{
    call->is_paused = false;
    if (call->exchange)
        http_exchange_resume(call->exchange);
}

/* --- the answer ------------------------------------------------------------------------------- */

int s3_call_status(const struct s3_call *call)
{
    return call->status;
}

unsigned s3_call_attempt(const struct s3_call *call)
{
    return call->attempt;
}

const char *s3_call_header(struct s3_call *call, const char *name)
{
    return call->exchange ? http_exchange_header(call->exchange, name) : NULL;
}

const struct s3_answer *s3_call_answer(const struct s3_call *call)
{
    return &call->answer;
}

/* "bytes 0-9/443" tells the whole size, else the length of the answer is it. */
void s3_call_info(struct s3_call *call, struct blob_info *out)
{
    const char *range = s3_call_header(call, "content-range");
    const char *length = s3_call_header(call, "content-length");
    const char *etag = s3_call_header(call, "etag");
    const char *modified = s3_call_header(call, "last-modified");
    const char *slash = range ? strchr(range, '/') : NULL;
    *out = (struct blob_info){.modified_ns = modified ? s3_time_ns(modified) : 0};
    if (slash)
        parse_u64(slash + 1, &out->size);
    else if (length)
        parse_u64(length, &out->size);
    if (etag && strlen(etag) < sizeof(out->etag)) {
        etag += etag[0] == '"';
        snprintf(out->etag, sizeof(out->etag), "%.*s", (int)strcspn(etag, "\""), etag);
    }
}
