/* test_store_lag.c - sessions that are told before they are in the database: nobody notices */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store_world.h"

static uint64_t count_commits(struct world *w)
{
    struct store_info info;
    store_get_info(w->store, &info);
    assert_int_equal(info.dropped, 0);
    return info.commits;
}

#define TRIES 1000

static int made; /* sessions, in the world that is open */

/* A question to the other lane. The writing one answers before it gives the database back, so that
 * it would find one busy who asks again at once, each time. */
static void let_writer_rest(struct world *w)
{
    ask_for(w, session, store_get_session, &(struct store_name){.id = "ses_none"});
    assert_refused(w, ERROR_NOT_FOUND);
}

/* One that was told, and is not committed: while a lane has the database it is not told early. */
static void keep_session(struct world *w, char id[static 24])
{
    uint64_t commits;
    do {
        let_writer_rest(w);
        snprintf(id, 24, "ses_%d", made++);
        struct store_session s = a_session(id);
        s.created_ns = made;
        s.resume = (struct store_blob){"\0record", 7};
        commits = count_commits(w);
        ask(w, store_keep_session, &s);
        assert_done(w);
    } while (count_commits(w) != commits && made < TRIES);
    assert_int_equal(count_commits(w), commits);
}

static struct store_execution an_end(const char *id, const char *session_id)
{
    struct store_execution e = an_execution(id, session_id);
    e.state = STORE_EXECUTION_COMPLETED;
    e.ended_ns = 7;
    return e;
}

/* Whatever asks for it first finds it, whole. */
static void test_found(void **state)
{
    (void)state;
    struct world w;
    char id[24];
    made = 0;
    world_open(&w);
    keep_session(&w, id);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = id});
    assert_done(&w);
    assert_memory_equal(row(&w, session, 0)->resume.data, "\0record", 7);
    keep_session(&w, id);
    ask_for(&w, session, store_list_sessions, &(struct store_filter){.limit = TRIES});
    assert_int_equal(w.count, made);
    keep_session(&w, id);
    ask_for(&w, amounts, store_get_usage, &(struct store_name){.owner = "key_a"});
    assert_int_equal(row(&w, amounts, 0)->sessions, made);
    keep_session(&w, id);
    world_reopen(&w);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = id});
    assert_done(&w);
    world_close(&w);
}

/* The numbers of the sessions of a list, page by page. */
static size_t read_pages(struct world *w, struct store_filter filter, int *numbers)
{
    size_t count = 0;
    char cursor[sizeof(w->next)];
    do {
        ask_for(w, session, store_list_sessions, &filter);
        assert_done(w);
        assert_true(w->count <= filter.limit);
        for (size_t i = 0; i < w->count; i++)
            numbers[count++] = (int)strtol(row(w, session, i)->id + strlen("ses_"), NULL, 10);
        memcpy(cursor, w->next, sizeof(cursor));
        filter.cursor = cursor;
    } while (*cursor);
    return count;
}

/* A list has each of them once and in its place, on whichever page, written or not. */
static void test_listed(void **state)
{
    (void)state;
    static int numbers[2 * TRIES];
    struct world w;
    char id[24];
    made = 0;
    world_open(&w);
    for (int round = 0; round < 12; round++) {
        keep_session(&w, id);
        if (round % 4 == 3)
            end_session(&w, id, made);
        struct store_filter filter = {.limit = 1 + (uint64_t)round % 5};
        assert_int_equal(read_pages(&w, filter, numbers), made);
        for (int i = 0; i < made; i++)
            assert_int_equal(numbers[i], made - 1 - i); /* the newest first */
    }
    keep_session(&w, id);
    size_t live = read_pages(&w, (struct store_filter){.limit = 3, .is_live = true}, numbers);
    assert_int_equal(live, made - 3);
    static const struct {
        struct store_filter filter;
        bool is_found;
    } rows[] = {
        {{.owner = "key_a"}, true},
        {{.owner = "key_b"}, false},
        {{.node = "here"}, true},
        {{.node = "there"}, false},
        {{.template_id = "tpl_1"}, false},
        {{.meta_key = "user", .meta_value = "ada"}, false},
        {{.states = STORE_BIT(STORE_SESSION_READY)}, true},
        {{.states = STORE_BIT(STORE_SESSION_BUSY)}, false},
        {{.cursor = "c0000000000000000-ses_0"}, false},
        {{.cursor = "c0fffffffffffffff-ses_0"}, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        keep_session(&w, id);
        ask_for(&w, session, store_list_sessions, &rows[i].filter);
        assert_done(&w);
        bool is_found = w.count > 0 && strcmp(row(&w, session, 0)->id, id) == 0;
        assert_int_equal(is_found, rows[i].is_found);
    }
    world_close(&w);
}

/* So does what builds on it: each of these fails without its session. */
static void test_built_on(void **state)
{
    (void)state;
    struct world w;
    char id[24];
    made = 0;
    world_open(&w);
    keep_session(&w, id);
    struct store_execution added = an_execution("exe_1", id);
    ask(&w, store_add_execution, &added);
    assert_done(&w);

    keep_session(&w, id);
    scoped_free char *large = xmalloc(100 * KIB);
    memset(large, 'x', 100 * KIB - 1);
    large[100 * KIB - 1] = '\0';
    struct store_execution kept = an_end("exe_2", id);
    kept.doc = large; /* which the ledger does not take */
    ask(&w, store_keep_execution, &kept);
    assert_done(&w);

    keep_session(&w, id);
    kept = an_end("exe_3", id);
    ask(&w, store_keep_execution, &kept);
    const struct store_checkpoint saved = {.id = "cpt_1", .session_id = id};
    ask(&w, store_put_checkpoint, &saved);
    assert_done(&w);

    keep_session(&w, id);
    end_session(&w, id, 9);
    keep_session(&w, id);
    ask_for(&w, removed, store_retain,
            &(struct store_retention){.before_ns = 100, .now_ns = 100, .limit = 10});
    assert_done(&w);
    ask_for(&w, session, store_list_sessions, &(struct store_filter){.limit = TRIES});
    assert_int_equal(w.count, made - 1); /* all but the one that has ended */
    count_commits(&w);                   /* and none was dropped */
    world_close(&w);
}

struct turn {
    struct world *world;
    char words[4][96]; /* of the answers, in their order */
    size_t count;
};

static void on_word(void *ctx, const struct store_answer *answer)
{
    struct turn *t = ctx;
    snprintf(t->words[t->count++], sizeof(t->words[0]), "%.90s",
             answer->err ? answer->err->msg : "");
    world_on_answer(t->world, &(struct store_answer){0});
}

/* A template is not taken away from under a session, in whichever order the two come. */
static void test_template(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add_template(&w, "tpl_1", "first");
    struct store_session s = a_session("ses_1");
    s.template_id = "tpl_1";
    ask(&w, store_keep_session, &s);
    assert_done(&w);
    ask(&w, store_remove_template, &(struct store_name){.id = "tpl_1"});
    assert_refused(&w, ERROR_CONFLICT);
    end_session(&w, "ses_1", 9);

    struct turn t = {.world = &w};
    world_begin(&w, NULL);
    w.waiting++;
    store_remove_template(w.store, &(struct store_name){.id = "tpl_1"}, on_word, &t);
    s.id = "ses_2";
    store_keep_session(w.store, &s, on_word, &t);
    world_wait(&w);
    assert_string_equal(t.words[0], "");
    assert_string_equal(t.words[1], "there is no template 'tpl_1'");
    world_close(&w);
}

static void intruder_do(sqlite3 *db, const char *sql)
{
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* Told before the trouble was known: it is not lost, and what needs it is refused, not what does
 * not. */
static void test_locked(void **state)
{
    (void)state;
    struct world w;
    sqlite3 *other;
    char id[24];
    made = 0;
    world_open(&w);
    struct store_session old = a_session("ses_old");
    add_session(&w, &old);
    store_free(take_ptr(&w.store));
    assert_int_equal(world_try_open(&w, &(struct store_order){.busy_ms = 20}), 0);
    assert_int_equal(sqlite3_open(w.path, &other), SQLITE_OK);
    intruder_do(other, "BEGIN IMMEDIATE");
    keep_session(&w, id);
    struct store_execution e = an_execution("exe_1", id);
    ask(&w, store_add_execution, &e);
    assert_refused(&w, ERROR_UNAVAILABLE);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = id});
    assert_refused(&w, ERROR_UNAVAILABLE);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = "ses_old"});
    assert_done(&w);
    ask_for(&w, session, store_list_sessions, &(struct store_filter){.limit = TRIES});
    assert_done(&w);
    assert_int_equal(w.count, made + 1);
    ask_for(&w, session, store_get_session, &(struct store_name){.name = "nobody"});
    assert_refused(&w, ERROR_NOT_FOUND);
    struct store_session next = a_session("ses_next");
    ask(&w, store_keep_session, &next); /* now it is known */
    assert_refused(&w, ERROR_UNAVAILABLE);
    store_free(take_ptr(&w.store)); /* which cannot commit the first one */
    intruder_do(other, "COMMIT");
    sqlite3_close(other);
    assert_int_equal(world_try_open(&w, NULL), 0);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = id});
    assert_done(&w);
    assert_memory_equal(row(&w, session, 0)->resume.data, "\0record", 7);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = "ses_next"});
    assert_refused(&w, ERROR_NOT_FOUND);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "a session that was told is found", test_found);
    check_one(&check, "and listed", test_listed);
    check_one(&check, "and built on", test_built_on);
    check_one(&check, "its template stays, or is missed", test_template);
    check_one(&check, "a locked database loses none", test_locked);
    return check_run(&check, "store_lag");
}
