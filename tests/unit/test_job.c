/* test_job.c - an execution, from the asking until its end is written and told
 *
 * The store is played by the test: it answers when it is told to. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check.h"
#include "core/execution_json.h"
#include "core/plane_inside.h"

#define OWNER "key_a"
#define ID    "exe_0123456789abcdefghjkmnpqr"

/* --- a store ---------------------------------------------------------------------------------- */

struct question {
    store_fn fn; /* NULL: nobody asked */
    void *ctx;
    char *doc;
};

static struct question adding, ending;

void __wrap_store_add_execution(struct store *store, const struct store_execution *e, store_fn fn,
                                void *ctx);
void __wrap_store_keep_execution(struct store *store, const struct store_execution *e, store_fn fn,
                                 void *ctx);
void __wrap_store_change_execution(struct store *store, const struct store_execution_change *c,
                                   store_fn fn, void *ctx);

static void ask(struct question *q, const char *doc, store_fn fn, void *ctx)
{
    assert_null(q->fn);
    *q = (struct question){.fn = fn, .ctx = ctx, .doc = doc ? xstrdup(doc) : NULL};
}

void __wrap_store_add_execution(struct store *store, const struct store_execution *e, store_fn fn,
                                void *ctx)
{
    (void)store;
    ask(&adding, e->doc, fn, ctx);
}

void __wrap_store_keep_execution(struct store *store, const struct store_execution *e, store_fn fn,
                                 void *ctx)
{
    (void)store;
    ask(&ending, e->doc, fn, ctx);
}

void __wrap_store_change_execution(struct store *store, const struct store_execution_change *c,
                                   store_fn fn, void *ctx)
{
    (void)store;
    ask(&ending, c->doc, fn, ctx);
}

static void answer(struct question *q, const struct error *err)
{
    struct question now = *q;
    assert_non_null(now.fn);
    *q = (struct question){0};
    now.fn(now.ctx, &(struct store_answer){.err = err});
    free(now.doc);
}

/* --- the scene -------------------------------------------------------------------------------- */

struct scene {
    struct plane plane;
    struct log log;
    struct live live;
    struct job *job;
    unsigned told;
    bool has_failed;
};

static void on_told(void *ctx, const char *text, size_t len, const struct error *err)
{
    (void)text, (void)len;
    struct scene *s = ctx;
    s->told++;
    s->has_failed = err;
}

/* One that somebody waits for, in a session that is gone but for its name. */
static void open_scene(struct scene *s)
{
    *s = (struct scene){.log = {.fd = -1, .level = LOG_LEVEL_COUNT}};
    adding = ending = (struct question){0}; /* those of a test that failed */
    s->plane.order.log = &s->log;
    s->plane.order.node = "node";
    s->job = job_new(&s->plane, OWNER, ID);
    s->job->session_id = xstrdup("ses_1");
    s->job->language = xstrdup("python");
    s->job->state = EXECUTION_RUNNING;
    s->job->live = &s->live;
    s->job->fn = on_told;
    s->job->ctx = s;
    s->plane.running = 1;
}

static void close_scene(struct scene *s)
{
    assert_null(adding.fn);
    assert_null(ending.fn);
    assert_null(map_find(&s->plane.jobs, ID));
    assert_int_equal(s->plane.running, 0);
    assert_int_equal(s->told, 1);
    map_release(&s->plane.jobs);
}

static void begin(struct execution *e, size_t output_bytes)
{
    execution_init(e, &(struct spawn_limits){0}, 1000, output_bytes);
    e->verdict.state = EXECUTION_COMPLETED;
}

/* So many files, whose names are as long as names can be and take six times that in a document. */
static void add_artifacts(struct execution *e, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct artifact *a = artifact_list_add(&e->artifacts);
        char name[3901];
        memset(name, 1, sizeof(name) - 1);
        snprintf(name, sizeof(name), "%04zu", i);
        name[4] = '\1';
        name[sizeof(name) - 1] = '\0';
        *a = (struct artifact){.path = xstrdup(name), .size = 1};
    }
}

static void add_output(struct output *o, size_t count)
{
    scoped_free char *bytes = xmalloc(count);
    memset(bytes, 1, count);
    output_add(o, bytes, count);
}

/* --- what is written of its end --------------------------------------------------------------- */

static json_t *end_and_read(struct scene *s, const struct execution *e)
{
    job_events.ended(s->job, e);
    assert_non_null(ending.doc);
    assert_true(strlen(ending.doc) < STORE_RECORD_MAX_BYTES);
    json_t *document = json_parse_own(ending.doc, strlen(ending.doc));
    assert_non_null(document);
    answer(&ending, NULL);
    return document;
}

static const char *text_of(const json_t *value)
{
    static char text[256];
    scoped_free char *dump = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(text, sizeof(text), "%s", dump);
    return text;
}

static void test_many_artifacts(void **state)
{
    (void)state;
    struct scene s;
    struct execution e;
    open_scene(&s);
    begin(&e, KIB);
    output_add(&e.out, "hello", 5);
    add_artifacts(&e, ARTIFACTS_MAX);
    scoped_json json_t *document = end_and_read(&s, &e);
    const json_t *list = json_object_get(document, "artifacts");
    assert_int_equal(json_array_size(list), ARTIFACTS_MAX / 2);
    const char *first = json_string_value(json_object_get(json_array_get(list, 0), "path"));
    assert_memory_equal(first, "0000", 4);
    assert_string_equal(text_of(json_object_get(document, "truncated")), "{\"artifacts\":true}");
    assert_string_equal(json_string_value(json_object_get(document, "stdout")), "hello");
    execution_release(&e);
    close_scene(&s);
}

static void test_much_output(void **state)
{
    (void)state;
    struct scene s;
    struct execution e;
    open_scene(&s);
    begin(&e, 4 * MIB);
    add_output(&e.out, 5 * MIB);
    add_output(&e.err, 3 * MIB);
    add_artifacts(&e, 10);
    scoped_json json_t *document = end_and_read(&s, &e);
    assert_int_equal(json_array_size(json_object_get(document, "artifacts")), 10);
    assert_string_equal(text_of(json_object_get(document, "truncated")),
                        "{\"stderr\":{\"kept_bytes\":1048576,\"total_bytes\":"
                        "3145728},\"stdout\":{\"kept_bytes\":1048576,\"total_bytes\":5242880}}");
    execution_release(&e);
    close_scene(&s);
}

static void test_fitting(void **state)
{
    (void)state;
    struct scene s;
    struct execution e;
    open_scene(&s);
    begin(&e, 1 * MIB);
    add_output(&e.out, 1 * MIB);
    add_output(&e.err, 1 * MIB);
    scoped_json json_t *document = end_and_read(&s, &e);
    assert_string_equal(text_of(json_object_get(document, "truncated")), "{}");
    execution_release(&e);
    close_scene(&s);
}

/* --- what is written while it runs ------------------------------------------------------------ */

/* An end that is refused is told at once, ahead of what waits; the sanitizer sees who is told of
 * the other then. */
static void test_end_before_note(void **state)
{
    (void)state;
    struct scene s;
    struct execution e;
    struct error err;
    open_scene(&s);
    begin(&e, KIB);
    job_on_old(s.job);
    job_events.ended(s.job, &e);
    error_set(&err, ERROR_INVALID, "no");
    answer(&ending, &err);
    assert_true(s.has_failed);
    answer(&adding, NULL);
    execution_release(&e);
    close_scene(&s);
}

static void on_noted(void *ctx, const char *text, size_t len, const struct error *err)
{
    (void)text, (void)len;
    assert_null(err);
    ++*(unsigned *)ctx;
}

static void test_end_before_asked_note(void **state)
{
    (void)state;
    struct scene s;
    struct execution e;
    struct error err;
    unsigned noted = 0;
    open_scene(&s);
    begin(&e, KIB);
    plane_make_known(&s.plane, &(struct plane_caller){.owner = OWNER}, ID, on_noted, &noted);
    job_events.ended(s.job, &e);
    error_set(&err, ERROR_INVALID, "no");
    answer(&ending, &err);
    answer(&adding, NULL);
    assert_int_equal(noted, 1);
    execution_release(&e);
    close_scene(&s);
}

/* One that could not be written down while it ran is written at its end. */
static void test_failed_note(void **state)
{
    (void)state;
    struct scene s;
    struct execution e;
    struct error err;
    open_scene(&s);
    begin(&e, KIB);
    job_on_old(s.job);
    assert_true(s.job->is_known);
    error_set(&err, ERROR_UNAVAILABLE, "the disk is full");
    answer(&adding, &err);
    assert_false(s.job->is_known);
    job_events.ended(s.job, &e);
    answer(&ending, NULL);
    assert_false(s.has_failed);
    execution_release(&e);
    close_scene(&s);
}

/* Whoever is told of an end can use the session again. */
static void on_read(void *ctx, const char *text, size_t len, const struct error *err)
{
    assert_null(err);
    *(json_t **)ctx = json_parse_own(text, len);
}

static void test_unwritten_end(void **state)
{
    (void)state;
    struct scene s;
    struct execution e;
    scoped_json json_t *document = NULL;
    const struct plane_caller who = {.owner = OWNER};
    open_scene(&s);
    begin(&e, KIB);
    e.started_ns = 1;
    job_events.ended(s.job, &e);
    plane_get_execution(&s.plane, &who, ID, on_read, &document);
    assert_string_equal(json_string_value(json_object_get(document, "state")), "running");
    assert_true(json_is_null(json_object_get(document, "ended_at")));
    answer(&ending, NULL);
    execution_release(&e);
    close_scene(&s);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "what fits is kept whole", test_fitting);
    check_one(&check, "of more files than fit the first are kept", test_many_artifacts);
    check_one(&check, "of more output than fits head and tail are kept", test_much_output);
    check_one(&check, "may end before it is written that it runs", test_end_before_note);
    check_one(&check, "also when somebody asked for that", test_end_before_asked_note);
    check_one(&check, "one that is not known before its end is at its end", test_failed_note);
    check_one(&check, "an end that is not written is not told", test_unwritten_end);
    return check_run(&check, "job");
}
