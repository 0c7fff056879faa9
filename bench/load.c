/* load.c - asks an HTTP server as often as it can, or at a pace, and tells how long answers took
 *
 *   bench-load --port N --path P [--path P...] [--method M] [--body JSON] [--token T]
 *              [--clients N] [--seconds S] [--pace MS] [--delete PREFIX] [--streams]
 *
 * One thread, one connection for each client, kept alive; client i asks for path i. Prints one line
 * of JSON. With --delete, what each answer has created (its "id") is removed again, outside of what
 * is measured. With --streams each client reads one stream of events to its `ended`. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/scoped.h"
#include "base/strbuf.h"

#define SAMPLES_MAX     8000000
#define ANSWER_MAX      (64 * MIB)
#define REQUEST_MAX     (4 * MIB)
#define EVENTS_MAX      256
#define MS_NS           1000000ll
#define STREAM_WAIT_S   60
#define LAST_ANSWERS_NS (10 * 1000 * MS_NS)

struct options {
    uint64_t port, clients, seconds_ms, pace_ms;
    char *method, *body, *token, *remove;
    struct option_list paths;
    bool streams;
};

#define AT(field) offsetof(struct options, field)
/* clang-format off */
static const struct option_row rows[] = {
    {.name = "port", .type = OPTION_U64, .offset = AT(port), .min = 1, .max = 65535, .help = "Of the server"},
    {.name = "path", .type = OPTION_LIST, .offset = AT(paths), .help = "What is asked for"},
    {.name = "method", .type = OPTION_STRING, .offset = AT(method), .preset = "GET", .help = "How"},
    {.name = "body", .type = OPTION_STRING, .offset = AT(body), .help = "With which body"},
    {.name = "token", .type = OPTION_STRING, .offset = AT(token), .help = "With which token"},
    {.name = "clients", .type = OPTION_U64, .offset = AT(clients), .preset = "1", .min = 1, .max = 5000, .help = "At a time"},
    {.name = "seconds", .type = OPTION_DURATION_MS, .offset = AT(seconds_ms), .preset = "3", .help = "For how long"},
    {.name = "pace", .type = OPTION_U64, .offset = AT(pace_ms), .preset = "0", .help = "Milliseconds from one answer to the next request"},
    {.name = "delete", .type = OPTION_STRING, .offset = AT(remove), .help = "Below which path what was created is removed"},
    {.name = "streams", .type = OPTION_BOOL, .offset = AT(streams), .help = "Read streams of events"},
};
/* clang-format on */

struct peer {
    int fd;
    char *request; /* owned */
    size_t request_len;
    struct strbuf in;
    int64_t begin_ns, next_ns; /* next_ns: when it asks again; 0: an answer is under way */
    bool is_removing;
    bool has_ended;
};

struct load {
    struct options options;
    int epoll;
    struct peer *peers;
    uint32_t *samples; /* us */
    size_t count, failed, events, ended;
    char *failure; /* the first answer that was none; owned */
    int64_t end_ns;
};

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

/* --- requests ----------------------------------------------------------------------------------
 */

static char *make_request(const struct options *o, const char *method, const char *path,
                          const char *body, size_t *len)
{
    struct strbuf text;
    strbuf_init(&text, REQUEST_MAX);
    strbuf_add_fmt(&text, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", method, path);
    if (o->token)
        strbuf_add_fmt(&text, "Authorization: Bearer %s\r\n", o->token);
    if (body)
        strbuf_add_fmt(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                       strlen(body));
    strbuf_add_fmt(&text, "\r\n%s", body ? body : "");
    *len = text.len;
    return strbuf_take(&text);
}

/* Requests are small: the socket takes them at once. */
static void send_text(struct peer *p, const char *text, size_t len)
{
    struct error err;
    strbuf_clear(&p->in);
    p->next_ns = 0;
    if (fd_write_all(p->fd, text, len, &err) < 0)
        die("write");
}

static void ask(struct peer *p)
{
    p->begin_ns = clock_now_ns();
    send_text(p, p->request, p->request_len);
}

static void open_peer(struct load *l, size_t number)
{
    struct peer *p = &l->peers[number];
    const struct options *o = &l->options;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)o->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};
    int one = 1;
    strbuf_init(&p->in, ANSWER_MAX);
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        die("connect");
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, p->fd, &event) < 0)
        die("epoll_ctl");
    p->request = make_request(o, o->method, o->paths.items[number % o->paths.count], o->body,
                              &p->request_len);
}

/* --- answers -----------------------------------------------------------------------------------
 */

/* Whether the whole answer is there; then *status is its. */
static bool is_whole(const struct strbuf *in, int *status)
{
    const char *text = strbuf_str(in), *end = strstr(text, "\r\n\r\n");
    if (!end)
        return false;
    const char *length = strcasestr(text, "\r\ncontent-length:");
    size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    *status = (int)strtol(text + strlen("HTTP/1.1 "), NULL, 10);
    return in->len >= (size_t)(end + 4 - text) + body;
}

static void count(struct load *l, struct peer *p, int status)
{
    if (clock_now_ns() >= l->end_ns)
        return;
    if (status >= 300) {
        l->failed++;
        if (!l->failure)
            l->failure = xstrdup(strbuf_str(&p->in));
    } else if (l->count < SAMPLES_MAX) {
        l->samples[l->count++] = (uint32_t)((clock_now_ns() - p->begin_ns) / 1000);
    }
}

/* Asks the server to remove what it has just made. */
static bool remove_made(struct load *l, struct peer *p)
{
    const char *id = strstr(strbuf_str(&p->in), "\"id\":\"");
    if (!l->options.remove || !id)
        return false;
    id += strlen("\"id\":\"");
    size_t len;
    scoped_free char *path = xasprintf("%s%.*s", l->options.remove, (int)strcspn(id, "\""), id);
    scoped_free char *request = make_request(&l->options, "DELETE", path, NULL, &len);
    send_text(p, request, len);
    return true;
}

static void on_answer(struct load *l, struct peer *p, int status)
{
    if (p->is_removing) {
        p->is_removing = false;
    } else {
        count(l, p, status);
        p->is_removing = remove_made(l, p);
        if (p->is_removing)
            return;
    }
    int64_t now = clock_now_ns();
    if (now >= l->end_ns)
        l->ended++;
    else if (l->options.pace_ms > 0)
        p->next_ns = now + (int64_t)l->options.pace_ms * MS_NS;
    else
        ask(p);
}

/* Counts what begins as an event does; what is read is dropped but for its end. */
static void read_events(struct load *l, struct peer *p)
{
    static const char mark[] = "event: ", last[] = "event: ended";
    const char *text = strbuf_str(&p->in), *at = text;
    size_t kept = 0;
    while ((at = memmem(at, p->in.len - (size_t)(at - text), mark, strlen(mark)))) {
        size_t left = p->in.len - (size_t)(at - text);
        if (left < strlen(last)) { /* which one it is comes with the next bytes */
            kept = left;
            break;
        }
        l->events++;
        p->has_ended = p->has_ended || memcmp(at, last, strlen(last)) == 0;
        at += strlen(mark);
    }
    kept = MIN(MAX(kept, strlen(mark) - 1), p->in.len);
    memmove(p->in.data, p->in.data + p->in.len - kept, kept);
    p->in.len = kept;
}

static void end_stream(struct load *l, struct peer *p)
{
    l->ended++;
    l->failed += !p->has_ended;
    epoll_ctl(l->epoll, EPOLL_CTL_DEL, p->fd, NULL);
}

static void on_readable(struct load *l, struct peer *p)
{
    char bytes[65536];
    int status;
    ssize_t n = read(p->fd, bytes, sizeof(bytes));
    if (n <= 0 && !l->options.streams)
        die("the server has closed a connection");
    if (n > 0)
        strbuf_add(&p->in, bytes, (size_t)n);
    if (!l->options.streams) {
        if (is_whole(&p->in, &status))
            on_answer(l, p, status);
        return;
    }
    read_events(l, p);
    if (n <= 0 || p->has_ended)
        end_stream(l, p);
}

/* --- the run -----------------------------------------------------------------------------------
 */

/* Asks what is due; answers how long nothing is, in ms. */
static int ask_due(struct load *l)
{
    int64_t now = clock_now_ns(), next = now + 100 * MS_NS;
    for (size_t i = 0; i < l->options.clients && l->options.pace_ms > 0; i++) {
        struct peer *p = &l->peers[i];
        if (!p->next_ns)
            continue;
        if (now >= l->end_ns) {
            p->next_ns = 0;
            l->ended++;
        } else if (p->next_ns <= now) {
            ask(p);
        } else {
            next = MIN(next, p->next_ns);
        }
    }
    return (int)((next - now + MS_NS - 1) / MS_NS);
}

/* To the end, and until all has been answered: a server ends what nobody waits for any more, and
 * who asks next would find it busy with that. */
static void run(struct load *l)
{
    struct epoll_event events[EVENTS_MAX];
    while (clock_now_ns() < l->end_ns + LAST_ANSWERS_NS && l->ended < l->options.clients) {
        int n = epoll_wait(l->epoll, events, EVENTS_MAX, ask_due(l));
        for (int i = 0; i < n; i++)
            on_readable(l, events[i].data.ptr);
    }
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static double at_part(const struct load *l, double part)
{
    return l->count ? l->samples[(size_t)((double)(l->count - 1) * part)] / 1000.0 : 0;
}

static void print(struct load *l, double seconds)
{
    qsort(l->samples, l->count, sizeof(l->samples[0]), compare);
    if (l->failure)
        fprintf(stderr, "bench-load: %s\n", l->failure);
    printf("{\"clients\": %" PRIu64 ", \"requests\": %zu, \"failed\": %zu, \"seconds\": %.3f, "
           "\"per_second\": %.1f, \"min_ms\": %.3f, \"p50_ms\": %.3f, \"p99_ms\": %.3f, "
           "\"max_ms\": %.3f, \"events\": %zu, \"ended\": %zu}\n",
           l->options.clients, l->count, l->failed, seconds, (double)l->count / seconds,
           at_part(l, 0), at_part(l, 0.5), at_part(l, 0.99), at_part(l, 1), l->events, l->ended);
}

static void release(struct load *l)
{
    for (size_t i = 0; i < l->options.clients; i++) {
        close(l->peers[i].fd);
        strbuf_release(&l->peers[i].in);
        free(l->peers[i].request);
    }
    close(l->epoll);
    free(l->peers);
    free(l->samples);
    free(l->failure);
}

int main(int argc, char **argv)
{
    static struct load l;
    struct error err;
    struct option_set set;
    struct option_set *const sets[] = {&set};
    int left = argc - 1;
    option_set_init(&set, rows, ARRAY_LEN(rows), &l.options);
    if (option_apply_flags(sets, 1, &left, argv + 1, false, &err) < 0 || left > 0 ||
        l.options.port == 0 || l.options.paths.count == 0) {
        fprintf(stderr, "bench-load: %s\n", left > 0 ? argv[1] : "--port and --path are needed");
        return 2;
    }
    option_apply_presets(&set);
    l.epoll = epoll_create1(EPOLL_CLOEXEC);
    l.peers = xcalloc(l.options.clients, sizeof(*l.peers));
    l.samples = xmalloc(SAMPLES_MAX * sizeof(*l.samples));
    for (size_t i = 0; i < l.options.clients; i++)
        open_peer(&l, i);
    int64_t begin = clock_now_ns();
    l.end_ns =
        begin + (l.options.streams ? STREAM_WAIT_S * 1000 : (int64_t)l.options.seconds_ms) * MS_NS;
    for (size_t i = 0; i < l.options.clients; i++)
        ask(&l.peers[i]);
    run(&l);
    print(&l, (double)(MIN(clock_now_ns(), l.end_ns) - begin) / 1e9);
    release(&l);
    option_set_release(&set);
    return 0;
}
