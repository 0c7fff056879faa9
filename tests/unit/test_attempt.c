/* test_attempt.c - Idempotency-Key: what who comes again is told
 *
 * A real store; handlers and their answers are the test's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/api_inside.h"
#include "base/memory.h"
#include "store_world.h"

#define KEY "key-1"

const char *__wrap_http_body(const struct http_request *r, size_t *len);
const char *__wrap_http_path(const struct http_request *r);
void __wrap_api_answer_text(struct api_call *call, int status, const char *text, size_t len);
void __wrap_api_fail(struct api_call *call, const struct error *err);

const char *__wrap_http_body(const struct http_request *r, size_t *len)
{
    (void)r;
    *len = 2;
    return "{}";
}

const char *__wrap_http_path(const struct http_request *r)
{
    (void)r;
    return "/execute";
}

/* --- the scene -------------------------------------------------------------------------------- */

/* What became of one request. */
struct
try {
    struct api_call call; /* the first, so that one is the other */
    struct world *w;
    enum { NOTHING, HANDLED, AGAIN, REPLAYED, FAILED } what;
    int status;
    char text[64];
    struct error err;
};

struct scene {
    struct world w;
    struct api api;
    struct api_route row;
};

static void note(struct api_call *call, int what)
{
    struct try *t = (struct try *)call;
    assert_int_equal(t->what, NOTHING);
    t->what = what;
    t->w->waiting--;
    loop_stop(t->w->loop);
}

static void on_handled(struct api_call *call)
{
    note(call, HANDLED);
}

static void on_again(struct api_call *call)
{
    note(call, AGAIN);
}

void __wrap_api_answer_text(struct api_call *call, int status, const char *text, size_t len)
{
    struct try *t = (struct try *)call;
    t->status = status;
    snprintf(t->text, sizeof(t->text), "%.*s", (int)len, text);
    note(call, REPLAYED);
}

void __wrap_api_fail(struct api_call *call, const struct error *err)
{
    ((struct try *)call)->err = *err;
    note(call, FAILED);
}

static void open_scene(struct scene *s)
{
    *s = (struct scene){
        .row = {.id = "execute", .handler = on_handled, .again = on_again, .makes = ID_EXECUTION}};
    world_open(&s->w);
    s->api = (struct api){.loop = s->w.loop, .store = s->w.store, .node = "node", .epoch = 1};
}

static void close_scene(struct scene *s)
{
    assert_null(s->api.outcomes);
    world_close(&s->w);
}

static void begin(struct scene *s, struct try *t)
{
    *t = (struct try){.call = {.api = &s->api, .row = &s->row, .caller = {.owner = "key_a"}},
                      .w = &s->w};
    s->w.waiting++;
    attempt_begin(&t->call, KEY);
    world_wait(&s->w);
}

static void on_turn(void *ctx)
{
    loop_stop(ctx);
}

/* Answers, and waits until that is written. */
static void end(struct scene *s, struct try *t, const char *text, size_t len)
{
    attempt_end(&t->call, 200, text, len);
    while (s->api.outcomes) {
        struct loop_timer *timer = loop_timer_new(s->w.loop, 1, on_turn, s->w.loop);
        loop_run(s->w.loop);
        loop_timer_free(timer);
    }
}

static void end_large(struct scene *s, struct try *t)
{
    scoped_free char *text = xmalloc(STORE_RECORD_MAX_BYTES + 1);
    memset(text, 'x', STORE_RECORD_MAX_BYTES + 1);
    end(s, t, text, STORE_RECORD_MAX_BYTES + 1);
}

static void release(struct try *t)
{
    free(t->call.attempt.key);
}

/* --- repeats ---------------------------------------------------------------------------------- */

static void test_replayed(void **state)
{
    (void)state;
    struct scene s;
    struct try first, second;
    open_scene(&s);
    begin(&s, &first);
    assert_int_equal(first.what, HANDLED);
    end(&s, &first, "{\"a\":1}", 7);
    begin(&s, &second);
    assert_int_equal(second.what, REPLAYED);
    assert_int_equal(second.status, 200);
    assert_string_equal(second.text, "{\"a\":1}");
    release(&first);
    release(&second);
    close_scene(&s);
}

static void test_under_way(void **state)
{
    (void)state;
    struct scene s;
    struct try first, second;
    open_scene(&s);
    begin(&s, &first);
    begin(&s, &second);
    assert_int_equal(second.what, FAILED);
    assert_string_equal(second.err.word, "idempotency_in_progress");
    release(&first);
    release(&second);
    close_scene(&s);
}

/* It had its effect, which must not come twice: what was made is told as it is now. */
static void test_large(void **state)
{
    (void)state;
    struct scene s;
    struct try first, second, third;
    open_scene(&s);
    begin(&s, &first);
    end_large(&s, &first);
    begin(&s, &second);
    assert_int_equal(second.what, AGAIN);
    assert_string_equal(api_resource(&second.call), first.call.attempt.resource);
    assert_true(api_is_done(&second.call));
    end(&s, &second, "{}", 2); /* which is not kept */
    attempt_drop(&second.call);
    begin(&s, &third);
    assert_int_equal(third.what, AGAIN);
    release(&first);
    release(&second);
    release(&third);
    close_scene(&s);
}

static void test_large_without_again(void **state)
{
    (void)state;
    struct scene s;
    struct try first, second;
    open_scene(&s);
    s.row.again = NULL;
    begin(&s, &first);
    end_large(&s, &first);
    begin(&s, &second);
    assert_int_equal(second.what, FAILED);
    assert_int_equal(second.err.code, ERROR_CONFLICT);
    assert_null(second.err.word); /* it is not under way any more */
    release(&first);
    release(&second);
    close_scene(&s);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "who comes again is told the first answer", test_replayed);
    check_one(&check, "one that is under way is refused", test_under_way);
    check_one(&check, "after an answer too large to keep, what was made is looked up", test_large);
    check_one(&check, "or that it was answered is told", test_large_without_again);
    return check_run(&check, "attempt");
}
