/* store.c - what writing before telling costs: writes per second and latency of the store
 *
 *   bench-store [--sync full] [--dir DIR] [--seconds N]
 *
 * Clients that each have one write under way, 1 to 512 of them; one is a session added, made busy,
 * made ready again and ended, in turn. Beside it, reads of one record while nothing is written. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "event/loop.h"
#include "store/sqlite.h"

#define CLIENTS_MAX 512
#define SAMPLES_MAX 4000000

struct client {
    struct bench *bench;
    int number, step;
    char id[32];
    int64_t start_ns;
};

struct bench {
    struct loop *loop;
    struct store *store;
    int64_t end_ns;
    size_t under_way;
    bool is_reading;
    int next_number;
    uint32_t *samples; /* us */
    size_t count;
    struct client clients[CLIENTS_MAX];
};

static const enum store_session_state steps[] = {STORE_SESSION_CREATING, STORE_SESSION_BUSY,
                                                 STORE_SESSION_READY, STORE_SESSION_TERMINATED};

static void client_next(struct client *c);

static void on_answer(void *ctx, const struct store_answer *answer)
{
    struct client *c = ctx;
    struct bench *b = c->bench;
    int64_t now = clock_now_ns();
    if (answer->err) {
        fprintf(stderr, "bench-store: %s\n", answer->err->msg);
        exit(1);
    }
    if (b->count < SAMPLES_MAX)
        b->samples[b->count++] = (uint32_t)((now - c->start_ns) / 1000);
    if (now < b->end_ns)
        client_next(c);
    else if (--b->under_way == 0)
        loop_stop(b->loop);
}

static void client_write(struct client *c)
{
    if (c->step == 0)
        snprintf(c->id, sizeof(c->id), "ses_%d", c->bench->next_number++);
    const struct store_session s = {
        .id = c->id,
        .owner = "key_a",
        .state = STORE_SESSION_READY,
        .language = "python",
        .node = "here",
        .epoch = 1,
        .takes = {1, 500, 256 * MIB, 128 * MIB},
        .created_ns = c->start_ns,
        .doc = "{\"network\":{\"policy\":\"none\"},\"env\":{},\"timings\":{\"create_ms\":0.2}}"};
    const struct store_session_change change = {
        .id = c->id,
        .node = "here",
        .epoch = 1,
        .to = steps[c->step],
        .last_used_ns = c->start_ns,
        .ended_ns = steps[c->step] == STORE_SESSION_TERMINATED ? c->start_ns : 0};
    if (c->step == 0)
        store_add_session(c->bench->store, &s, on_answer, c);
    else
        store_change_session(c->bench->store, &change, on_answer, c);
    c->step = (c->step + 1) % 4;
}

static void client_next(struct client *c)
{
    c->start_ns = clock_now_ns();
    if (c->bench->is_reading)
        store_get_session(c->bench->store, &(struct store_name){.id = c->id}, on_answer, c);
    else
        client_write(c);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void run(struct bench *b, size_t clients, uint64_t seconds)
{
    struct store_info before, after;
    store_get_info(b->store, &before);
    b->count = 0;
    b->under_way = clients;
    int64_t begin = clock_now_ns();
    b->end_ns = begin + (int64_t)seconds * 1000000000;
    for (size_t i = 0; i < clients; i++) {
        b->clients[i].bench = b;
        client_next(&b->clients[i]);
    }
    loop_run(b->loop);
    double took = (double)(clock_now_ns() - begin) / 1e9;
    store_get_info(b->store, &after);
    qsort(b->samples, b->count, sizeof(b->samples[0]), compare);
    uint64_t commits = after.commits - before.commits;
    printf("%-6s %8zu %10.0f %8u %8u %8u %8.1f\n", b->is_reading ? "read" : "write", clients,
           (double)b->count / took, b->samples[b->count / 2], b->samples[b->count * 99 / 100],
           b->samples[b->count - 1],
           commits ? (double)(after.written - before.written) / (double)commits : 0);
}

static int bench_open(struct bench *b, const struct store_order *order)
{
    struct error err;
    if (loop_open(&b->loop, &err) < 0 ||
        store_open(&b->store, b->loop, &sqlite_ops, order, &err) < 0) {
        fprintf(stderr, "bench-store: %s\n", err.msg);
        return -1;
    }
    b->samples = xmalloc(SAMPLES_MAX * sizeof(b->samples[0]));
    return 0;
}

int main(int argc, char **argv)
{
    static struct bench b;
    static const size_t clients[] = {1, 8, 64, 512};
    struct store_order order = {.sync = STORE_SYNC_NORMAL};
    const char *dir = "/tmp";
    uint64_t seconds = 3;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--sync") == 0 && strcmp(argv[i + 1], "full") == 0)
            order.sync = STORE_SYNC_FULL;
        else if (strcmp(argv[i], "--dir") == 0)
            dir = argv[i + 1];
        else if (strcmp(argv[i], "--seconds") != 0 || !parse_u64(argv[i + 1], &seconds))
            return 2;
    }
    scoped_free char *folder = xasprintf("%s/bench-store-XXXXXX", dir);
    if (!mkdtemp(folder))
        return 1;
    scoped_free char *path = xasprintf("%s/cove.db", folder);
    order.place = path;
    if (bench_open(&b, &order) < 0)
        return 1;
    printf("%-6s %8s %10s %8s %8s %8s %8s\n", "", "clients", "per s", "p50 us", "p99 us", "max us",
           "group");
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        run(&b, clients[i], seconds);
    b.is_reading = true;
    run(&b, 1, seconds);
    run(&b, 64, seconds);
    store_free(b.store);
    loop_free(b.loop);
    free(b.samples);
    unlink(path);
    scoped_free char *lock = xasprintf("%s.lock", path);
    unlink(lock);
    rmdir(folder);
    return 0;
}
