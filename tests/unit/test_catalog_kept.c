/* test_catalog_kept.c - who asks twice for the same packages finds the second sandbox parked
 *
 * Pools, the clock, the timer and the spawner's answers are of our own, and so is the one runner.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check.h"
#include "core/catalog_inside.h"
#include "runners.h"

#define SECOND_NS 1000000000ll

/* --- a world without sandboxes --------------------------------------------------------------- */

int __wrap_runner_list_load(struct runner_list *out, const char *const *data_dirs,
                            struct error *err);
int __wrap_runner_list_load(struct runner_list *out, const char *const *data_dirs,
                            struct error *err)
{
    (void)data_dirs, (void)err;
    *out = (struct runner_list){.has_images = true};
    runners_add(out, "python", "[python]\ncommand = /usr/bin/python3 {file}\n");
    return 0;
}

int __wrap_runner_find_kernel(struct runner_kernel *out, const struct runner *runner,
                              const char *recipes_dir, struct error *err);
int __wrap_runner_find_kernel(struct runner_kernel *out, const struct runner *runner,
                              const char *recipes_dir, struct error *err)
{
    (void)recipes_dir, (void)err;
    runners_fill_kernel(out, runner);
    return 0;
}

int __wrap_runner_find_installer(struct runner_installer *out, const struct runner *runner,
                                 const char *recipes_dir, struct error *err);
int __wrap_runner_find_installer(struct runner_installer *out, const struct runner *runner,
                                 const char *recipes_dir, struct error *err)
{
    (void)runner, (void)recipes_dir, (void)err;
    *out = (struct runner_installer){.index = RUNNER_INDEX_PYTHON};
    return 0;
}

static int64_t now_ns;

int64_t __wrap_clock_now_ns(void);
int64_t __wrap_clock_now_ns(void)
{
    return now_ns;
}

/* There is one timer at most. */
struct loop_timer {
    loop_timer_fn fn;
    void *ctx;
};

static struct loop_timer *timer;

struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx);
struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx)
{
    (void)loop, (void)delay_ms;
    assert_null(timer);
    timer = xcalloc(1, sizeof(*timer));
    *timer = (struct loop_timer){.fn = fn, .ctx = ctx};
    return timer;
}

void __wrap_loop_timer_free(struct loop_timer *t);
void __wrap_loop_timer_free(struct loop_timer *t)
{
    if (t)
        timer = NULL;
    free(t);
}

static bool is_unwanted;

void __wrap_spawner_client_ask(struct spawner_client *client, struct spawn_message *m,
                               spawner_reply_fn reply, void *ctx);
void __wrap_spawner_client_ask(struct spawner_client *client, struct spawn_message *m,
                               spawner_reply_fn reply, void *ctx)
{
    (void)client;
    assert_int_equal(m->verb, SPAWN_FIND_LAYER);
    struct spawn_message answer = {.layer_found = {.is_unwanted = is_unwanted}};
    memcpy(answer.layer_found.digest, m->layer.digest, sizeof(answer.layer_found.digest));
    reply(ctx, &answer, NULL, NULL);
}

static void look(void)
{
    assert_non_null(timer);
    timer->fn(timer->ctx);
}

/* --- pools ----------------------------------------------------------------------------------- */

struct pool {
    struct pool *next;
    struct pool_order order;
    void (*closed)(void *ctx);
    void *ctx;
    unsigned taken;
    bool has_failed;
};

static struct pool *pools;

int __wrap_pool_open(struct pool **out, struct loop *loop, struct spawner_client *spawner,
                     const struct pool_order *order, struct error *err);
int __wrap_pool_open(struct pool **out, struct loop *loop, struct spawner_client *spawner,
                     const struct pool_order *order, struct error *err)
{
    (void)loop, (void)spawner, (void)err;
    struct pool *p = xcalloc(1, sizeof(*p));
    *p = (struct pool){.next = pools, .order = *order};
    pools = *out = p;
    return 0;
}

void __wrap_pool_close(struct pool *p, void (*closed)(void *ctx), void *ctx);
void __wrap_pool_close(struct pool *p, void (*closed)(void *ctx), void *ctx)
{
    p->closed = closed;
    p->ctx = ctx;
}

void __wrap_pool_free(struct pool *p);
void __wrap_pool_free(struct pool *p)
{
    struct pool **at = &pools;
    while (p && *at != p)
        at = &(*at)->next;
    if (p)
        *at = p->next;
    free(p);
}

int __wrap_pool_take(struct pool *p, struct session **out, bool *is_parked,
                     const struct session_events *events, void *ctx, struct error *err);
int __wrap_pool_take(struct pool *p, struct session **out, bool *is_parked,
                     const struct session_events *events, void *ctx, struct error *err)
{
    (void)out, (void)events, (void)ctx, (void)err;
    *is_parked = p->taken++ > 0;
    return 0;
}

uint64_t __wrap_pool_zygote(const struct pool *p);
uint64_t __wrap_pool_zygote(const struct pool *p)
{
    return p->order.warm ? 77 : 0;
}

void __wrap_pool_get_info(const struct pool *p, struct pool_info *out);
void __wrap_pool_get_info(const struct pool *p, struct pool_info *out)
{
    *out = (struct pool_info){.parked = !p->has_failed};
    snprintf(out->error.msg, sizeof(out->error.msg), "%s", p->has_failed ? "no such thing" : "");
}

int __wrap_session_open(struct session **out, struct loop *loop, struct spawner_client *spawner,
                        const struct session_template *template,
                        const struct session_events *events, void *ctx, struct error *err);
int __wrap_session_open(struct session **out, struct loop *loop, struct spawner_client *spawner,
                        const struct session_template *template,
                        const struct session_events *events, void *ctx, struct error *err)
{
    (void)out, (void)loop, (void)spawner, (void)template, (void)events, (void)ctx, (void)err;
    return 0;
}

static size_t count_open(void)
{
    size_t count = 0;
    for (const struct pool *p = pools; p; p = p->next)
        count += !p->closed;
    return count;
}

static void end_closing(void)
{
    for (struct pool *p = pools, *next; p; p = next) {
        next = p->next;
        if (p->closed)
            p->closed(p->ctx); /* which frees it */
    }
}

/* --- tests ----------------------------------------------------------------------------------- */

static struct catalog *open_catalog(void)
{
    static const struct packages_source source = {.recipes_dir = "/nowhere"};
    static char builder; /* nobody looks into it */
    struct catalog *c;
    struct error err;
    struct catalog_order order = {.packages = &source, .builder = (struct builder *)&builder};
    order.bounds.usual = order.bounds.most = (struct spawn_limits){.memory_bytes = 256 * MIB,
                                                                   .disk_bytes = 64 * MIB,
                                                                   .inodes = 1000,
                                                                   .cpu_milli = 500,
                                                                   .pids = 64,
                                                                   .open_files = 64};
    now_ns = SECOND_NS;
    is_unwanted = false;
    assert_int_equal(catalog_open(&c, &order, &err), 0);
    scoped_json json_t *document = json_pack("{s:s, s:s}", "name", "a", "language", "python");
    assert_int_equal(catalog_start(c, &err), 0);
    assert_int_equal(catalog_put(c, "tpl_1", document, &err), 0);
    return c;
}

static struct catalog_kind *take_with(struct catalog *c, const char *package, bool *is_parked,
                                      const struct resource_spec *over)
{
    static const struct session_events nothing;
    char *items[] = {(char *)package, NULL};
    const struct param_strings list = {.items = items, .count = 1};
    const struct catalog_extra extra = {.over = over, .requirements = package ? &list : NULL};
    struct session *session = NULL;
    struct catalog_kind *held;
    struct error err;
    if (catalog_take(catalog_find(c, "a", &err), &extra, &session, &held, is_parked, &nothing, NULL,
                     &err) < 0)
        fail_msg("%s", err.msg);
    return held;
}

static struct catalog_kind *take(struct catalog *c, const char *package)
{
    bool is_parked;
    return take_with(c, package, &is_parked, NULL);
}

static void test_second(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    bool is_parked;
    struct catalog_kind *first = take_with(c, "humanize", &is_parked, NULL);
    assert_false(is_parked);
    assert_int_equal(pools->order.min_parked, 2);
    assert_null(pools->order.warm);
    assert_int_equal(pools->order.lent(pools->order.borrower), 77); /* that of the template */
    catalog_let_go(first);
    struct catalog_kind *second = take_with(c, "humanize", &is_parked, NULL);
    assert_ptr_equal(first, second);
    assert_true(is_parked);
    struct catalog_kind *spelled = take_with(c, " Humanize", &is_parked, NULL);
    assert_ptr_equal(spelled, second);
    assert_true(is_parked);
    struct catalog_kind *plain = take(c, NULL), *other = take(c, "tabulate");
    assert_ptr_not_equal(plain, second);
    assert_ptr_not_equal(other, second);
    catalog_let_go(spelled);
    catalog_let_go(second);
    catalog_let_go(other);
    catalog_let_go(plain);
    assert_int_equal(count_open(), 3);
    catalog_free(c);
    assert_null(pools);
    assert_null(timer);
}

/* With limits of its own nobody else could use it. */
static void test_limits(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    const struct resource_spec over = {.pids = 8};
    bool is_parked = true;
    catalog_let_go(take(c, NULL)); /* the template's own pool */
    for (int i = 0; i < 2; i++) {
        struct catalog_kind *k = take_with(c, "humanize", &is_parked, &over);
        assert_false(is_parked);
        assert_int_equal(count_open(), 1);
        catalog_let_go(k);
    }
    assert_null(timer);
    catalog_free(c);
}

static void test_age(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    struct catalog_kind *session = take(c, "humanize");
    now_ns += 59 * SECOND_NS;
    look();
    assert_int_equal(count_open(), 2);
    catalog_let_go(take(c, "humanize")); /* counts from here */
    now_ns += 59 * SECOND_NS;
    look();
    assert_int_equal(count_open(), 2);
    now_ns += 2 * SECOND_NS;
    look();
    assert_int_equal(count_open(), 1); /* though a session has it still */
    assert_null(timer);
    end_closing();
    struct catalog_kind *anew = take(c, "humanize");
    assert_ptr_not_equal(anew, session);
    catalog_let_go(anew);
    catalog_let_go(session);
    catalog_free(c);
    assert_null(pools);
}

static void test_count(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    for (char name[] = "a"; *name < 'a' + CATALOG_KEPT_MAX; (*name)++) {
        now_ns++;
        catalog_let_go(take(c, name));
    }
    now_ns++;
    catalog_let_go(take(c, "a")); /* so that b is the oldest */
    assert_int_equal(count_open(), 1 + CATALOG_KEPT_MAX);
    now_ns++;
    catalog_let_go(take(c, "z"));
    assert_int_equal(count_open(), 1 + CATALOG_KEPT_MAX);
    bool is_parked;
    catalog_let_go(take_with(c, "a", &is_parked, NULL));
    assert_true(is_parked);
    catalog_let_go(take_with(c, "b", &is_parked, NULL));
    assert_false(is_parked);
    catalog_free(c); /* with pools that are still closing */
    assert_null(pools);
}

static void test_unwanted(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    catalog_let_go(take(c, "humanize"));
    look();
    assert_int_equal(count_open(), 2);
    is_unwanted = true;
    look();
    assert_int_equal(count_open(), 1);
    catalog_free(c);
}

static void test_failed(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    catalog_let_go(take(c, "nonesuch"));
    pools->has_failed = true;
    look();
    assert_int_equal(count_open(), 1);
    catalog_free(c);
}

static int closings;

static void on_closed(void *ctx)
{
    (void)ctx;
    closings++;
}

static void test_end(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    catalog_let_go(take(c, "humanize"));
    catalog_remove(c, "tpl_1");        /* what was made from it goes with it */
    assert_int_equal(count_open(), 1); /* whose interpreter is lent until then */
    assert_null(timer);
    end_closing();
    assert_int_equal(count_open(), 0);
    end_closing();
    assert_null(pools);
    catalog_free(c);

    c = open_catalog();
    catalog_let_go(take(c, "humanize"));
    closings = 0;
    catalog_close(c, on_closed, NULL);
    assert_null(timer);
    assert_int_equal(closings, 0);
    end_closing();
    assert_int_equal(closings, 1);
    catalog_free(c);
    assert_null(pools);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "the second who asks finds one parked", test_second);
    check_one(&check, "none is kept that has limits of its own", test_limits);
    check_one(&check, "one that nobody asks for goes after a minute", test_age);
    check_one(&check, "the one that was asked for longest ago makes room", test_count);
    check_one(&check, "one whose layer is to be removed goes", test_unwanted);
    check_one(&check, "one whose packages cannot be installed goes", test_failed);
    check_one(&check, "all go with their template, and with the catalog", test_end);
    return check_run(&check, "catalog_kept");
}
