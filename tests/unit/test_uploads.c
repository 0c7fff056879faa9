/* test_uploads.c - what was uploaded and never placed goes after a day, and nothing else does
 *
 * A blob store that is a list of keys with their ages. Timers come at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/uploads.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "blob/blob_ops.h"
#include "check.h"

#define COUNT   250
#define HOUR_NS (3600 * 1000000000ll)

struct loop_timer *__real_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx);
struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx);

struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx)
{
    return __real_loop_timer_new(loop, MIN(delay_ms, 20) / 10, fn, ctx);
}

struct fake {
    struct blob blob;
    struct loop *loop;
    bool is_there[COUNT];
    bool is_dead; /* nothing can be removed */
    unsigned lists, removals;
    /* the question that waits; answers come from the loop */
    struct loop_timer *timer;
    size_t first, limit;
    blob_list_fn list_fn;
    blob_fn fn;
    void *ctx;
};

static void key_of(size_t i, char out[64])
{
    snprintf(out, 64, "uploads/ses_1/%03zu", i);
}

/* Every other one is old. */
static bool is_old(size_t i)
{
    return i % 2 == 0;
}

static void tell_page(struct fake *f)
{
    static char keys[COUNT][64];
    struct blob_entry entries[COUNT];
    struct blob_page page = {.entries = entries};
    for (size_t i = f->first; i < COUNT; i++) {
        if (!f->is_there[i])
            continue;
        page.has_more = page.count == f->limit;
        if (page.has_more)
            break;
        key_of(i, keys[i]);
        entries[page.count++] = (struct blob_entry){
            keys[i], {.modified_ns = clock_wall_ns() - (is_old(i) ? 25 : 23) * HOUR_NS}};
    }
    f->list_fn(f->ctx, NULL, &page);
}

static void on_time(void *ctx)
{
    struct fake *f = ctx;
    struct error err;
    loop_timer_free(take_ptr(&f->timer));
    error_set(&err, ERROR_UNAVAILABLE, "the storage is dead");
    if (f->fn) {
        blob_fn fn = f->fn;
        f->fn = NULL;
        fn(f->ctx, f->is_dead ? &err : NULL);
    } else {
        tell_page(f);
    }
    loop_stop(f->loop);
}

static void list(struct blob *blob, const struct blob_list_order *order, blob_list_fn fn, void *ctx)
{
    struct fake *f = (struct fake *)blob;
    f->lists++;
    f->first = order->after ? strtoul(strrchr(order->after, '/') + 1, NULL, 10) + 1 : 0;
    f->limit = order->limit;
    f->list_fn = fn;
    f->ctx = ctx;
    f->timer = loop_timer_new(f->loop, 1, on_time, f);
}

static void remove_blob(struct blob *blob, const char *key, blob_fn fn, void *ctx)
{
    struct fake *f = (struct fake *)blob;
    f->removals++;
    f->is_there[strtoul(strrchr(key, '/') + 1, NULL, 10)] = f->is_dead;
    f->fn = fn;
    f->ctx = ctx;
    f->timer = loop_timer_new(f->loop, 1, on_time, f);
}

static void presign(struct blob *blob, const struct blob_presign_order *order, struct strbuf *out)
{
    (void)blob, (void)order, (void)out;
}

static const struct blob_ops with_addresses = {
    .list = list, .remove = remove_blob, .presign = presign};
static const struct blob_ops without = {.list = list, .remove = remove_blob};

static void fake_open(struct fake *f, const struct blob_ops *ops)
{
    struct error err;
    *f = (struct fake){.blob.ops = ops};
    memset(f->is_there, true, sizeof(f->is_there));
    assert_int_equal(loop_open(&f->loop, &err), 0);
}

static void fake_close(struct fake *f)
{
    loop_timer_free(f->timer);
    loop_free(f->loop);
}

static size_t count_there(const struct fake *f, bool old)
{
    size_t count = 0;
    for (size_t i = 0; i < COUNT; i++)
        count += f->is_there[i] && is_old(i) == old;
    return count;
}

static const struct log quiet = {.fd = -1, .level = LOG_LEVEL_COUNT};

static void test_old(void **state)
{
    (void)state;
    struct fake f;
    fake_open(&f, &with_addresses);
    struct uploads *u = uploads_new(f.loop, &f.blob, &quiet);
    while (f.lists < 5) /* three pages, and the next walk */
        loop_run(f.loop);
    assert_int_equal(count_there(&f, true), 0);
    assert_int_equal(count_there(&f, false), COUNT / 2);
    assert_int_equal(f.removals, COUNT / 2);
    uploads_free(u);
    fake_close(&f);
}

static void test_dead(void **state)
{
    (void)state;
    struct fake f;
    fake_open(&f, &with_addresses);
    f.is_dead = true;
    struct uploads *u = uploads_new(f.loop, &f.blob, &quiet);
    while (f.lists < 4)
        loop_run(f.loop);
    assert_int_equal(count_there(&f, true), COUNT / 2);
    f.is_dead = false;
    while (count_there(&f, true) > 0) /* the next walk has them again */
        loop_run(f.loop);
    uploads_free(u);
    fake_close(&f);
}

static void on_nothing(void *ctx, const struct error *err)
{
    (void)ctx, (void)err;
}

static void test_no_addresses(void **state)
{
    (void)state;
    struct fake f;
    char key[UPLOAD_KEY_BYTES];
    fake_open(&f, &without);
    struct uploads *u = uploads_new(f.loop, &f.blob, &quiet);
    f.fn = on_nothing;
    f.timer = loop_timer_new(f.loop, 20, on_time, &f); /* behind any that uploads would have */
    while (f.timer)
        loop_run(f.loop);
    assert_int_equal(f.lists, 0);
    uploads_free(u);
    upload_key("ses_a", "upl_b", key);
    assert_string_equal(key, "uploads/ses_a/upl_b");
    fake_close(&f);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "old ones go, young ones stay", test_old);
    check_one(&check, "what cannot be removed goes later", test_dead);
    check_one(&check, "where there are no addresses nobody looks", test_no_addresses);
    return check_run(&check, "uploads");
}
