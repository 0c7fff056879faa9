/* test_job_once.c - executions in sandboxes of their own: how many there may be at a time
 *
 * Sandboxes and the store are played by the test. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check.h"
#include "core/plane_inside.h"

#define MAX_RUNNING 2
#define ASKED_MAX   4
#define WORD_BYTES  100

/* --- sandboxes, and a store that keeps everything at once ------------------------------------- */

struct session {
    struct session_info info;
    const struct session_events *events;
    const struct execution_events *execution; /* NULL: nothing runs in it */
    void *ctx, *execution_ctx;
};

static int kind_is_here;
#define KIND ((struct catalog_kind *)(void *)&kind_is_here)

static struct session *sessions[ASKED_MAX]; /* in the order in which they were taken */
static size_t session_count;
static uint64_t taken_memory; /* that the last of them was asked for with */
static bool goes_out;         /* and waits for its way */
static passage_fn way_fn;
static void *way_ctx;

struct catalog_kind *__wrap_plane_kind(struct plane *p, const char *template, const char *language,
                                       struct error *err);
int __wrap_catalog_reckon(const struct catalog_kind *kind, const struct resource_spec *over,
                          struct spawn_limits *out, struct error *err);
const struct spawn_limits *__wrap_catalog_limits(const struct catalog_kind *kind);
int __wrap_catalog_take(struct catalog_kind *kind, const struct catalog_extra *extra,
                        struct session **out, struct catalog_kind **held, bool *is_parked,
                        const struct session_events *events, void *ctx, struct error *err);
void __wrap_catalog_let_go(struct catalog_kind *kind);
json_t *__wrap_catalog_requirements(const struct catalog_kind *kind);
int __wrap_plane_choose_network(const struct plane *p, const struct network_spec *wish,
                                const struct catalog_kind *kind, struct network_spec *out,
                                struct error *err);
bool __wrap_plane_go_out(struct plane *p, struct session *session, const struct plane_way *way,
                         passage_fn fn, void *ctx);
int __wrap_job_fill(struct job *j, const struct code_wish *wish, const struct catalog_kind *kind,
                    char *const *env, struct error *err);
const struct session_info *__wrap_session_info(const struct session *s);
int __wrap_session_execute(struct session *s, const struct cell_request *request, bool may_queue,
                           const struct execution_events *events, void *ctx, struct error *err);
void __wrap_session_close(struct session *s);
void __wrap_session_free(struct session *s);
void __wrap_store_keep_execution(struct store *store, const struct store_execution *e, store_fn fn,
                                 void *ctx);

struct catalog_kind *__wrap_plane_kind(struct plane *p, const char *template, const char *language,
                                       struct error *err)
{
    (void)p, (void)template, (void)language, (void)err;
    return KIND;
}

int __wrap_catalog_reckon(const struct catalog_kind *kind, const struct resource_spec *over,
                          struct spawn_limits *out, struct error *err)
{
    (void)kind, (void)err;
    *out = (struct spawn_limits){.memory_bytes = over->memory_bytes};
    return 0;
}

const struct spawn_limits *__wrap_catalog_limits(const struct catalog_kind *kind)
{
    static const struct spawn_limits none;
    (void)kind;
    return &none;
}

int __wrap_catalog_take(struct catalog_kind *kind, const struct catalog_extra *extra,
                        struct session **out, struct catalog_kind **held, bool *is_parked,
                        const struct session_events *events, void *ctx, struct error *err)
{
    (void)err;
    taken_memory = extra->over->memory_bytes;
    struct session *s = xcalloc(1, sizeof(*s));
    *s = (struct session){.events = events, .ctx = ctx};
    *is_parked = false;
    *held = kind;
    *out = sessions[session_count++] = s;
    return 0;
}

void __wrap_catalog_let_go(struct catalog_kind *kind)
{
    (void)kind;
}

json_t *__wrap_catalog_requirements(const struct catalog_kind *kind)
{
    (void)kind;
    return json_array();
}

int __wrap_plane_choose_network(const struct plane *p, const struct network_spec *wish,
                                const struct catalog_kind *kind, struct network_spec *out,
                                struct error *err)
{
    (void)p, (void)wish, (void)kind, (void)err;
    *out = (struct network_spec){.policy = NETWORK_NONE};
    return 0;
}

bool __wrap_plane_go_out(struct plane *p, struct session *session, const struct plane_way *way,
                         passage_fn fn, void *ctx)
{
    (void)p, (void)session, (void)way;
    way_fn = fn;
    way_ctx = ctx;
    return !goes_out;
}

int __wrap_job_fill(struct job *j, const struct code_wish *wish, const struct catalog_kind *kind,
                    char *const *env, struct error *err)
{
    (void)wish, (void)kind, (void)env, (void)err;
    j->language = xstrdup("python");
    return 0;
}

const struct session_info *__wrap_session_info(const struct session *s)
{
    return &s->info;
}

int __wrap_session_execute(struct session *s, const struct cell_request *request, bool may_queue,
                           const struct execution_events *events, void *ctx, struct error *err)
{
    (void)request, (void)may_queue, (void)err;
    s->execution = events;
    s->execution_ctx = ctx;
    return 0;
}

void __wrap_session_close(struct session *s)
{
    s->info.state = SESSION_TERMINATING;
}

void __wrap_session_free(struct session *s)
{
    for (size_t i = 0; i < session_count; i++) {
        if (sessions[i] == s)
            sessions[i] = NULL;
    }
    free(s);
}

void __wrap_store_keep_execution(struct store *store, const struct store_execution *e, store_fn fn,
                                 void *ctx)
{
    (void)store, (void)e;
    fn(ctx, &(struct store_answer){0});
}

/* --- the scene -------------------------------------------------------------------------------- */

struct scene {
    struct plane plane;
    char ids[ASKED_MAX][ID_BYTES];
    size_t asked, told, refused, failed;
};

static void on_told(void *ctx, const char *text, size_t len, const struct error *err)
{
    (void)text, (void)len;
    struct scene *s = ctx;
    s->told++;
    s->refused += err && err->code == ERROR_LIMIT && strcmp(err->word, "too_many_executions") == 0;
    s->failed += err && err->code == ERROR_UNAVAILABLE;
}

static void open_scene(struct scene *s)
{
    session_count = 0;
    goes_out = false;
    *s = (struct scene){.plane = {.order = {.max_executions = MAX_RUNNING, .node = "node"}}};
}

static void ask(struct scene *s)
{
    static const struct code_wish wish;
    assert_true(s->asked < ASKED_MAX);
    plane_execute_once(&s->plane, &(struct plane_caller){.owner = "key_a"}, &wish,
                       s->ids[s->asked++], on_told, s);
}

static void enter(struct session *s, enum session_state state)
{
    s->info.state = state;
    s->events->changed(s->ctx, s);
}

static void end_code(struct session *s)
{
    struct execution e;
    execution_init(&e, &(struct spawn_limits){0}, 1000, KIB);
    e.verdict.state = EXECUTION_COMPLETED;
    s->execution->ended(s->execution_ctx, &e);
    execution_release(&e);
}

static uint64_t count_running(const struct scene *s)
{
    struct plane_info info;
    plane_get_info(&s->plane, &info);
    return info.running;
}

static void close_scene(struct scene *s)
{
    for (size_t i = 0; i < session_count; i++) {
        if (sessions[i])
            enter(sessions[i], SESSION_TERMINATED);
    }
    assert_int_equal(s->told, s->asked);
    assert_int_equal(count_running(s), 0);
    assert_null(map_next(&s->plane.jobs, NULL));
    map_release(&s->plane.jobs);
    map_release(&s->plane.sessions);
}

/* --- how many --------------------------------------------------------------------------------- */

static void test_together(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s);
    for (size_t i = 0; i < MAX_RUNNING + 1; i++)
        ask(&s);
    assert_int_equal(s.refused, 1);
    assert_int_equal(count_running(&s), 0); /* what waits for its sandbox does not run */
    enter(sessions[0], SESSION_READY);
    enter(sessions[1], SESSION_READY);
    assert_int_equal(count_running(&s), MAX_RUNNING);
    end_code(sessions[0]);
    assert_int_equal(s.told, 2);
    ask(&s); /* there is room again */
    assert_int_equal(s.refused, 1);
    enter(sessions[2], SESSION_READY);
    end_code(sessions[1]);
    end_code(sessions[2]);
    close_scene(&s);
}

struct lost_case {
    const char *name;
    enum session_state state;
};

static const struct lost_case lost_cases[] = {
    {"one whose sandbox fails gives its place away", SESSION_FAILED},
    {"one whose sandbox ends before it is ready does, too", SESSION_TERMINATED},
};

static void test_lost(void **state)
{
    const struct lost_case *c = *state;
    struct scene s;
    open_scene(&s);
    ask(&s);
    ask(&s);
    for (size_t i = 0; i < 2; i++) {
        error_set(&sessions[i]->info.error, ERROR_UNAVAILABLE, "the sandbox is gone");
        enter(sessions[i], c->state);
    }
    assert_int_equal(s.failed, 2);
    ask(&s);
    ask(&s);
    assert_int_equal(s.refused, 0);
    assert_int_equal(session_count, 4);
    close_scene(&s);
}

static void cancel(struct scene *s, size_t i)
{
    struct scene other = {0}; /* who cancels is not who asked */
    plane_cancel(&s->plane, &(struct plane_caller){.owner = "key_a"}, s->ids[i], on_told, &other);
    assert_int_equal(other.told, 1);
}

static void test_cancelled(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s);
    ask(&s);
    ask(&s);
    cancel(&s, 0);
    assert_int_equal(sessions[0]->info.state, SESSION_TERMINATING); /* it is not waited for */
    assert_int_equal(s.told, 1);
    ask(&s);
    assert_int_equal(s.refused, 0);
    cancel(&s, 0); /* which changes nothing any more */
    close_scene(&s);
}

static void test_cancelled_on_the_way(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s);
    goes_out = true;
    ask(&s);
    enter(sessions[0], SESSION_READY);
    assert_int_equal(s.told, 0);
    cancel(&s, 0);
    assert_int_equal(s.told, 1);
    way_fn(way_ctx, NULL);
    assert_null(sessions[0]->execution); /* it is too late to begin */
    close_scene(&s);
}

static void on_quota(void *ctx, const char *text, size_t len, const struct error *err)
{
    (void)text, (void)len;
    char *word = ctx;
    snprintf(word, WORD_BYTES, "%.99s", err ? err->word ? err->word : err->msg : "");
}

/* Before a sandbox is taken, and by what was asked for: the template's would have passed. */
static void test_quota(void **state)
{
    (void)state;
    struct scene s;
    char word[WORD_BYTES] = "";
    const struct store_amounts quota = {.memory_bytes = 100 * MIB};
    const struct plane_caller who = {.owner = "key_a", .quota = &quota};
    struct code_wish wish = {.resources = {.memory_bytes = 101 * MIB}};
    open_scene(&s);
    plane_execute_once(&s.plane, &who, &wish, s.ids[0], on_quota, word);
    assert_string_equal(word, "quota_exceeded");
    assert_int_equal(session_count, 0);
    wish.resources = (struct resource_spec){.forks = 1};
    plane_execute_once(&s.plane, &who, &wish, s.ids[0], on_quota, word);
    assert_string_equal(word, "resources.forks: only a session can be forked");
    wish.resources = (struct resource_spec){.memory_bytes = 100 * MIB};
    plane_execute_once(&s.plane, &who, &wish, s.ids[0], on_quota, word);
    assert_int_equal(session_count, 1);
    assert_int_equal(taken_memory, 100 * MIB);
    close_scene(&s);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "its quota is that of the limits that it asks for", test_quota);
    check_one(&check, "those that wait for their sandboxes are counted", test_together);
    check_rows(&check, lost_cases, test_lost);
    check_one(&check, "one that is cancelled before it begins gives its place away",
              test_cancelled);
    check_one(&check, "one that is cancelled on its way out never begins",
              test_cancelled_on_the_way);
    return check_run(&check, "job_once");
}
