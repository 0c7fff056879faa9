/* test_store_model.c - thousands of calls at random, judged by a model of what was asked and told
 *
 * Ends are told from a ledger, small writes are committed by the loop and large groups by a thread.
 * Whoever asks must see none of it: writes happen in the order in which they were asked for, and
 * what was told is found. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store_world.h"

#define THINGS     600
#define WINDOW     16 /* of things that calls are about at a time */
#define CALLS_EACH 6  /* before the window moves on by one */
#define BATCH_MAX  24 /* calls in one turn */

enum life { ABSENT, LIVE, ENDED };

/* An execution. Its life only goes on, so what is found lies between what was told before and what
 * was asked for by then. */
struct thing {
    enum life asked, told;
    size_t told_at;  /* the number of the answer that told it last */
    bool is_written; /* somebody tried to */
    bool is_kept;
};

/* A session, to which executions belong once it was told. */
struct home {
    enum life asked, told;
};

struct model {
    struct world w;
    unsigned seed, state;         /* of its chance */
    size_t answers, open, enough; /* calls without an answer: all, and when to stop waiting */
    struct thing things[THINGS];
    struct home homes[THINGS];
};

struct question {
    struct model *m;
    const char *what;
    size_t thing;
    int expected;     /* an error's code, or -1 */
    enum life after;  /* what is told with it */
    enum life before; /* told when it was asked */
    size_t asked_at;
};

static void id_of(char out[static 32], size_t thing)
{
    snprintf(out, 32, "exe_%zu", thing);
}

/* NULL: it has none yet. */
static const char *home_of(char out[static 32], const struct model *m, size_t thing)
{
    snprintf(out, 32, "ses_%zu", thing);
    return m->homes[thing].told == ABSENT ? NULL : out;
}

static void answered(struct question *q)
{
    struct model *m = q->m;
    m->answers++;
    if (--m->open <= m->enough)
        loop_stop(m->w.loop);
    free(q);
}

static void on_write(void *ctx, const struct store_answer *answer)
{
    struct question *q = ctx;
    struct model *m = q->m;
    struct thing *t = &m->things[q->thing];
    int code = answer->err ? (int)answer->err->code : -1;
    if (code != q->expected)
        fail_msg("seed %u: %s of %zu: %d (%s), not %d", m->seed, q->what, q->thing, code,
                 answer->err ? answer->err->msg : "done", q->expected);
    if (t->told < q->after) {
        t->told = q->after;
        t->told_at = m->answers;
    }
    answered(q);
}

static enum life life_of(const struct store_execution *e)
{
    return e->state == STORE_EXECUTION_QUEUED || e->state == STORE_EXECUTION_RUNNING ? LIVE : ENDED;
}

static void on_get(void *ctx, const struct store_answer *answer)
{
    struct question *q = ctx;
    const struct thing *t = &q->m->things[q->thing];
    enum life found = answer->count == 1 ? life_of(answer->executions) : ABSENT;
    if (found < q->before || found > t->asked)
        fail_msg("seed %u: %zu was found as %d; told %d, asked for %d", q->m->seed, q->thing, found,
                 q->before, t->asked);
    answered(q);
}

static void on_list(void *ctx, const struct store_answer *answer)
{
    struct question *q = ctx;
    assert_null(answer->err);
    for (size_t i = 0; i < answer->count; i++) {
        size_t thing = strtoul(answer->executions[i].id + strlen("exe_"), NULL, 10);
        const struct thing *t = &q->m->things[thing];
        if (t->asked == ABSENT || (t->told == ENDED && t->told_at < q->asked_at))
            fail_msg("seed %u: %zu is listed as live; told %d", q->m->seed, thing, t->told);
    }
    answered(q);
}

static void on_home_written(void *ctx, const struct store_answer *answer)
{
    struct question *q = ctx;
    struct home *h = &q->m->homes[q->thing];
    int code = answer->err ? (int)answer->err->code : -1;
    if (code != q->expected)
        fail_msg("seed %u: %s of session %zu: %d (%s), not %d", q->m->seed, q->what, q->thing, code,
                 answer->err ? answer->err->msg : "done", q->expected);
    if (h->told < q->after)
        h->told = q->after;
    answered(q);
}

static void on_home(void *ctx, const struct store_answer *answer)
{
    struct question *q = ctx;
    const struct home *h = &q->m->homes[q->thing];
    enum life found = answer->count == 0 ? ABSENT : answer->sessions->ended_ns ? ENDED : LIVE;
    if (found < q->before || found > h->asked)
        fail_msg("seed %u: session %zu was found as %d; told %d, asked for %d", q->m->seed,
                 q->thing, found, q->before, h->asked);
    answered(q);
}

/* --- the calls ------------------------------------------------------------------------------- */

static struct question *ask_about(struct model *m, const char *what, size_t thing)
{
    struct question *q = xcalloc(1, sizeof(*q));
    *q = (struct question){.m = m,
                           .what = what,
                           .thing = thing,
                           .expected = -1,
                           .before = m->things[thing].told,
                           .asked_at = m->answers};
    m->open++;
    return q;
}

static void ask_get(struct model *m, size_t thing)
{
    char id[32];
    id_of(id, thing);
    store_get_execution(m->w.store, &(struct store_name){.id = id}, on_get,
                        ask_about(m, "get", thing));
}

static void ask_list(struct model *m, size_t thing)
{
    store_list_executions(m->w.store,
                          &(struct store_filter){.is_live = true, .limit = STORE_PAGE_MAX}, on_list,
                          ask_about(m, "list", thing));
}

/* A write and what it makes of the model. */
static struct question *ask_write(struct model *m, const char *what, size_t thing, int expected,
                                  enum life after)
{
    struct question *q = ask_about(m, what, thing);
    struct thing *t = &m->things[thing];
    q->expected = expected;
    q->after = expected < 0 ? after : ABSENT;
    t->asked = expected < 0 && t->asked < after ? after : t->asked;
    t->is_written = true;
    return q;
}

/* One that was told early is never added by a second who made up the same id. */
static void ask_add(struct model *m, size_t thing)
{
    char id[32];
    if (m->things[thing].is_kept) {
        ask_get(m, thing);
        return;
    }
    id_of(id, thing);
    char home[32];
    struct store_execution e = an_execution(id, home_of(home, m, thing));
    int expected = m->things[thing].asked == ABSENT ? -1 : (int)ERROR_CONFLICT;
    store_add_execution(m->w.store, &e, on_write, ask_write(m, "add", thing, expected, LIVE));
}

/* Its id is new: nobody else can have asked for it. */
static void ask_keep(struct model *m, size_t thing)
{
    char id[32];
    if (m->things[thing].is_written) {
        ask_get(m, thing);
        return;
    }
    id_of(id, thing);
    char home[32];
    struct store_execution e = an_execution(id, home_of(home, m, thing));
    e.state = STORE_EXECUTION_COMPLETED;
    e.ended_ns = 7;
    m->things[thing].is_kept = true;
    store_keep_execution(m->w.store, &e, on_write, ask_write(m, "keep", thing, -1, ENDED));
}

static void ask_change(struct model *m, size_t thing)
{
    static const int expected[] = {
        [ABSENT] = ERROR_NOT_FOUND, [LIVE] = -1, [ENDED] = ERROR_CONFLICT};
    char id[32];
    id_of(id, thing);
    const struct store_execution_change end = {
        .id = id, .node = "here", .epoch = 1, .to = STORE_EXECUTION_COMPLETED, .ended_ns = 8};
    store_change_execution(m->w.store, &end, on_write,
                           ask_write(m, "change", thing, expected[m->things[thing].asked], ENDED));
}

static void ask_artifact(struct model *m, size_t thing)
{
    char id[32];
    id_of(id, thing);
    const struct store_artifact left = {.execution_id = id, .path = "a", .size = 5};
    int expected = m->things[thing].asked == ABSENT ? (int)ERROR_NOT_FOUND : -1;
    store_put_artifact(m->w.store, &left, on_write,
                       ask_write(m, "artifact", thing, expected, ABSENT));
}

static void ask_home(struct model *m, size_t thing)
{
    char id[32];
    home_of(id, m, thing);
    struct question *q = ask_about(m, "get", thing);
    q->before = m->homes[thing].told;
    store_get_session(m->w.store, &(struct store_name){.id = id}, on_home, q);
}

/* As above: its id is new. */
static void ask_keep_home(struct model *m, size_t thing)
{
    char id[32];
    if (m->homes[thing].asked != ABSENT) {
        ask_home(m, thing);
        return;
    }
    home_of(id, m, thing);
    struct store_session s = a_session(id);
    struct question *q = ask_about(m, "keep", thing);
    m->homes[thing].asked = q->after = LIVE;
    store_keep_session(m->w.store, &s, on_home_written, q);
}

static void ask_end_home(struct model *m, size_t thing)
{
    char id[32];
    if (m->homes[thing].asked != LIVE) {
        ask_home(m, thing);
        return;
    }
    home_of(id, m, thing);
    const struct store_session_change end = {
        .id = id, .to = STORE_SESSION_TERMINATED, .ended_ns = 8};
    struct question *q = ask_about(m, "end", thing);
    m->homes[thing].asked = q->after = ENDED;
    store_change_session(m->w.store, &end, on_home_written, q);
}

/* Each as often as it stands here. */
static void (*const calls[])(struct model *m, size_t thing) = {
    ask_add, ask_add,    ask_keep,   ask_keep,     ask_keep, ask_keep,      ask_home,
    ask_get, ask_change, ask_change, ask_artifact, ask_list, ask_keep_home, ask_end_home,
};

/* --- the test -------------------------------------------------------------------------------- */

static size_t any(struct model *m, size_t below)
{
    return (size_t)rand_r(&m->state) % below;
}

/* Not always for all: the next turn's calls come while the lanes are at work. */
static void wait_until(struct model *m, size_t enough)
{
    m->enough = enough;
    while (m->open > enough)
        loop_run(m->w.loop);
}

static void test_random(struct model *m, unsigned seed)
{
    m->seed = m->state = seed;
    for (size_t number = 0; number < (THINGS - WINDOW) * CALLS_EACH; number++) {
        size_t thing = number / CALLS_EACH + any(m, WINDOW);
        calls[any(m, ARRAY_LEN(calls))](m, thing);
        if (any(m, BATCH_MAX) == 0)
            wait_until(m, any(m, m->open + 1));
    }
    wait_until(m, 0);
    world_reopen(&m->w);
    for (size_t i = 0; i < THINGS; i++) {
        assert_int_equal(m->things[i].told, m->things[i].asked);
        assert_int_equal(m->homes[i].told, m->homes[i].asked);
        ask_get(m, i);
        ask_home(m, i);
        wait_until(m, 0);
    }
}

static void test_model(void **state)
{
    (void)state;
    struct store_info info;
    const char *is_long = getenv("COVE_TEST_LONG");
    for (unsigned seed = 1; seed <= (is_long && *is_long ? 400 : 8); seed++) {
        scoped_free struct model *m = xcalloc(1, sizeof(*m));
        world_open(&m->w);
        test_random(m, seed);
        store_get_info(m->w.store, &info);
        assert_int_equal(info.dropped, 0);
        world_close(&m->w);
    }
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "every answer fits what was asked and told", test_model);
    return check_run(&check, "store_model");
}
