/* blob_peer.c - a store of blobs driven by tests: orders on stdin, one answer line each
 *
 *   put KEY SIZE SEED      bytes that the seed decides        ok SHA256 DRAINS
 *   sized KEY SIZE SEED    the same, with the size told first
 *   drop KEY SIZE SEED     writes them and ends the put early ok
 *   get KEY OFFSET LENGTH  reads, with pauses                 ok SHA256 GOT SIZE
 *   leave KEY              ends a get at its first bytes      ok
 *   copy KEY TO            from one blob into another         ok
 *   stat KEY               ok SIZE ETAG MODIFIED_S
 *   rm KEY                 ok
 *   ls PREFIX AFTER LIMIT  ok MORE KEY KEY...                 ("-" is nothing)
 *   sign get|put KEY SECS  ok URL
 *   health                 ok FAILING RETRIED WHY
 *   crowd KEY COUNT SIZE   so many puts at once               ok FAILED
 * A failure is: error CODE WORD MESSAGE | HINT. Where it is kept: `disk DIR` or `s3` as arguments,
 * with the options of the latter in its environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "blob/disk.h"
#include "blob/s3.h"
#include "codec/sha256.h"
#include "http/curl_library.h"
#include "http/http_client.h"

#define WORDS_MAX   5
#define STEP_BYTES  70001
#define URL_BYTES   (16 * KIB)
#define PAUSE_EVERY 7

struct peer {
    struct loop *loop;
    struct curl_library *library;
    struct http_client *client;
    struct blob *blob;
    char *words[WORDS_MAX];

    /* of the order under way */
    size_t waiting, failed;
    struct sha256 *hash;
    uint64_t size, sent, seed, got, whole;
    bool is_dropped;
    unsigned pieces, drains;
    struct blob_put *put;
    struct blob_get *get;
    struct loop_timer *timer;
};

static char hex[SHA256_HEX_BYTES];

/* A clock that is wrong: S3_CLOCK_S seconds ahead. */
int64_t __wrap_clock_wall_ns(void);
int64_t __real_clock_wall_ns(void);

int64_t __wrap_clock_wall_ns(void)
{
    const char *ahead_s = getenv("S3_CLOCK_S");
    return __real_clock_wall_ns() + (ahead_s ? strtoll(ahead_s, NULL, 10) * 1000000000ll : 0);
}

static const char *end_hash(struct peer *p)
{
    uint8_t out[SHA256_BYTES];
    sha256_end(p->hash, out);
    format_hex(out, sizeof(out), hex);
    return hex;
}

/* True: it went well, and an answer is to be printed. */
static bool is_over(struct peer *p, const struct error *err)
{
    p->waiting--;
    p->failed += err != NULL;
    if (p->waiting == 0)
        loop_stop(p->loop);
    if (err)
        printf("error %s %s %s | %s\n", error_info(err->code)->name, err->word ? err->word : "-",
               err->msg, err->hint);
    return !err;
}

static uint64_t number(const struct peer *p, size_t word)
{
    uint64_t value = 0;
    if (p->words[word])
        parse_u64(p->words[word], &value);
    return value;
}

/* --- put -------------------------------------------------------------------------------------- */

static void fill(struct peer *p, char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint64_t at = p->sent + i;
        data[i] = (char)((at * 2654435761u + (at >> 9) * 40503 + p->seed) >> 7);
    }
}

static void feed(void *ctx)
{
    struct peer *p = ctx;
    char data[STEP_BYTES];
    bool is_welcome = true;
    p->drains++;
    while (is_welcome && p->sent < p->size) {
        size_t len = MIN(sizeof(data), p->size - p->sent);
        fill(p, data, len);
        sha256_add(p->hash, data, len);
        p->sent += len;
        is_welcome = blob_put_write(p->put, data, len);
    }
    if (p->sent < p->size)
        return;
    if (!p->is_dropped) {
        blob_put_end(p->put);
        return;
    }
    blob_put_abort(p->put);
    end_hash(p);
    if (is_over(p, NULL))
        puts("ok");
}

static void on_put(void *ctx, const struct error *err)
{
    struct peer *p = ctx;
    if (is_over(p, err))
        printf("ok %s %u\n", end_hash(p), p->drains);
    else
        end_hash(p);
}

static void begin_put(struct peer *p, uint64_t told, bool is_dropped)
{
    p->is_dropped = is_dropped;
    p->size = number(p, 2);
    p->seed = number(p, 3);
    p->sent = 0;
    p->drains = 0;
    p->put = blob_put_open(
        p->blob,
        &(struct blob_put_order){
            .key = p->words[1], .size = told, .on_drain = feed, .on_done = on_put, .ctx = p});
    feed(p);
}

static void do_put(struct peer *p)
{
    begin_put(p, BLOB_SIZE_UNKNOWN, false);
}

static void do_sized(struct peer *p)
{
    begin_put(p, number(p, 2), false);
}

static void do_drop(struct peer *p)
{
    begin_put(p, BLOB_SIZE_UNKNOWN, true);
}

/* --- get -------------------------------------------------------------------------------------- */

static void on_resume(void *ctx)
{
    struct peer *p = ctx;
    loop_timer_free(take_ptr(&p->timer));
    blob_get_resume(p->get);
}

static void on_begin(void *ctx, const struct blob_info *info)
{
    struct peer *p = ctx;
    p->whole = info->size;
}

static void on_data(void *ctx, const void *data, size_t len)
{
    struct peer *p = ctx;
    sha256_add(p->hash, data, len);
    p->got += len;
    if (++p->pieces % PAUSE_EVERY == 0) {
        blob_get_pause(p->get);
        p->timer = loop_timer_new(p->loop, 1, on_resume, p);
    }
}

static void on_get(void *ctx, const struct error *err)
{
    struct peer *p = ctx;
    const char *hash = end_hash(p);
    if (is_over(p, err))
        printf("ok %s %llu %llu\n", hash, (unsigned long long)p->got, (unsigned long long)p->whole);
}

static void do_get(struct peer *p)
{
    p->got = p->whole = p->pieces = 0;
    p->get = blob_get_open(p->blob, &(struct blob_get_order){.key = p->words[1],
                                                             .offset = number(p, 2),
                                                             .length = number(p, 3),
                                                             .on_begin = on_begin,
                                                             .on_data = on_data,
                                                             .on_done = on_get,
                                                             .ctx = p});
}

static void on_first(void *ctx, const void *data, size_t len)
{
    struct peer *p = ctx;
    (void)data;
    (void)len;
    blob_get_abort(p->get);
    if (is_over(p, NULL))
        puts("ok");
}

static void do_leave(struct peer *p)
{
    p->get = blob_get_open(
        p->blob, &(struct blob_get_order){
                     .key = p->words[1], .on_data = on_first, .on_done = on_get, .ctx = p});
}

/* --- from one into another: the writer stops the reader -----------------------------------------
 */

static void on_room(void *ctx)
{
    blob_get_resume(((struct peer *)ctx)->get);
}

static void on_copied(void *ctx, const struct error *err)
{
    if (is_over(ctx, err))
        puts("ok");
}

static void on_piece(void *ctx, const void *data, size_t len)
{
    struct peer *p = ctx;
    if (!blob_put_write(p->put, data, len))
        blob_get_pause(p->get);
}

static void on_read(void *ctx, const struct error *err)
{
    struct peer *p = ctx;
    if (!err) {
        blob_put_end(p->put);
        return;
    }
    blob_put_abort(p->put);
    is_over(p, err);
}

static void do_copy(struct peer *p)
{
    p->put = blob_put_open(p->blob, &(struct blob_put_order){.key = p->words[2],
                                                             .size = BLOB_SIZE_UNKNOWN,
                                                             .on_drain = on_room,
                                                             .on_done = on_copied,
                                                             .ctx = p});
    p->get = blob_get_open(
        p->blob, &(struct blob_get_order){
                     .key = p->words[1], .on_data = on_piece, .on_done = on_read, .ctx = p});
}

/* --- the rest --------------------------------------------------------------------------------- */

static void on_stat(void *ctx, const struct error *err, const struct blob_info *info)
{
    if (is_over(ctx, err))
        printf("ok %llu %s %lld\n", (unsigned long long)info->size, info->etag,
               (long long)(info->modified_ns / 1000000000));
}

static void do_stat(struct peer *p)
{
    blob_stat(p->blob, p->words[1], on_stat, p);
}

static void on_removed(void *ctx, const struct error *err)
{
    if (is_over(ctx, err))
        puts("ok");
}

static void do_rm(struct peer *p)
{
    blob_remove(p->blob, p->words[1], on_removed, p);
}

static void on_list(void *ctx, const struct error *err, const struct blob_page *page)
{
    if (!is_over(ctx, err))
        return;
    printf("ok %d", page->has_more);
    for (size_t i = 0; i < page->count; i++)
        printf(" %s", page->entries[i].key);
    puts("");
}

static const char *word_or(const struct peer *p, size_t i, const char *other)
{
    return p->words[i] && strcmp(p->words[i], "-") != 0 ? p->words[i] : other;
}

static void do_ls(struct peer *p)
{
    const struct blob_list_order order = {
        .prefix = word_or(p, 1, ""), .after = word_or(p, 2, NULL), .limit = (size_t)number(p, 3)};
    blob_list(p->blob, &order, on_list, p);
}

static void do_sign(struct peer *p)
{
    scoped_strbuf struct strbuf url;
    strbuf_init(&url, URL_BYTES);
    const struct blob_presign_order order = {.method =
                                                 strcmp(p->words[1], "put") ? BLOB_GET : BLOB_PUT,
                                             .key = p->words[2],
                                             .expires_s = (unsigned)number(p, 3)};
    blob_presign(p->blob, &order, &url);
    p->waiting = 0;
    printf("ok %s\n", strbuf_str(&url));
}

static void do_health(struct peer *p)
{
    struct blob_health health;
    blob_get_health(p->blob, &health);
    p->waiting = 0;
    printf("ok %d %llu %s\n", health.is_failing, (unsigned long long)health.retried, health.why);
}

static void on_one(void *ctx, const struct error *err)
{
    struct peer *p = ctx;
    p->failed += err != NULL;
    if (--p->waiting > 0)
        return;
    loop_stop(p->loop);
    printf("ok %zu\n", p->failed);
}

static void do_crowd(struct peer *p)
{
    size_t size = (size_t)number(p, 3);
    scoped_free char *data = xcalloc(1, size);
    p->waiting = (size_t)number(p, 2);
    p->failed = 0;
    for (size_t i = 0; i < (size_t)number(p, 2); i++) {
        scoped_free char *key = xasprintf("%s%zu", p->words[1], i);
        struct blob_put *put = blob_put_open(
            p->blob,
            &(struct blob_put_order){.key = key, .size = size, .on_done = on_one, .ctx = p});
        blob_put_write(put, data, size);
        blob_put_end(put);
    }
}

static const struct {
    const char *name;
    void (*run)(struct peer *p);
} orders[] = {
    {"put", do_put},     {"sized", do_sized}, {"drop", do_drop},     {"get", do_get},
    {"leave", do_leave}, {"copy", do_copy},   {"stat", do_stat},     {"rm", do_rm},
    {"ls", do_ls},       {"sign", do_sign},   {"health", do_health}, {"crowd", do_crowd},
};

static void carry_out(struct peer *p, char *line)
{
    char *save = NULL;
    memset(p->words, 0, sizeof(p->words));
    for (size_t i = 0; i < WORDS_MAX; i++)
        p->words[i] = strtok_r(i ? NULL : line, " \n", &save);
    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        if (!p->words[0] || strcmp(orders[i].name, p->words[0]) != 0)
            continue;
        p->waiting = 1;
        orders[i].run(p);
        while (p->waiting > 0)
            loop_run(p->loop);
        fflush(stdout);
        return;
    }
    puts("error unknown order");
}

/* --- where it is kept ------------------------------------------------------------------------- */

static uint64_t setting(const char *name)
{
    uint64_t value = 0;
    const char *text = getenv(name);
    if (text)
        parse_u64(text, &value);
    return value;
}

static int open_s3(struct peer *p, struct error *err)
{
    const struct http_client_config config = {
        .ca_file = getenv("S3_CA"), .connect_ms = 2000, .stall_s = setting("S3_STALL_S")};
    const char *style = getenv("S3_ADDRESSING");
    const struct s3_order order = {
        .endpoint = getenv("S3_ENDPOINT"),
        .bucket = getenv("S3_BUCKET"),
        .region = getenv("S3_REGION"),
        .access_key = getenv("S3_ACCESS_KEY"),
        .secret_key = getenv("S3_SECRET_KEY"),
        .session_token = getenv("S3_SESSION_TOKEN"),
        .prefix = getenv("S3_PREFIX"),
        .addressing =
            style && strcmp(style, "virtual") == 0 ? S3_ADDRESSING_VIRTUAL : S3_ADDRESSING_AUTO,
        .pause_ms = setting("S3_PAUSE_MS"),
        .attempts = (unsigned)setting("S3_ATTEMPTS"),
    };
    return s3_check(&order, err) < 0 || curl_library_open(&p->library, err) < 0 ||
                   http_client_open(&p->client, p->loop, p->library, &config, err) < 0 ||
                   s3_open(&p->blob, p->loop, p->client, &order, err) < 0
               ? -1
               : 0;
}

static int open_blob(struct peer *p, int argc, char **argv, struct error *err)
{
    if (loop_open(&p->loop, err) < 0)
        return -1;
    if (argc > 2 && strcmp(argv[1], "disk") == 0)
        return disk_open(&p->blob, p->loop, &(struct disk_order){.dir = argv[2]}, err);
    return open_s3(p, err);
}

int main(int argc, char **argv)
{
    struct peer p = {.hash = sha256_new()};
    struct error err;
    char *line = NULL;
    size_t room = 0;
    signal(SIGPIPE, SIG_IGN);
    if (open_blob(&p, argc, argv, &err) < 0) {
        printf("error %s - %s | %s\n", error_info(err.code)->name, err.msg, err.hint);
        return 1;
    }
    puts("ready");
    fflush(stdout);
    while (getline(&line, &room, stdin) > 0)
        carry_out(&p, line);
    free(line);
    blob_free(p.blob);
    http_client_free(p.client);
    curl_library_free(p.library);
    loop_free(p.loop);
    sha256_free(p.hash);
    return 0;
}
