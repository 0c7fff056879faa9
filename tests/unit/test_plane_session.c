/* test_plane_session.c - who waits for a reset is told of it, however it ends
 *
 * The session is played by the test. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check.h"
#include "core/plane_inside.h"

#define OWNER "key_a"
#define ID    "ses_0123456789abcdefghjkmnpqr"

/* --- a session -------------------------------------------------------------------------------- */

struct session {
    struct session_info info;
    struct live *live;
    bool refuses, fails_at_once;
};

int __wrap_session_reset(struct session *s, struct error *err);
const struct session_info *__wrap_session_info(const struct session *s);
void __wrap_session_get_record(struct session *s, struct session_record *out);
void __wrap_session_free(struct session *s);
void __wrap_store_change_session(struct store *store, const struct store_session_change *change,
                                 store_fn fn, void *ctx);

static void fail_session(struct session *s)
{
    s->info.state = SESSION_FAILED;
    error_set(&s->info.error, ERROR_LIMIT, "too many open files");
    live_events.changed(s->live, s);
}

int __wrap_session_reset(struct session *s, struct error *err)
{
    if (s->refuses)
        return error_set(err, ERROR_CONFLICT, "the session is creating");
    s->info.state = SESSION_CREATING;
    if (s->fails_at_once)
        fail_session(s);
    return 0;
}

const struct session_info *__wrap_session_info(const struct session *s)
{
    return &s->info;
}

void __wrap_session_get_record(struct session *s, struct session_record *out)
{
    (void)s;
    *out = (struct session_record){0};
}

void __wrap_session_free(struct session *s)
{
    (void)s;
}

void __wrap_store_change_session(struct store *store, const struct store_session_change *change,
                                 store_fn fn, void *ctx)
{
    (void)store, (void)change;
    fn(ctx, &(struct store_answer){0});
}

/* --- the scene -------------------------------------------------------------------------------- */

struct told {
    unsigned count;
    char msg[512];
};

struct scene {
    struct plane plane;
    struct session session;
    struct live *live;
};

static void on_told(void *ctx, const char *text, size_t len, const struct error *err)
{
    (void)text, (void)len;
    struct told *t = ctx;
    t->count++;
    snprintf(t->msg, sizeof(t->msg), "%s", err ? err->msg : "done");
}

static void open_scene(struct scene *s)
{
    *s = (struct scene){.session = {.info = {.state = SESSION_READY}}};
    s->plane.order.node = "node";
    s->live = live_new(&s->plane, ID, OWNER, NULL);
    s->live->is_known = true;
    s->live->facts = json_object();
    s->live->session = &s->session;
    s->session.live = s->live;
}

static void close_scene(struct scene *s)
{
    assert_null(s->live->resetting);
    live_forget(s->live);
    map_release(&s->plane.sessions);
    map_release(&s->plane.names);
}

static void reset(struct scene *s, struct told *told)
{
    plane_reset(&s->plane, &(struct plane_caller){.owner = OWNER}, ID, on_told, told);
}

/* --- resets ----------------------------------------------------------------------------------- */

static void test_fails_later(void **state)
{
    (void)state;
    struct scene s;
    struct told told = {0};
    open_scene(&s);
    reset(&s, &told);
    assert_int_equal(told.count, 0);
    fail_session(&s.session);
    assert_int_equal(told.count, 1);
    assert_string_equal(told.msg, "too many open files");
    close_scene(&s);
}

static void test_fails_at_once(void **state)
{
    (void)state;
    struct scene s;
    struct told told = {0};
    open_scene(&s);
    s.session.fails_at_once = true;
    reset(&s, &told);
    assert_int_equal(told.count, 1);
    assert_string_equal(told.msg, "too many open files");
    close_scene(&s);
}

static void test_refused(void **state)
{
    (void)state;
    struct scene s;
    struct told first = {0}, second = {0};
    open_scene(&s);
    reset(&s, &first);
    s.session.refuses = true;
    reset(&s, &second);
    assert_int_equal(second.count, 1);
    assert_string_equal(second.msg, "the session is creating");
    assert_int_equal(first.count, 0); /* whose own is still under way */
    fail_session(&s.session);
    assert_int_equal(first.count, 1);
    assert_int_equal(second.count, 1);
    close_scene(&s);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "a reset that fails is told to who waits", test_fails_later);
    check_one(&check, "also when it fails at once", test_fails_at_once);
    check_one(&check, "one that is refused is told to who asked for it alone", test_refused);
    return check_run(&check, "plane_session");
}
