/* test_store_execution.c - executions and what they leave: each ends once, and is found */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <stdio.h>

#include "base/memory.h"
#include "store_world.h"

/* --- executions ------------------------------------------------------------------------------ */

static void test_execution_round(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_session s = a_session("ses_1");
    add_session(&w, &s);
    struct store_execution e = an_execution("exe_1", "ses_1");
    e.is_idempotent = true;
    ask(&w, store_add_execution, &e);
    assert_done(&w);
    ask(&w, store_change_execution,
        &(struct store_execution_change){.id = "exe_1",
                                         .node = "here",
                                         .epoch = 1,
                                         .from = STORE_BIT(STORE_EXECUTION_QUEUED),
                                         .to = STORE_EXECUTION_RUNNING,
                                         .started_ns = 5,
                                         .heartbeat_ns = 6});
    assert_done(&w);
    ask(&w, store_change_execution,
        &(struct store_execution_change){.id = "exe_1",
                                         .to = STORE_EXECUTION_COMPLETED,
                                         .ended_ns = 7,
                                         .doc = "{\"stdout\":\"1\"}"});
    assert_done(&w);
    world_reopen(&w);
    ask_for(&w, execution, store_get_execution,
            &(struct store_name){.id = "exe_1", .owner = "key_a"});
    const struct store_execution *got = row(&w, execution, 0);
    assert_int_equal(got->state, STORE_EXECUTION_COMPLETED);
    assert_true(got->is_idempotent);
    assert_int_equal(got->started_ns, 5);
    assert_int_equal(got->heartbeat_ns, 6);
    assert_int_equal(got->ended_ns, 7);
    assert_string_equal(got->request, "{\"code\":\"1\"}");
    assert_string_equal(got->doc, "{\"stdout\":\"1\"}");
    ask_for(&w, execution, store_list_executions, &(struct store_filter){.session_id = "ses_1"});
    assert_int_equal(w.count, 1);
    assert_null(row(&w, execution, 0)->doc); /* lists stay light */
    assert_null(row(&w, execution, 0)->request);
    ask_for(&w, execution, store_get_execution,
            &(struct store_name){.id = "exe_1", .owner = "key_b"});
    assert_refused(&w, ERROR_NOT_FOUND);
    world_close(&w);
}

/* Whoever asks finds it, by any way, though it is committed later. */
static void test_keep(void **state)
{
    (void)state;
    struct world w;
    struct store_info info;
    world_open(&w);
    struct store_session s = a_session("ses_1");
    add_session(&w, &s);
    store_get_info(w.store, &info);
    uint64_t commits = info.commits;
    const struct store_artifact left = {.execution_id = "exe_1", .path = "a", .size = 5};
    struct store_execution e = an_execution("exe_1", "ses_1");
    e.state = STORE_EXECUTION_COMPLETED;
    e.ended_ns = 7;
    e.artifacts = (struct store_list){&left, 1};
    ask(&w, store_keep_execution, &e);
    assert_done(&w);
    store_get_info(w.store, &info);
    assert_int_equal(info.commits, commits);
    ask_for(&w, execution, store_get_execution, &(struct store_name){.id = "exe_1"});
    assert_done(&w);
    assert_string_equal(row(&w, execution, 0)->request, "{\"code\":\"1\"}");
    for (int i = 0; i < 300; i++) {
        char id[24];
        snprintf(id, sizeof(id), "exe_k%d", i);
        struct store_execution more = an_execution(id, "ses_1");
        more.state = STORE_EXECUTION_FAILED;
        more.ended_ns = 9;
        ask(&w, store_keep_execution, &more);
        assert_done(&w);
    }
    ask_for(&w, execution, store_list_executions,
            &(struct store_filter){.session_id = "ses_1", .limit = 1000});
    assert_int_equal(w.count, 301);
    ask_for(&w, artifact, store_list_artifacts, &(struct store_name){.id = "exe_1"});
    assert_int_equal(w.count, 1);
    store_get_info(w.store, &info);
    assert_true(info.commits - commits < 100);
    assert_int_equal(info.dropped, 0);
    world_reopen(&w);
    ask_for(&w, execution, store_get_execution, &(struct store_name){.id = "exe_k299"});
    assert_done(&w);
    world_close(&w);
}

/* What builds on it need not wait for its answer. */
static void test_keep_and_go_on(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_execution e = an_execution("exe_1", NULL);
    e.state = STORE_EXECUTION_COMPLETED;
    e.ended_ns = 7;
    const struct store_artifact left = {.execution_id = "exe_1", .path = "a", .size = 5};
    world_begin(&w, NULL);
    store_keep_execution(w.store, &e, world_on_answer, &w);
    w.waiting++;
    store_put_artifact(w.store, &left, world_on_answer, &w);
    world_wait(&w);
    assert_done(&w); /* the last answer is that of the second */
    ask_for(&w, artifact, store_list_artifacts, &(struct store_name){.id = "exe_1"});
    assert_int_equal(w.count, 1);
    world_close(&w);
}

struct failures {
    struct world *world;
    struct error first;
};

static void on_done_or_not(void *ctx, const struct store_answer *answer)
{
    struct failures *f = ctx;
    if (answer->err && f->first.msg[0] == '\0')
        f->first = *answer->err;
    world_on_answer(f->world, &(struct store_answer){0});
}

/* An end that is told early is in nobody's way: what else is asked in its turn keeps its order. */
static void test_keep_between(void **state)
{
    (void)state;
    struct world w;
    struct failures f = {.world = &w};
    world_open(&w);
    struct store_execution e = an_execution("exe_1", NULL), early = an_execution("exe_2", NULL);
    early.state = STORE_EXECUTION_COMPLETED;
    early.ended_ns = 7;
    struct store_execution_change end = {
        .id = "exe_1", .node = "here", .epoch = 1, .to = STORE_EXECUTION_COMPLETED, .ended_ns = 8};
    world_begin(&w, NULL);
    w.waiting += 4;
    store_add_execution(w.store, &e, on_done_or_not, &f);
    store_keep_execution(w.store, &early, on_done_or_not, &f);
    store_change_execution(w.store, &end, on_done_or_not, &f);
    e.id = end.id = "exe_3";
    store_add_execution(w.store, &e, on_done_or_not, &f);
    store_change_execution(w.store, &end, on_done_or_not, &f);
    world_wait(&w);
    assert_string_equal(f.first.msg, "");
    ask_for(&w, execution, store_list_executions,
            &(struct store_filter){.limit = 10, .is_live = true});
    assert_int_equal(w.count, 0);
    world_close(&w);
}

/* One that must not be: it was told, so all that is left is to count it. */
static void test_keep_refused(void **state)
{
    (void)state;
    struct world w;
    struct store_info info;
    world_open(&w);
    struct store_execution e = an_execution("exe_1", "ses_nobody");
    e.state = STORE_EXECUTION_COMPLETED;
    e.ended_ns = 7;
    ask(&w, store_keep_execution, &e);
    e = an_execution("exe_2", NULL);
    e.state = STORE_EXECUTION_COMPLETED;
    e.ended_ns = 7;
    ask(&w, store_keep_execution, &e);
    ask_for(&w, execution, store_get_execution, &(struct store_name){.id = "exe_2"});
    assert_done(&w);
    ask_for(&w, execution, store_get_execution, &(struct store_name){.id = "exe_1"});
    assert_refused(&w, ERROR_NOT_FOUND);
    store_get_info(w.store, &info);
    assert_int_equal(info.dropped, 1);
    world_close(&w);
}

static void test_one_ending(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_execution e = an_execution("exe_1", NULL);
    ask(&w, store_add_execution, &e);
    assert_done(&w);
    struct store_execution_change end = {
        .id = "exe_1", .to = STORE_EXECUTION_TIMEOUT, .ended_ns = 7, .doc = "first"};
    ask(&w, store_change_execution, &end);
    assert_done(&w);
    end.to = STORE_EXECUTION_COMPLETED;
    end.doc = "second";
    ask(&w, store_change_execution, &end);
    assert_refused(&w, ERROR_CONFLICT);
    end.to = STORE_EXECUTION_TIMEOUT;
    ask(&w, store_change_execution, &end);
    assert_refused(&w, ERROR_CONFLICT);
    ask_for(&w, execution, store_get_execution, &(struct store_name){.id = "exe_1"});
    assert_int_equal(row(&w, execution, 0)->state, STORE_EXECUTION_TIMEOUT);
    assert_string_equal(row(&w, execution, 0)->doc, "first");
    world_close(&w);
}

static void test_retry(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_execution e = an_execution("exe_1", NULL);
    ask(&w, store_add_execution, &e);
    struct store_execution_change c = {.id = "exe_1", .to = STORE_EXECUTION_RUNNING};
    ask(&w, store_change_execution, &c);
    c.to = STORE_EXECUTION_QUEUED;
    ask(&w, store_change_execution, &c);
    assert_done(&w);
    ask(&w, store_change_execution, &c); /* already queued: no new attempt */
    assert_done(&w);
    ask_for(&w, execution, store_get_execution, &(struct store_name){.id = "exe_1"});
    assert_int_equal(row(&w, execution, 0)->attempts, 1);
    world_close(&w);
}

static void test_execution_filters(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_session s = a_session("ses_1");
    add_session(&w, &s);
    struct store_execution e = an_execution("exe_1", "ses_1");
    ask(&w, store_add_execution, &e);
    e = an_execution("exe_2", NULL); /* whole, at its end */
    e.state = STORE_EXECUTION_FAILED;
    e.created_ns = 2000;
    e.ended_ns = 9;
    e.doc = "{}";
    ask(&w, store_add_execution, &e);
    assert_done(&w);
    e = an_execution("exe_3", "ses_none");
    ask(&w, store_add_execution, &e);
    assert_refused(&w, ERROR_NOT_FOUND);

    ask_for(&w, execution, store_list_executions,
            &(struct store_filter){.node = "here", .is_live = true});
    assert_int_equal(w.count, 1);
    assert_string_equal(row(&w, execution, 0)->id, "exe_1");
    ask_for(&w, execution, store_list_executions,
            &(struct store_filter){.owner = "key_a", .states = STORE_BIT(STORE_EXECUTION_FAILED)});
    assert_int_equal(w.count, 1);
    assert_string_equal(row(&w, execution, 0)->id, "exe_2");
    ask_for(&w, execution, store_list_executions, &(struct store_filter){.limit = 1});
    assert_string_equal(row(&w, execution, 0)->id, "exe_2");
    assert_string_not_equal(w.next, "");
    world_close(&w);
}

/* What an execution left comes with its end, whether that adds or changes it; or neither does. */
static void test_artifacts_of_an_end(void **state)
{
    (void)state;
    static const uint8_t hash[STORE_HASH_BYTES] = {7};
    struct world w;
    world_open(&w);
    const struct store_artifact left[] = {
        {.execution_id = "exe_1", .path = "b", .size = 1, .sha256 = {hash, sizeof(hash)}},
        {.execution_id = "exe_1", .path = "a", .place = "there", .size = 2},
    };
    struct store_execution e = an_execution("exe_1", NULL);
    ask(&w, store_add_execution, &e);
    const struct store_artifact strange[] = {left[0], {.execution_id = "exe_2", .path = "a"}};
    struct store_execution_change end = {.id = "exe_1",
                                         .to = STORE_EXECUTION_COMPLETED,
                                         .ended_ns = 9,
                                         .artifacts = {strange, ARRAY_LEN(strange)}};
    ask(&w, store_change_execution, &end);
    assert_true(w.has_failed);
    ask_for(&w, execution, store_get_execution, &(struct store_name){.id = "exe_1"});
    assert_int_equal(row(&w, execution, 0)->ended_ns, 0);
    ask_for(&w, artifact, store_list_artifacts, &(struct store_name){.id = "exe_1"});
    assert_int_equal(w.count, 0);
    end.artifacts = (struct store_list){left, ARRAY_LEN(left)};
    ask(&w, store_change_execution, &end);
    assert_done(&w);
    ask_for(&w, artifact, store_list_artifacts, &(struct store_name){.id = "exe_1"});
    assert_int_equal(w.count, 2);
    assert_string_equal(row(&w, artifact, 0)->path, "a");
    assert_string_equal(row(&w, artifact, 0)->place, "there");
    assert_memory_equal(row(&w, artifact, 1)->sha256.data, hash, sizeof(hash));
    ask_for(&w, execution, store_get_execution, &(struct store_name){.id = "exe_1"});
    assert_int_equal(row(&w, execution, 0)->artifacts.count,
                     0); /* they are asked for by themselves */
    world_close(&w);
}

static void test_artifacts(void **state)
{
    (void)state;
    struct world w;
    static const uint8_t hash[STORE_HASH_BYTES] = {9};
    world_open(&w);
    struct store_execution e = an_execution("exe_1", NULL);
    ask(&w, store_add_execution, &e);
    struct store_artifact a = {.execution_id = "exe_1",
                               .path = "out/b.png",
                               .mime = "image/png",
                               .size = 5,
                               .mode = 0644,
                               .modified_ns = 3,
                               .sha256 = {hash, sizeof(hash)}};
    ask(&w, store_put_artifact, &a);
    assert_done(&w);
    a.size = 6;
    ask(&w, store_put_artifact, &a); /* told twice: one artifact */
    a.path = "a.txt";
    a.sha256 = (struct store_blob){0};
    ask(&w, store_put_artifact, &a);
    assert_done(&w);
    a.execution_id = "exe_none";
    ask(&w, store_put_artifact, &a);
    assert_refused(&w, ERROR_NOT_FOUND);

    ask_for(&w, artifact, store_list_artifacts, &(struct store_name){.id = "exe_1"});
    assert_int_equal(w.count, 2);
    assert_string_equal(row(&w, artifact, 0)->path, "a.txt");
    assert_null(row(&w, artifact, 0)->sha256.data);
    assert_int_equal(row(&w, artifact, 1)->size, 6);
    assert_memory_equal(row(&w, artifact, 1)->sha256.data, hash, sizeof(hash));
    world_close(&w);
}

static void test_checkpoints(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_session s = a_session("ses_1");
    add_session(&w, &s);
    struct store_checkpoint c = {
        .id = "chk_1", .session_id = "ses_1", .name = "before", .created_ns = 1};
    ask(&w, store_put_checkpoint, &c);
    assert_done(&w);
    c.is_lost = true;
    ask(&w, store_put_checkpoint, &c);
    c.id = "chk_2";
    c.created_ns = 2;
    c.is_lost = false;
    ask(&w, store_put_checkpoint, &c);
    ask_for(&w, checkpoint, store_list_checkpoints, &(struct store_filter){.session_id = "ses_1"});
    assert_int_equal(w.count, 2);
    assert_string_equal(row(&w, checkpoint, 0)->id, "chk_2");
    assert_true(row(&w, checkpoint, 1)->is_lost);
    ask(&w, store_remove_checkpoint, &(struct store_name){.id = "chk_1"});
    assert_done(&w);
    ask(&w, store_remove_checkpoint, &(struct store_name){.id = "chk_1"});
    assert_refused(&w, ERROR_NOT_FOUND);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "an execution comes back as it ended", test_execution_round);
    check_one(&check, "an end that is told early is found", test_keep);
    check_one(&check, "what builds on an end comes behind it", test_keep_and_go_on);
    check_one(&check, "an end that is told early leaves the others their order", test_keep_between);
    check_one(&check, "an end that is refused is counted", test_keep_refused);
    check_one(&check, "an execution ends once", test_one_ending);
    check_one(&check, "an execution that is queued again counts its attempts", test_retry);
    check_one(&check, "executions are listed by life, owner and state", test_execution_filters);
    check_one(&check, "artifacts belong to an execution, one for each path", test_artifacts);
    check_one(&check, "an end comes with what was left, or not", test_artifacts_of_an_end);
    check_one(&check, "checkpoints are kept, changed and removed", test_checkpoints);
    return check_run(&check, "store_execution");
}
