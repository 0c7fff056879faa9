/* test_store.c - what the store promises of each record: written, read, listed, refused */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "store_world.h"

/* --- sessions -------------------------------------------------------------------------------- */

static void test_session_round(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add_template(&w, "tpl_1", "python");
    struct store_session s = a_session("ses_1");
    s.name = "mine";
    s.template_id = "tpl_1";
    s.expires_ns = 77;
    s.metadata = "{\"user\":\"ann\",\"run\":7}";
    s.doc = "{\"network\":\"none\",\"text\":\"a'b\\\"; DROP TABLE sessions\"}";
    s.resume = (struct store_blob){"\0\1\2", 3};
    add_session(&w, &s);
    world_reopen(&w);

    ask_for(&w, session, store_get_session, &(struct store_name){.id = "ses_1"});
    assert_done(&w);
    const struct store_session *got = row(&w, session, 0);
    assert_string_equal(got->id, "ses_1");
    assert_string_equal(got->owner, "key_a");
    assert_string_equal(got->name, "mine");
    assert_int_equal(got->state, STORE_SESSION_READY);
    assert_string_equal(got->template_id, "tpl_1");
    assert_string_equal(got->node, "here");
    assert_int_equal(got->epoch, 1);
    assert_int_equal(got->takes.cpu_milli, 500);
    assert_int_equal(got->takes.memory_bytes, 256 * MIB);
    assert_int_equal(got->takes.disk_bytes, 128 * MIB);
    assert_int_equal(got->created_ns, 1000);
    assert_int_equal(got->expires_ns, 77);
    assert_int_equal(got->ended_ns, 0);
    assert_string_equal(got->metadata, s.metadata);
    assert_string_equal(got->doc, s.doc);
    assert_int_equal(got->resume.len, 3);
    assert_memory_equal(got->resume.data, "\0\1\2", 3);
    world_close(&w);
}

static void test_session_names(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_session s = a_session("ses_1");
    s.name = "mine";
    add_session(&w, &s);

    ask(&w, store_add_session, &s);
    assert_refused(&w, ERROR_CONFLICT);
    s.id = "ses_2"; /* the same name for the same owner */
    ask(&w, store_add_session, &s);
    assert_refused(&w, ERROR_CONFLICT);
    assert_non_null(strstr(w.err.msg, "mine"));
    s.owner = "key_b"; /* for another it is free */
    add_session(&w, &s);

    struct store_name by_name = {.owner = "key_b", .name = "mine"};
    ask_for(&w, session, store_get_session, &by_name);
    assert_done(&w);
    assert_string_equal(row(&w, session, 0)->id, "ses_2");
    end_session(&w, "ses_2", 5);
    ask_for(&w, session, store_get_session, &by_name);
    assert_refused(&w, ERROR_NOT_FOUND);
    s.id = "ses_3"; /* and is free again after the end */
    add_session(&w, &s);
    world_close(&w);
}

static void test_session_owner(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_session s = a_session("ses_1");
    add_session(&w, &s);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = "ses_1", .owner = "key_a"});
    assert_done(&w);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = "ses_1", .owner = "key_b"});
    assert_refused(&w, ERROR_NOT_FOUND);
    struct error others = w.err;
    ask_for(&w, session, store_get_session, &(struct store_name){.id = "ses_2", .owner = "key_b"});
    assert_int_equal(w.err.code, others.code); /* one cannot tell the two apart */
    assert_int_equal(strlen(w.err.msg), strlen(others.msg));
    world_close(&w);
}

static void test_session_change(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_session s = a_session("ses_1");
    add_session(&w, &s);
    struct store_session_change busy = {.id = "ses_1",
                                        .node = "here",
                                        .epoch = 1,
                                        .from = STORE_BIT(STORE_SESSION_READY),
                                        .to = STORE_SESSION_BUSY,
                                        .last_used_ns = 2000,
                                        .expires_ns = 9000,
                                        .doc = "{\"n\":1}",
                                        .resume = {"xy", 2}};
    ask(&w, store_change_session, &busy);
    assert_done(&w);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = "ses_1"});
    const struct store_session *got = row(&w, session, 0);
    assert_int_equal(got->state, STORE_SESSION_BUSY);
    assert_int_equal(got->last_used_ns, 2000);
    assert_int_equal(got->expires_ns, 9000);
    assert_string_equal(got->doc, "{\"n\":1}");
    assert_memory_equal(got->resume.data, "xy", 2);

    ask(&w, store_change_session, &busy); /* it is not ready any more */
    assert_refused(&w, ERROR_CONFLICT);
    assert_non_null(strstr(w.err.msg, "busy"));
    ask(&w, store_change_session,
        &(struct store_session_change){.id = "ses_1", .to = STORE_SESSION_READY});
    assert_done(&w);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = "ses_1"});
    assert_int_equal(row(&w, session, 0)->expires_ns, 9000); /* what was not named stays */
    assert_string_equal(row(&w, session, 0)->doc, "{\"n\":1}");
    ask(&w, store_change_session,
        &(struct store_session_change){.id = "ses_9", .to = STORE_SESSION_READY});
    assert_refused(&w, ERROR_NOT_FOUND);
    world_close(&w);
}

static void test_session_over(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_session s = a_session("ses_1");
    add_session(&w, &s);
    end_session(&w, "ses_1", 5000);
    ask(&w, store_change_session,
        &(struct store_session_change){.id = "ses_1", .to = STORE_SESSION_READY});
    assert_refused(&w, ERROR_CONFLICT);
    ask(&w, store_change_session,
        &(struct store_session_change){
            .id = "ses_1", .to = STORE_SESSION_TERMINATED, .ended_ns = 6000});
    assert_refused(&w, ERROR_CONFLICT); /* it ends once */

    s.id = "ses_2";
    add_session(&w, &s);
    struct store_session_change lost = {
        .id = "ses_2", .to = STORE_SESSION_FAILED, .ended_ns = 7000};
    ask(&w, store_change_session, &lost);
    assert_done(&w);
    ask(&w, store_change_session,
        &(struct store_session_change){.id = "ses_2", .to = STORE_SESSION_CREATING});
    assert_refused(&w, ERROR_CONFLICT); /* its sandbox is gone: no reset */
    ask_for(&w, session, store_get_session, &(struct store_name){.id = "ses_1"});
    assert_int_equal(row(&w, session, 0)->ended_ns, 5000);
    world_close(&w);
}

static void test_lease(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_session s = a_session("ses_1");
    add_session(&w, &s);
    struct store_session_change c = {
        .id = "ses_1", .node = "here", .epoch = 2, .to = STORE_SESSION_BUSY};
    ask(&w, store_change_session, &c); /* an epoch that does not hold it */
    assert_refused(&w, ERROR_CONFLICT);
    c.epoch = 1;
    c.new_node = "there";
    c.new_epoch = 7;
    ask(&w, store_change_session, &c);
    assert_done(&w);
    c.new_node = NULL;
    c.to = STORE_SESSION_READY;
    ask(&w, store_change_session, &c); /* it was given away */
    assert_refused(&w, ERROR_CONFLICT);
    c.node = "there";
    c.epoch = 7;
    ask(&w, store_change_session, &c);
    assert_done(&w);
    ask_for(&w, session, store_list_sessions,
            &(struct store_filter){.node = "there", .is_live = true});
    assert_int_equal(w.count, 1);
    assert_int_equal(row(&w, session, 0)->epoch, 7);
    world_close(&w);
}

struct bad_session {
    const char *name, *metadata, *template_id;
    uint64_t memory_bytes;
    enum error_code code;
};

static const struct bad_session bad_sessions[] = {
    {"refuses metadata that is not JSON", "{\"a\":", NULL, 1, ERROR_INVALID},
    {"refuses metadata that is no object", "[1]", NULL, 1, ERROR_INVALID},
    {"refuses a template that is not there", NULL, "tpl_none", 1, ERROR_NOT_FOUND},
    {"refuses an amount that no sum could hold", NULL, NULL, 1ull << 50, ERROR_INVALID},
    {"refuses a number that no database holds", NULL, NULL, UINT64_MAX, ERROR_INVALID},
};

static void test_bad_session(void **state)
{
    const struct bad_session *bad = *state;
    struct world w;
    world_open(&w);
    struct store_session s = a_session("ses_1");
    s.metadata = bad->metadata;
    s.template_id = bad->template_id;
    s.takes.memory_bytes = bad->memory_bytes;
    ask(&w, store_add_session, &s);
    assert_refused(&w, bad->code);
    ask_for(&w, session, store_list_sessions, &(struct store_filter){.limit = 10});
    assert_int_equal(w.count, 0);
    ask_for(&w, amounts, store_get_usage, &(struct store_name){.owner = "key_a"});
    assert_int_equal(row(&w, amounts, 0)->sessions, 0);
    world_close(&w);
}

static void test_too_large(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    char *doc = xmalloc(STORE_RECORD_MAX_BYTES + 1);
    memset(doc, 'x', STORE_RECORD_MAX_BYTES);
    doc[STORE_RECORD_MAX_BYTES] = '\0';
    struct store_session s = a_session("ses_1");
    s.doc = doc;
    ask(&w, store_add_session, &s);
    assert_refused(&w, ERROR_TOO_LARGE);
    doc[STORE_RECORD_MAX_BYTES / 2] = '\0';
    ask(&w, store_add_session, &s);
    assert_done(&w);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = "ses_1"});
    assert_int_equal(strlen(row(&w, session, 0)->doc), STORE_RECORD_MAX_BYTES / 2);
    free(doc);
    world_close(&w);
}

/* --- lists ----------------------------------------------------------------------------------- */

static void add_numbered(struct world *w, int number, int64_t created_ns)
{
    char id[32];
    snprintf(id, sizeof(id), "ses_%04d", number);
    struct store_session s = a_session(id);
    s.created_ns = created_ns;
    add_session(w, &s);
}

/* Pages of three over ten that share their times in pairs, while others come and go. */
static void test_pages(void **state)
{
    (void)state;
    struct world w;
    char cursor[128] = "";
    char seen[512] = "";
    world_open(&w);
    for (int i = 0; i < 10; i++)
        add_numbered(&w, i, 100 + i / 2);
    for (int page = 0; page < 4; page++) {
        ask_for(&w, session, store_list_sessions,
                &(struct store_filter){.limit = 3, .cursor = cursor[0] ? cursor : NULL});
        assert_done(&w);
        assert_int_equal(w.count, page < 3 ? 3 : 1);
        for (size_t i = 0; i < w.count; i++) {
            size_t len = strlen(seen);
            snprintf(seen + len, sizeof(seen) - len, "%s ", row(&w, session, i)->id + 7);
        }
        snprintf(cursor, sizeof(cursor), "%s", w.next);
        add_numbered(&w, 100 + page, 1000 + page); /* newer: before the first page */
        if (page == 0) {                           /* the one at which the page ended vanishes */
            end_session(&w, "ses_0007", 1);
            ask(&w, store_retain, &(struct store_retention){.before_ns = 2, .limit = 10});
            assert_done(&w);
        }
    }
    assert_string_equal(seen, "9 8 7 6 5 4 3 2 1 0 ");
    assert_string_equal(cursor, "");
    world_close(&w);
}

static void test_exact_page(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    for (int i = 0; i < 3; i++)
        add_numbered(&w, i, i);
    ask_for(&w, session, store_list_sessions, &(struct store_filter){.limit = 3});
    assert_int_equal(w.count, 3);
    assert_string_equal(w.next, ""); /* no page of nothing follows */
    world_close(&w);
}

static void test_bad_cursor(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    ask(&w, store_list_sessions, &(struct store_filter){.cursor = "' OR 1=1 --"});
    assert_refused(&w, ERROR_INVALID);
    ask(&w, store_list_nodes, &(struct store_filter){.cursor = "c0000000000000001-ses_1"});
    assert_refused(&w, ERROR_INVALID); /* this list has no pages */
    world_close(&w);
}

struct filter_case {
    const char *name;
    struct store_filter filter;
    const char *expected; /* the last characters of the ids */
};

static const struct filter_case filters[] = {
    {"no filter: all, newest first", {.limit = 10}, "EDCBA"},
    {"by owner", {.owner = "key_a"}, "CBA"},
    {"by template", {.template_id = "tpl_1"}, "DA"},
    {"by state", {.states = STORE_BIT(STORE_SESSION_BUSY)}, "B"},
    {"by several states",
     {.states = STORE_BIT(STORE_SESSION_BUSY) | STORE_BIT(STORE_SESSION_TERMINATED)},
     "CB"},
    {"by life", {.is_live = true}, "EDBA"},
    {"by node and life: recovery", {.node = "here", .is_live = true}, "EBA"},
    {"by metadata", {.meta_key = "user", .meta_value = "ann"}, "DA"},
    {"by metadata that is a number", {.meta_key = "n", .meta_value = "7"}, "B"},
    {"by metadata that nobody has", {.meta_key = "user", .meta_value = "' OR 1=1"}, ""},
    {"a value belongs to its key", {.meta_key = "n", .meta_value = "ann"}, ""},
    {"by everything",
     {.owner = "key_a",
      .template_id = "tpl_1",
      .node = "here",
      .states = STORE_BIT(STORE_SESSION_READY),
      .is_live = true,
      .meta_key = "user",
      .meta_value = "ann"},
     "A"},
};

static void add_five(struct world *w)
{
    struct {
        const char *id, *owner, *template_id, *node, *metadata;
    } rows[] = {
        {"ses_A", "key_a", "tpl_1", "here", "{\"user\":\"ann\"}"},
        {"ses_B", "key_a", NULL, "here", "{\"n\":7}"},
        {"ses_C", "key_a", NULL, "here", NULL},
        {"ses_D", "key_b", "tpl_1", "there", "{\"user\":\"ann\",\"x\":null,\"y\":{}}"},
        {"ses_E", "key_b", NULL, "here", NULL},
    };
    add_template(w, "tpl_1", "python");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct store_session s = a_session(rows[i].id);
        s.owner = rows[i].owner;
        s.template_id = rows[i].template_id;
        s.node = rows[i].node;
        s.metadata = rows[i].metadata;
        s.created_ns = 100 + (int64_t)i;
        add_session(w, &s);
    }
    ask(w, store_change_session,
        &(struct store_session_change){.id = "ses_B", .to = STORE_SESSION_BUSY});
    end_session(w, "ses_C", 500);
}

static void test_filter(void **state)
{
    const struct filter_case *c = *state;
    struct world w;
    char found[16] = "";
    world_open(&w);
    add_five(&w);
    ask_for(&w, session, store_list_sessions, &c->filter);
    assert_done(&w);
    for (size_t i = 0; i < w.count; i++)
        found[i] = row(&w, session, i)->id[4];
    assert_string_equal(found, c->expected);
    world_close(&w);
}

/* --- templates and keys ---------------------------------------------------------------------- */

static void test_templates(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add_template(&w, "tpl_1", "python");
    add_template(&w, "tpl_2", "node");
    struct store_template t = {.id = "tpl_3", .name = "python", .doc = "{}"};
    ask(&w, store_add_template, &t);
    assert_refused(&w, ERROR_CONFLICT);
    assert_string_equal(w.err.word, "template_exists");
    t = (struct store_template){
        .id = "tpl_1", .name = "python3", .doc = "{\"a\":1}", .version = 1, .updated_ns = 4};
    ask_for(&w, template, store_change_template, &t);
    assert_done(&w);
    assert_int_equal(row(&w, template, 0)->version, 2); /* as it is now */
    assert_int_equal(row(&w, template, 0)->created_ns, 1);
    ask(&w, store_change_template, &t); /* of a version that is past */
    assert_refused(&w, ERROR_CONFLICT);
    assert_string_equal(w.err.word, "version_mismatch");
    ask(&w, store_remove_template, &(struct store_name){.id = "tpl_1", .version = 1});
    assert_refused(&w, ERROR_CONFLICT);
    assert_string_equal(w.err.word, "version_mismatch");
    t.version = 0;
    t.name = "node";
    ask(&w, store_change_template, &t);
    assert_refused(&w, ERROR_CONFLICT);
    t.id = "tpl_9";
    ask(&w, store_change_template, &t);
    assert_refused(&w, ERROR_NOT_FOUND);

    ask_for(&w, template, store_get_template, &(struct store_name){.name = "python3"});
    assert_done(&w);
    assert_string_equal(row(&w, template, 0)->id, "tpl_1");
    assert_int_equal(row(&w, template, 0)->version, 2);
    assert_int_equal(row(&w, template, 0)->updated_ns, 4);
    ask_for(&w, template, store_list_templates, &(struct store_filter){.limit = 1});
    assert_int_equal(w.count, 1);
    assert_string_not_equal(w.next, "");
    world_close(&w);
}

static bool seed(struct world *w, const char *id, const char *name)
{
    const struct store_template t = {
        .id = id, .name = name, .doc = "{}", .created_ns = 7, .updated_ns = 7};
    ask_for(w, template, store_seed_template, &t);
    assert_done(w);
    assert_true(w->count == 0 || row(w, template, 0)->version == 1);
    return w->count == 1;
}

static void test_seed(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_true(seed(&w, "tpl_1", "python"));
    assert_false(seed(&w, "tpl_2", "python"));
    add_template(&w, "tpl_3", "bash");
    assert_false(seed(&w, "tpl_4", "bash")); /* the operator was first */
    ask(&w, store_remove_template, &(struct store_name){.id = "tpl_1", .version = 1});
    assert_done(&w);
    ask(&w, store_remove_template, &(struct store_name){.id = "tpl_3"});
    assert_done(&w);
    world_reopen(&w);
    assert_false(seed(&w, "tpl_5", "python")); /* what was removed stays so */
    assert_false(seed(&w, "tpl_6", "bash"));
    assert_true(seed(&w, "tpl_7", "node"));
    ask_for(&w, template, store_list_templates, &(struct store_filter){0});
    assert_int_equal(w.count, 1);
    assert_string_equal(row(&w, template, 0)->id, "tpl_7");
    world_close(&w);
}

static void test_template_in_use(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add_template(&w, "tpl_1", "python");
    struct store_session s = a_session("ses_1");
    s.template_id = "tpl_1";
    add_session(&w, &s);
    struct store_name name = {.id = "tpl_1"};
    ask(&w, store_remove_template, &name);
    assert_refused(&w, ERROR_CONFLICT);
    assert_string_equal(w.err.word, "template_in_use");
    end_session(&w, "ses_1", 5);
    ask(&w, store_remove_template, &name);
    assert_done(&w);
    ask(&w, store_remove_template, &name);
    assert_refused(&w, ERROR_NOT_FOUND);
    s.id = "ses_2";
    ask(&w, store_add_session, &s);
    assert_refused(&w, ERROR_NOT_FOUND);
    ask_for(&w, session, store_get_session, &(struct store_name){.id = "ses_1"});
    assert_string_equal(row(&w, session, 0)->template_id, "tpl_1"); /* history stays */
    world_close(&w);
}

static void test_keys(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_key k = a_key("key_1");
    k.quota = (struct store_amounts){2, 1000, 3000, 4000};
    k.rate_per_minute = 60;
    k.expires_ns = 99;
    ask(&w, store_add_key, &k);
    assert_done(&w);
    ask(&w, store_add_key, &k);
    assert_refused(&w, ERROR_CONFLICT);
    k.id = "key_2";
    k.hash.len = 31;
    ask(&w, store_add_key, &k);
    assert_refused(&w, ERROR_INVALID);

    ask(&w, store_change_key, &(struct store_key_change){.id = "key_1", .last_used_ns = 5});
    assert_done(&w);
    ask(&w, store_change_key, &(struct store_key_change){.id = "key_1", .revoked_ns = 6});
    ask(&w, store_change_key, &(struct store_key_change){.id = "key_1", .revoked_ns = 7});
    ask_for(&w, key, store_get_key, &(struct store_name){.id = "key_1"});
    const struct store_key *got = row(&w, key, 0);
    assert_int_equal(got->last_used_ns, 5);
    assert_int_equal(got->revoked_ns, 6);
    assert_int_equal(got->quota.sessions, 2);
    assert_int_equal(got->quota.disk_bytes, 4000);
    assert_int_equal(got->rate_per_minute, 60);
    assert_int_equal(got->expires_ns, 99);
    assert_string_equal(got->scopes, "execute");
    assert_memory_equal(got->hash.data, k.hash.data, STORE_HASH_BYTES);
    ask(&w, store_change_key, &(struct store_key_change){.id = "key_9", .revoked_ns = 7});
    assert_refused(&w, ERROR_NOT_FOUND);
    ask_for(&w, key, store_list_keys, &(struct store_filter){.limit = 5});
    assert_int_equal(w.count, 1);
    world_close(&w);
}

/* --- nodes, retention ------------------------------------------------------------------------ */

static void test_nodes(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct store_node n = {.id = "here", .heartbeat_ns = 10, .doc = "{\"slots\":3}"};
    ask_for(&w, node, store_begin_node, &n);
    assert_int_equal(row(&w, node, 0)->epoch, 1);
    ask_for(&w, node, store_begin_node, &n);
    assert_int_equal(row(&w, node, 0)->epoch, 2);
    n.epoch = 1;
    ask(&w, store_beat_node, &n); /* fenced */
    assert_refused(&w, ERROR_CONFLICT);
    n.epoch = 2;
    n.heartbeat_ns = 20;
    n.doc = NULL;
    ask(&w, store_beat_node, &n);
    assert_done(&w);
    ask_for(&w, node, store_list_nodes, &(struct store_filter){.limit = 5});
    assert_int_equal(w.count, 1);
    assert_int_equal(row(&w, node, 0)->heartbeat_ns, 20);
    assert_string_equal(row(&w, node, 0)->doc, "{\"slots\":3}");
    world_close(&w);
}

static void add_history(struct world *w)
{
    for (int i = 0; i < 6; i++) {
        char session[16], execution[16];
        snprintf(session, sizeof(session), "ses_%d", i);
        snprintf(execution, sizeof(execution), "exe_%d", i);
        struct store_session s = a_session(session);
        s.metadata = "{\"a\":\"b\"}";
        add_session(w, &s);
        struct store_execution e = an_execution(execution, session);
        e.state = STORE_EXECUTION_COMPLETED;
        e.ended_ns = 100 + i;
        ask(w, store_add_execution, &e);
        ask(w, store_put_artifact,
            &(struct store_artifact){.execution_id = execution, .path = "a"});
        assert_done(w);
        if (i < 4)
            end_session(w, session, 100 + i);
    }
}

/* Sessions 0 to 3 have ended, executions 0 to 5; what ended before 103 goes, two at a time. */
static void test_retention(void **state)
{
    (void)state;
    struct world w;
    struct store_retention old = {.before_ns = 103, .now_ns = 3000, .limit = 2};
    world_open(&w);
    add_history(&w);
    struct store_attempt a = an_attempt("ses_1", 1);
    ask_for(&w, attempt, store_begin_attempt, &a);

    size_t sessions = 0, executions = 0, steps = 0;
    do {
        ask_for(&w, removed, store_retain, &old);
        assert_done(&w);
        assert_true(w.count <= 4);
        for (size_t i = 0; i < w.count; i++) {
            sessions += strcmp(row(&w, removed, i)->kind, "session") == 0;
            executions += strcmp(row(&w, removed, i)->kind, "execution") == 0;
        }
        steps++;
    } while (w.count > 0);
    assert_int_equal(sessions, 3);
    assert_int_equal(executions, 3);
    assert_true(steps > 2);

    ask_for(&w, session, store_list_sessions,
            &(struct store_filter){.meta_key = "a", .meta_value = "b"});
    assert_int_equal(w.count, 3);
    ask_for(&w, execution, store_get_execution, &(struct store_name){.id = "exe_2"});
    assert_refused(&w, ERROR_NOT_FOUND);
    ask_for(&w, artifact, store_list_artifacts, &(struct store_name){.id = "exe_2"});
    assert_int_equal(w.count, 0);
    ask_for(&w, artifact, store_list_artifacts, &(struct store_name){.id = "exe_3"});
    assert_int_equal(w.count, 1);
    ask_for(&w, attempt, store_begin_attempt, &a); /* expired: it is the first again */
    assert_true(row(&w, attempt, 0)->is_mine);
    ask_for(&w, amounts, store_get_usage, &(struct store_name){.owner = "key_a"});
    assert_int_equal(row(&w, amounts, 0)->sessions, 2);
    world_close(&w);
}

/* Bytes at rest: an execution stays as long as it has any, and those whose session lives stay, too.
 */
static void test_stale(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add_history(&w);
    for (int i = 0; i < 6; i++) {
        char execution[32];
        snprintf(execution, sizeof(execution), "exe_%d", i);
        ask(&w, store_put_artifact,
            &(struct store_artifact){
                .execution_id = execution, .path = "b", .place = "somewhere", .size = 1000});
        assert_done(&w);
    }
    ask_for(&w, amounts, store_get_kept, &(struct store_name){0});
    assert_int_equal(row(&w, amounts, 0)->disk_bytes, 6000);

    ask_for(&w, artifact, store_list_stale_artifacts,
            &(struct store_stale){.before_ns = 1000, .limit = 10});
    assert_int_equal(w.count, 4); /* two sessions live */
    assert_string_equal(row(&w, artifact, 0)->execution_id, "exe_0");
    assert_string_equal(row(&w, artifact, 0)->place, "somewhere");
    ask_for(&w, artifact, store_list_stale_artifacts,
            &(struct store_stale){.before_ns = 102, .limit = 10});
    assert_int_equal(w.count, 2);
    ask_for(&w, artifact, store_list_stale_artifacts,
            &(struct store_stale){.before_ns = 1000, .is_any = true, .limit = 5});
    assert_int_equal(w.count, 5);

    const struct store_retention all = {.before_ns = 1000, .now_ns = 1, .limit = 10};
    ask_for(&w, removed, store_retain, &all);
    assert_int_equal(w.count, 0);
    ask(&w, store_put_artifact,
        &(struct store_artifact){.execution_id = "exe_0", .path = "b", .size = 1000});
    ask_for(&w, removed, store_retain, &all);
    assert_int_equal(w.count, 2); /* the execution and its session */
    ask_for(&w, amounts, store_get_kept, &(struct store_name){0});
    assert_int_equal(row(&w, amounts, 0)->disk_bytes, 5000);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "a session comes back as it was written", test_session_round);
    check_one(&check, "a name is unique among an owner's live sessions", test_session_names);
    check_one(&check, "what belongs to another owner is not there", test_session_owner);
    check_one(&check, "a change compares the state, and keeps what it does not name",
              test_session_change);
    check_one(&check, "what has ended does not change any more", test_session_over);
    check_one(&check, "only the holder of the lease changes a session", test_lease);
    check_rows(&check, bad_sessions, test_bad_session);
    check_one(&check, "a record has a largest size", test_too_large);
    check_one(&check, "pages go on where they ended, whatever comes and goes", test_pages);
    check_one(&check, "a page that holds all is the last", test_exact_page);
    check_one(&check, "refuses a cursor that is none", test_bad_cursor);
    check_rows(&check, filters, test_filter);
    check_one(&check, "templates have unique names and versions", test_templates);
    check_one(&check, "a template is seeded once, whatever became of it", test_seed);
    check_one(&check, "a template that live sessions use stays", test_template_in_use);
    check_one(&check, "keys are kept by hash, and revoked once", test_keys);
    check_one(&check, "an epoch that is past is fenced", test_nodes);
    check_one(&check, "retention removes what ended long ago, step by step", test_retention);
    check_one(&check, "executions stay as long as their bytes are somewhere", test_stale);
    return check_run(&check, "store");
}
