/* test_catalog.c - templates come and go, and what was made from them goes on
 *
 * Pools and sessions are of our own, and so are the runners: two images, three languages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/catalog.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "check.h"
#include "runners.h"

/* --- runners --------------------------------------------------------------------------------- */

static int loads;

int __wrap_runner_list_load(struct runner_list *out, const char *const *data_dirs,
                            struct error *err);
int __wrap_runner_find_kernel(struct runner_kernel *out, const struct runner *runner,
                              const char *recipes_dir, struct error *err);

int __wrap_runner_list_load(struct runner_list *out, const char *const *data_dirs,
                            struct error *err)
{
    (void)data_dirs;
    (void)err;
    loads++;
    *out = (struct runner_list){.has_images = true};
    runners_add(out, "python", "[python]\naliases = py\ncommand = /usr/bin/python3 {file}\n");
    runners_add(out, "more",
                "[python]\ncommand = /opt/python {file}\n[bash]\ncommand = /bin/bash "
                "{file}\n[perl]\ncommand = /usr/bin/perl {file}\n");
    return 0;
}

/* perl has none */
int __wrap_runner_find_kernel(struct runner_kernel *out, const struct runner *runner,
                              const char *recipes_dir, struct error *err)
{
    (void)recipes_dir;
    if (strcmp(runner->language, "perl") == 0)
        return error_set(err, ERROR_NOT_FOUND, "perl has no sessions");
    runners_fill_kernel(out, runner);
    out->is_plain = strcmp(runner->language, "bash") == 0;
    return 0;
}

/* --- pools and sessions ---------------------------------------------------------------------- */

struct pool {
    struct pool *next;
    struct pool_order order;
    bool is_warm;
    size_t preloads;
    void (*closed)(void *ctx);
    void *ctx;
    unsigned taken, events;
};

static struct pool *pools;

int __wrap_pool_open(struct pool **out, struct loop *loop, struct spawner_client *spawner,
                     const struct pool_order *order, struct error *err);
void __wrap_pool_close(struct pool *p, void (*closed)(void *ctx), void *ctx);
void __wrap_pool_free(struct pool *p);
int __wrap_pool_take(struct pool *p, struct session **out, bool *is_parked,
                     const struct session_events *events, void *ctx, struct error *err);
uint64_t __wrap_pool_zygote(const struct pool *p);
void __wrap_pool_get_info(const struct pool *p, struct pool_info *out);
void __wrap_pool_on_event(struct pool *p, const struct spawn_message *m);
int __wrap_session_open(struct session **out, struct loop *loop, struct spawner_client *spawner,
                        const struct session_template *template,
                        const struct session_events *events, void *ctx, struct error *err);

int __wrap_pool_open(struct pool **out, struct loop *loop, struct spawner_client *spawner,
                     const struct pool_order *order, struct error *err)
{
    (void)loop, (void)spawner, (void)err;
    struct pool *p = xcalloc(1, sizeof(*p));
    *p = (struct pool){.next = pools, .order = *order, .is_warm = order->warm};
    while (order->warm && order->warm->preload && order->warm->preload[p->preloads])
        p->preloads++;
    pools = *out = p;
    return 0;
}

void __wrap_pool_close(struct pool *p, void (*closed)(void *ctx), void *ctx)
{
    p->closed = closed;
    p->ctx = ctx;
}

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
                     const struct session_events *events, void *ctx, struct error *err)
{
    (void)out, (void)events, (void)ctx, (void)err;
    p->taken++;
    *is_parked = true;
    return 0;
}

static bool is_cold; /* the warm interpreter is not there yet */

uint64_t __wrap_pool_zygote(const struct pool *p)
{
    return p->is_warm && !is_cold ? 77 : 0;
}

void __wrap_pool_get_info(const struct pool *p, struct pool_info *out)
{
    *out = (struct pool_info){.taken = p->taken};
}

void __wrap_pool_on_event(struct pool *p, const struct spawn_message *m)
{
    (void)m;
    p->events++;
}

static struct session_template opened;
static bool refuses;

int __wrap_session_open(struct session **out, struct loop *loop, struct spawner_client *spawner,
                        const struct session_template *template,
                        const struct session_events *events, void *ctx, struct error *err)
{
    (void)out, (void)loop, (void)spawner, (void)events, (void)ctx;
    opened = *template;
    return refuses ? error_set(err, ERROR_LIMIT, "full") : 0;
}

static size_t pool_count(void)
{
    size_t count = 0;
    for (const struct pool *p = pools; p; p = p->next)
        count++;
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

static const struct spawn_limits usual = {.memory_bytes = 256 * MIB,
                                          .disk_bytes = 64 * MIB,
                                          .inodes = 1000,
                                          .cpu_milli = 500,
                                          .pids = 64,
                                          .open_files = 64,
                                          .lifetime_ms = 1000};

static struct catalog *open_resting(void)
{
    struct catalog *c;
    struct error err;
    struct catalog_order order = {.bounds = {.usual = usual, .most = usual}, .idle_freeze_ms = 5};
    order.bounds.most.memory_bytes = GIB;
    assert_int_equal(catalog_open(&c, &order, &err), 0);
    return c;
}

static struct catalog *open_catalog(void)
{
    struct error err;
    struct catalog *c = open_resting();
    assert_int_equal(catalog_start(c, &err), 0);
    return c;
}

static int put(struct catalog *c, const char *id, const char *text, struct error *err)
{
    json_error_t ignored;
    scoped_json json_t *document = json_loads(text, 0, &ignored);
    assert_non_null(document);
    return catalog_put(c, id, document, err);
}

static void must_put(struct catalog *c, const char *id, const char *text)
{
    struct error err;
    if (put(c, id, text, &err) < 0)
        fail_msg("%s", err.msg);
}

static struct catalog_kind *take(struct catalog_kind *k, const struct resource_spec *over)
{
    static const struct session_events nothing;
    struct session *session = NULL;
    struct catalog_kind *held;
    bool is_parked;
    struct error err;
    const struct catalog_extra extra = {.over = over};
    assert_int_equal(catalog_take(k, &extra, &session, &held, &is_parked, &nothing, NULL, &err), 0);
    assert_int_equal(is_parked, over == NULL);
    return held;
}

static void test_take(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    struct error err;
    struct pool_info info;
    must_put(c, "tpl_1", "{\"name\": \"a\", \"language\": \"python\", \"preload\": [\"json\"]}");
    struct catalog_kind *k = catalog_find(c, "a", &err);
    assert_ptr_equal(k, catalog_find(c, "tpl_1", &err));
    assert_false(catalog_get_pool(k, &info)); /* nobody has asked */
    struct catalog_kind *held = take(k, NULL);
    assert_ptr_equal(held, k);
    assert_true(catalog_get_pool(k, &info) && info.taken == 1);
    assert_true(pools->is_warm);
    assert_int_equal(pools->preloads, 1);
    assert_int_equal(pools->order.max_parked, 16);
    assert_int_equal(catalog_template(k)->idle_freeze_ms, 5);

    const struct resource_spec more = {.memory_bytes = 512 * MIB}, most = {.memory_bytes = 2 * GIB};
    struct spawn_limits limits;
    assert_int_equal(catalog_reckon(k, &more, &limits, &err), 0);
    assert_int_equal(limits.memory_bytes, 512 * MIB);
    assert_int_equal(catalog_reckon(k, &most, &limits, &err), -1);
    struct catalog_kind *other = take(k, &more);
    assert_ptr_not_equal(other, k);
    assert_int_equal(opened.zygote, 77);
    assert_int_equal(opened.limits.memory_bytes, 512 * MIB);
    assert_int_equal(catalog_limits(other)->memory_bytes, 512 * MIB);
    assert_int_equal(catalog_limits(k)->memory_bytes, 256 * MIB);

    catalog_on_event(c, NULL);
    assert_int_equal(pools->events, 1);
    catalog_let_go(other);
    catalog_let_go(held);
    assert_int_equal(pool_count(), 1); /* the catalog holds it, too */
    catalog_free(c);
    assert_int_equal(pool_count(), 0);
}

static void test_replace(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    struct error err;
    must_put(c, "tpl_1", "{\"name\": \"a\", \"language\": \"python\", \"env\": {\"A\": \"1\"}}");
    struct catalog_kind *old = take(catalog_find(c, "a", &err), NULL);
    must_put(c, "tpl_1", "{\"name\": \"b\", \"language\": \"bash\", \"pool\": {\"min\": 2}}");
    assert_int_equal(pool_count(), 2); /* one that is wanted from the start */
    assert_false(pools->is_warm);
    assert_null(catalog_find(c, "a", &err));
    assert_string_equal(err.msg, "no template 'a'");
    assert_string_equal(err.hint, "there are: b");
    assert_string_equal(catalog_spec(old)->name, "a"); /* for its sessions nothing has changed */
    assert_string_equal(catalog_template(old)->env[3], "A=1");
    catalog_let_go(old);
    end_closing();
    assert_int_equal(pool_count(), 1);
    catalog_remove(c, "tpl_1");
    catalog_remove(c, "tpl_1");
    end_closing();
    assert_int_equal(pool_count(), 0);
    catalog_free(c);
}

static int closings;

static void on_closed(void *ctx)
{
    (void)ctx;
    closings++;
}

static void test_close(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    struct error err;
    must_put(c, "tpl_1", "{\"name\": \"a\", \"language\": \"python\"}");
    must_put(c, "tpl_2", "{\"name\": \"b\", \"language\": \"bash\"}");
    struct catalog_kind *a = take(catalog_find(c, "a", &err), NULL);
    struct catalog_kind *b = take(catalog_find(c, "b", &err), NULL);
    closings = 0;
    catalog_close(c, on_closed, NULL);
    assert_int_equal(closings, 0);
    end_closing();
    assert_int_equal(closings, 1);
    catalog_let_go(a);
    catalog_let_go(b);
    catalog_free(c);
    assert_int_equal(pool_count(), 0);

    c = open_catalog();
    catalog_close(c, on_closed, NULL); /* there is nothing to wait for */
    assert_int_equal(closings, 2);
    catalog_free(c);
}

/* Its pool is still closing when the server ends; the sanitizer sees what is left. */
static void test_removed_at_the_end(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    struct error err;
    const struct resource_spec more = {.memory_bytes = 512 * MIB};
    must_put(c, "tpl_1", "{\"name\": \"a\", \"language\": \"python\"}");
    struct catalog_kind *k = catalog_find(c, "a", &err);
    struct catalog_kind *held = take(k, NULL), *other = take(k, &more);
    catalog_remove(c, "tpl_1");
    catalog_let_go(held);
    catalog_let_go(other);
    assert_int_equal(pool_count(), 1);
    catalog_free(c);
    assert_int_equal(pool_count(), 0);
}

static void test_full(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    struct error err;
    static const struct session_events nothing;
    const struct resource_spec more = {.pids = 8};
    struct session *session;
    struct catalog_kind *held;
    bool is_parked;
    must_put(c, "tpl_1", "{\"name\": \"a\", \"language\": \"python\"}");
    refuses = true;
    int status = catalog_take(catalog_find(c, "a", &err), &(struct catalog_extra){.over = &more},
                              &session, &held, &is_parked, &nothing, NULL, &err);
    refuses = false;
    assert_int_equal(status, -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    catalog_free(c);
}

/* A session that was started cold could not be forked. */
static void test_forks(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    struct error err;
    static const struct session_events nothing;
    const struct resource_spec forks = {.forks = 2};
    struct session *session;
    struct catalog_kind *held;
    bool is_parked;
    must_put(c, "tpl_1", "{\"name\": \"a\", \"language\": \"python\"}");
    must_put(c, "tpl_2",
             "{\"name\": \"b\", \"language\": \"python\", \"resources\": {\"forks\": 1}}");
    const struct {
        const char *word;
        const struct resource_spec *over;
    } rows[] = {{"a", &forks}, {"b", NULL}};
    is_cold = true;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct catalog_kind *k = catalog_find(c, rows[i].word, &err);
        assert_int_equal(catalog_take(k, &(struct catalog_extra){.over = rows[i].over}, &session,
                                      &held, &is_parked, &nothing, NULL, &err),
                         -1);
        assert_string_equal(err.word, "warming_up");
        assert_true(err.retry_ms > 0);
    }
    catalog_let_go(take(catalog_find(c, "a", &err), NULL)); /* others do not wait */
    is_cold = false;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        catalog_let_go(take(catalog_find(c, rows[i].word, &err), rows[i].over));
    catalog_free(c);
}

static void test_revive(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    struct error err;
    struct catalog_kind *held;
    const struct resource_spec same = {
        .memory_bytes = 128 * MIB, .disk_bytes = 64 * MIB, .cpus = 0.5, .pids = 64};
    const struct resource_spec larger = {.memory_bytes = 2 * GIB};
    must_put(
        c, "tpl_1",
        "{\"name\": \"a\", \"language\": \"python\", \"resources\": {\"memory_bytes\": \"128M\"}}");
    struct catalog_kind *k = catalog_find(c, "a", &err);
    assert_int_equal(catalog_revive(c, "tpl_1", "python", &same, &held, &err), 0);
    assert_ptr_equal(held, k);
    catalog_let_go(held);

    must_put(c, "tpl_1", "{\"name\": \"a\", \"language\": \"bash\"}"); /* it has become another */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(catalog_revive(c, "tpl_1", "python", &same, &held, &err), 0);
        assert_string_equal(catalog_spec(held)->language, "python");
        assert_false(catalog_template(held)->is_plain);
        assert_string_equal(catalog_id(held), "tpl_1");
        assert_int_equal(catalog_limits(held)->memory_bytes, 128 * MIB);
        catalog_let_go(held);
        catalog_remove(c, "tpl_1"); /* and then nothing: its image is gone */
    }
    assert_int_equal(catalog_revive(c, "tpl_1", "python", &larger, &held, &err), 0);
    assert_int_equal(catalog_limits(held)->memory_bytes,
                     usual.memory_bytes); /* more is forbidden */
    catalog_let_go(held);
    assert_int_equal(catalog_revive(c, "tpl_1", "cobol", &same, &held, &err), -1);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    catalog_free(c);
}

static void test_look(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    struct error err;
    must_put(c, "tpl_1", "{\"name\": \"a\", \"language\": \"py\"}");
    int before = loads;
    bool has_changed;
    assert_int_equal(catalog_look(c, &has_changed, &err), 0);
    assert_false(has_changed);
    assert_int_equal(loads, before + 1);
    assert_int_equal(catalog_runners(c)->count, 4);
    catalog_let_go(take(catalog_find(c, "a", &err), NULL)); /* of the runners before */
    catalog_free(c);
}

struct refusal {
    const char *name, *text, *message;
    enum error_code code;
};

static const struct refusal refusals[] = {
    {"an unknown language", "{\"name\": \"a\", \"language\": \"cobol\"}", "cobol", ERROR_NOT_FOUND},
    {"an image without the language",
     "{\"name\": \"a\", \"language\": \"bash\", \"image\": \"python\"}",
     "image 'python' has no language 'bash'", ERROR_NOT_FOUND},
    {"a language without sessions", "{\"name\": \"a\", \"language\": \"perl\"}",
     "perl has no sessions", ERROR_NOT_FOUND},
    {"more than is allowed",
     "{\"name\": \"a\", \"language\": \"python\", \"resources\": {\"memory_bytes\": \"2G\"}}",
     "resources.memory_bytes: 2147483648 is more than the 1073741824 that are allowed here",
     ERROR_INVALID},
    {"a pool upside down",
     "{\"name\": \"a\", \"language\": \"python\", \"pool\": {\"min\": 3, \"max\": 2}}",
     "pool.min: 3 is more than pool.max, 2", ERROR_INVALID},
    {"modules of bash", "{\"name\": \"a\", \"language\": \"bash\", \"preload\": [\"x\"]}",
     "preload: only python has modules to import before", ERROR_INVALID},
    {"a field that is none", "{\"name\": \"a\", \"language\": \"bash\", \"size\": 1}",
     "size: no such field", ERROR_INVALID},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct catalog *c = open_catalog();
    struct error err = {0};
    assert_int_equal(put(c, "tpl_1", row->text, &err), -1);
    if (!strstr(err.msg, row->message))
        assert_string_equal(err.msg, row->message);
    assert_int_equal(err.code, row->code);
    assert_null(catalog_find(c, "tpl_1", &err));
    catalog_free(c);
}

/* Variables that a start could not carry. */
static void test_large_env(void **state)
{
    (void)state;
    struct catalog *c = open_catalog();
    struct error err;
    scoped_free char *value = xcalloc(64 * KIB + 1, 1);
    memset(value, 'x', 64 * KIB);
    for (size_t less = 3; less > 1; less--) { /* A, the sign, and the end count */
        value[64 * KIB - less] = '\0';
        scoped_json json_t *document =
            json_pack("{s:s, s:s, s:{s:s}}", "name", "a", "language", "bash", "env", "A", value);
        assert_int_equal(catalog_put(c, "tpl_1", document, &err), less == 3 ? 0 : -1);
        value[64 * KIB - less] = 'x';
    }
    assert_int_equal(err.code, ERROR_TOO_LARGE);
    catalog_free(c);
}

static void test_start(void **state)
{
    (void)state;
    struct error err;
    struct catalog *c = open_resting();
    must_put(c, "tpl_1", "{\"name\": \"a\", \"language\": \"python\", \"pool\": {\"min\": 2}}");
    must_put(c, "tpl_2", "{\"name\": \"b\", \"language\": \"python\"}");
    assert_null(pools);
    assert_int_equal(catalog_start(c, &err), 0);
    assert_non_null(pools);
    assert_null(pools->next); /* nobody asked for the other */
    catalog_free(c);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "sessions of a template, and with other limits", test_take);
    check_one(&check, "a template that is replaced goes on for its sessions", test_replace);
    check_one(&check, "a close waits for every pool", test_close);
    check_one(&check, "one that was removed right before goes with the catalog",
              test_removed_at_the_end);
    check_one(&check, "pools are filled when it starts", test_start);
    check_one(&check, "no room leaves nothing", test_full);
    check_one(&check, "sessions with forks wait for the warm interpreter", test_forks);
    check_one(&check, "sessions outlive what their template was", test_revive);
    check_one(&check, "another look at the images", test_look);
    check_one(&check, "variables that a start could not carry", test_large_env);
    check_rows(&check, refusals, test_refusal);
    return check_run(&check, "catalog");
}
