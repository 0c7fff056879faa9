/* test_store_race.c - many who ask at once: quotas, attempts, the order of writes, a full queue */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "store_world.h"

struct outcome {
    struct world *world;
    int code; /* -1: done */
    bool is_mine;
};

static void on_outcome(void *ctx, const struct store_answer *answer)
{
    struct outcome *o = ctx;
    o->code = answer->err ? (int)answer->err->code : -1;
    o->is_mine = answer->count == 1 && answer->attempts->is_mine;
    world_on_answer(o->world, &(struct store_answer){0});
}

/* Asked for in the same instant, whoever comes first wins, and there is no third way. */
static void test_template_race(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct world w;
        world_open(&w);
        struct outcome add = {.world = &w}, remove = {.world = &w};
        struct store_session s = a_session("ses_1");
        const struct store_name name = {.id = "tpl_1"};
        s.template_id = "tpl_1";
        add_template(&w, "tpl_1", "python");
        w.waiting += 2;
        if (turn == 0)
            store_add_session(w.store, &s, on_outcome, &add);
        store_remove_template(w.store, &name, on_outcome, &remove);
        if (turn == 1)
            store_add_session(w.store, &s, on_outcome, &add);
        world_wait(&w);
        assert_int_equal(add.code, turn == 0 ? -1 : (int)ERROR_NOT_FOUND);
        assert_int_equal(remove.code, turn == 0 ? (int)ERROR_CONFLICT : -1);
        world_close(&w);
    }
}

/* --- quotas ---------------------------------------------------------------------------------- */

struct quota_case {
    const char *name;
    struct store_amounts quota;
    int fit; /* sessions of 500 milli-cores, 256 MiB and 128 MiB */
    const char *what;
};

static const struct quota_case quotas[] = {
    {"a quota of sessions", {.sessions = 3}, 3, "sessions"},
    {"a quota of cpu", {.cpu_milli = 1999}, 3, "milli-cores"},
    {"a quota of memory", {.memory_bytes = 512 * MIB}, 2, "memory"},
    {"a quota of disk", {.disk_bytes = 127 * MIB}, 0, "disk"},
    {"no quota", {0}, 5, ""},
};

static void test_quota(void **state)
{
    const struct quota_case *c = *state;
    struct world w;
    world_open(&w);
    struct store_key k = a_key("key_a");
    k.quota = c->quota;
    ask(&w, store_add_key, &k);
    for (int i = 0; i < 5; i++) {
        char id[16];
        snprintf(id, sizeof(id), "ses_%d", i);
        struct store_session s = a_session(id);
        ask(&w, store_add_session, &s);
        if (i < c->fit) {
            assert_done(&w);
            continue;
        }
        assert_refused(&w, ERROR_LIMIT);
        assert_non_null(strstr(w.err.msg, c->what));
    }
    if (c->fit > 0 && c->fit < 5) { /* what ends makes room */
        struct store_session s = a_session("ses_new");
        end_session(&w, "ses_0", 5);
        add_session(&w, &s);
    }
    world_close(&w);
}

static void test_revoked(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_key k = a_key("key_a");
    k.revoked_ns = 5;
    ask(&w, store_add_key, &k);
    struct store_session s = a_session("ses_1");
    ask(&w, store_add_session, &s);
    assert_refused(&w, ERROR_DENIED);
    world_close(&w);
}

struct race {
    struct world *world;
    size_t done, refused, other;
};

static void on_race(void *ctx, const struct store_answer *answer)
{
    struct race *race = ctx;
    if (!answer->err)
        race->done++;
    else if (answer->err->code == ERROR_LIMIT)
        race->refused++;
    else
        race->other++;
    world_on_answer(race->world, &(struct store_answer){0});
}

/* Hundreds at once, in groups and across them: exactly as many as fit get in. */
static void test_quota_race(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct race race = {.world = &w};
    struct store_key k = a_key("key_a");
    k.quota.sessions = 37;
    ask(&w, store_add_key, &k);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 500; i++) {
            char id[32];
            snprintf(id, sizeof(id), "ses_%d_%d", round, i);
            struct store_session s = a_session(id);
            w.waiting++;
            store_add_session(w.store, &s, on_race, &race);
        }
        world_wait(&w);
        assert_int_equal(race.done, 37);
    }
    assert_int_equal(race.refused, 2000 - 37);
    assert_int_equal(race.other, 0);
    ask_for(&w, amounts, store_get_usage, &(struct store_name){.owner = "key_a"});
    assert_int_equal(row(&w, amounts, 0)->sessions, 37);
    assert_int_equal(row(&w, amounts, 0)->memory_bytes, 37 * 256 * MIB);
    world_close(&w);
}

/* --- attempts -------------------------------------------------------------------------------- */

static void test_attempt(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_attempt first = an_attempt("ses_1", 1), second = an_attempt("ses_2", 1);
    ask_for(&w, attempt, store_begin_attempt, &first);
    assert_done(&w);
    assert_true(row(&w, attempt, 0)->is_mine);
    assert_string_equal(row(&w, attempt, 0)->resource, "ses_1");
    ask_for(&w, attempt, store_begin_attempt, &second); /* while the first goes on */
    assert_done(&w);
    assert_false(row(&w, attempt, 0)->is_mine);
    assert_int_equal(row(&w, attempt, 0)->state, STORE_ATTEMPT_UNDER_WAY);

    first.status = 201;
    first.response = "{\"id\":\"ses_1\"}";
    ask(&w, store_end_attempt, &first);
    assert_done(&w);
    ask_for(&w, attempt, store_begin_attempt, &second);
    assert_false(row(&w, attempt, 0)->is_mine);
    assert_int_equal(row(&w, attempt, 0)->state, STORE_ATTEMPT_DONE);
    assert_int_equal(row(&w, attempt, 0)->status, 201);
    assert_string_equal(row(&w, attempt, 0)->response, "{\"id\":\"ses_1\"}");
    ask(&w, store_end_attempt, &first); /* it has ended */
    assert_refused(&w, ERROR_CONFLICT);
    world_close(&w);
}

static void test_attempt_race(void **state)
{
    (void)state;
    struct world w;
    static struct outcome outcomes[100];
    size_t mine = 0;
    world_open(&w);
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        char id[16];
        snprintf(id, sizeof(id), "ses_%zu", i);
        struct store_attempt a = an_attempt(id, 1);
        outcomes[i] = (struct outcome){.world = &w};
        w.waiting++;
        store_begin_attempt(w.store, &a, on_outcome, &outcomes[i]);
    }
    world_wait(&w);
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        assert_int_equal(outcomes[i].code, -1);
        mine += outcomes[i].is_mine;
    }
    assert_int_equal(mine, 1);
    world_close(&w);
}

static void test_attempt_apart(void **state)
{
    (void)state;
    struct world w;
    static const uint8_t other_hash[STORE_HASH_BYTES] = {6};
    world_open(&w);
    struct store_attempt a = an_attempt("ses_1", 1);
    ask_for(&w, attempt, store_begin_attempt, &a);
    a.hash.data = other_hash;
    ask_for(&w, attempt, store_begin_attempt, &a);
    assert_refused(&w, ERROR_CONFLICT);
    const char *const places[][3] = {{"key_b", "POST /sessions", "k-1"},
                                     {"key_a", "POST /templates", "k-1"},
                                     {"key_a", "POST /sessions", "k-2"}};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        a = an_attempt("ses_9", 1);
        a.owner = places[i][0];
        a.route = places[i][1];
        a.key = places[i][2];
        ask_for(&w, attempt, store_begin_attempt, &a);
        assert_true(row(&w, attempt, 0)->is_mine);
    }
    world_close(&w);
}

static void test_attempt_again(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_attempt a = an_attempt("ses_1", 1);
    ask_for(&w, attempt, store_begin_attempt, &a);
    ask(&w, store_drop_attempt, &a);
    assert_done(&w);
    struct store_attempt b = an_attempt("ses_2", 1);
    ask_for(&w, attempt, store_begin_attempt, &b); /* dropped: the next is the first */
    assert_true(row(&w, attempt, 0)->is_mine);
    assert_string_equal(row(&w, attempt, 0)->resource, "ses_2");

    struct store_attempt c = an_attempt("ses_3", 2); /* the node has died and come back */
    ask_for(&w, attempt, store_begin_attempt, &c);
    assert_true(row(&w, attempt, 0)->is_mine);
    assert_string_equal(row(&w, attempt, 0)->resource, "ses_2");
    ask(&w, store_end_attempt, &b); /* the dead one's word comes too late */
    assert_refused(&w, ERROR_CONFLICT);
    ask(&w, store_end_attempt, &c);
    assert_done(&w);

    struct store_attempt d = an_attempt("ses_4", 2);
    d.created_ns = 2000; /* when the others have expired */
    d.expires_ns = 3000;
    ask_for(&w, attempt, store_begin_attempt, &d);
    assert_true(row(&w, attempt, 0)->is_mine);
    assert_string_equal(row(&w, attempt, 0)->resource, "ses_4");
    world_close(&w);
}

/* --- the queue ------------------------------------------------------------------------------- */

struct order {
    struct world *world;
    int number;
    int *last;
};

static void on_ordered(void *ctx, const struct store_answer *answer)
{
    struct order *o = ctx;
    assert_null(answer->err);
    assert_int_equal(o->number, *o->last + 1);
    *o->last = o->number;
    world_on_answer(o->world, &(struct store_answer){0});
}

/* Also that the callback does not come from inside the call, and that commits are shared. */
static void test_order(void **state)
{
    (void)state;
    struct world w;
    int last = -1;
    static struct order orders[1000];
    struct store_info info;
    world_open(&w);
    struct store_session s = a_session("ses_1");
    add_session(&w, &s);
    for (int i = 0; i < 1000; i++) {
        orders[i] = (struct order){&w, i, &last};
        w.waiting++;
        store_change_session(w.store,
                             &(struct store_session_change){.id = "ses_1",
                                                            .to = STORE_SESSION_READY,
                                                            .last_used_ns = 5000 + i},
                             on_ordered, &orders[i]);
        assert_int_equal(last, -1);
    }
    world_wait(&w);
    assert_int_equal(last, 999);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = "ses_1"});
    assert_int_equal(row(&w, session, 0)->last_used_ns, 5999);
    store_get_info(w.store, &info);
    assert_int_equal(info.written, 1001);
    assert_true(info.commits < 500);
    assert_int_equal(info.queued, 0);
    assert_false(info.is_failing);
    world_close(&w);
}

/* In one group: the one in the middle fails by itself. */
static void test_neighbours(void **state)
{
    (void)state;
    struct world w;
    struct race race = {.world = &w};
    world_open(&w);
    struct store_key k = a_key("key_a");
    k.quota.sessions = 2;
    store_add_key(w.store, &k, on_race, &race);
    struct store_session s[3] = {a_session("ses_1"), a_session("ses_2"), a_session("ses_3")};
    for (int i = 0; i < 3; i++)
        store_add_session(w.store, &s[i], on_race, &race);
    struct store_execution e = an_execution("exe_1", "ses_2");
    store_add_execution(w.store, &e, on_race, &race);
    w.waiting += 5;
    world_wait(&w);
    assert_int_equal(race.done, 4);
    assert_int_equal(race.refused, 1);
    world_close(&w);
}

/* All that was asked is answered by the end, and done. */
static void test_free_answers(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    for (int i = 0; i < 100; i++) {
        char id[16];
        snprintf(id, sizeof(id), "ses_%d", i);
        struct store_session s = a_session(id);
        w.waiting++;
        store_add_session(w.store, &s, world_on_answer, &w);
    }
    store_free(take_ptr(&w.store));
    assert_int_equal(w.waiting, 0);
    world_reopen(&w);
    ask_for(&w, session, store_list_sessions, &(struct store_filter){.limit = 200});
    assert_int_equal(w.count, 100);
    world_close(&w);
}

static void on_refused(void *ctx, const struct store_answer *answer)
{
    struct race *race = ctx;
    if (answer->err && answer->err->code == ERROR_UNAVAILABLE)
        race->refused++;
    else
        race->done++;
    world_on_answer(race->world, &(struct store_answer){0});
}

/* The lanes cannot keep up with a loop that only asks: the queue has an end, and says so. */
static void test_queue_full(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct race race = {.world = &w};
    for (size_t i = 0; i < STORE_QUEUE_MAX + 10; i++) {
        w.waiting++;
        store_get_session(w.store, &(struct store_name){.id = "ses_1", .owner = "key_a"},
                          on_refused, &race);
    }
    world_wait(&w);
    assert_int_equal(race.refused, 10); /* answered ones wait for the loop, and count */
    assert_int_equal(race.done, STORE_QUEUE_MAX);
    struct store_session s = a_session("ses_1");
    add_session(&w, &s);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "a template is used or removed, never both", test_template_race);
    check_rows(&check, quotas, test_quota);
    check_one(&check, "a revoked key opens no session", test_revoked);
    check_one(&check, "a quota cannot be raced", test_quota_race);
    check_one(&check, "an attempt is carried out once", test_attempt);
    check_one(&check, "of a hundred attempts one is carried out", test_attempt_race);
    check_one(&check, "attempts differ by owner, route, key; not by request", test_attempt_apart);
    check_one(&check, "an attempt is free again when dropped, dead or expired", test_attempt_again);
    check_one(&check, "writes take effect in their order, many in a commit", test_order);
    check_one(&check, "a call that fails does not fail its neighbours", test_neighbours);
    check_one(&check, "the end of the store answers everybody", test_free_answers);
    check_one(&check, "a queue that is full refuses, and recovers", test_queue_full);
    return check_run(&check, "store_race");
}
