/* test_shelf.c - store and catalog tell the same, whatever fails on the way
 *
 * A real store; runners of our own: python in two images, bash, and perl that has no sessions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/shelf.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "image/module.h"
#include "runners.h"
#include "store/store_ops.h"
#include "store_world.h"

/* --- what there is to run --------------------------------------------------------------------- */

static bool has_bash, has_modules;
static int kernels_left; /* so many are found, and then none; -1: all */

int __wrap_runner_list_load(struct runner_list *out, const char *const *data_dirs,
                            struct error *err);
int __wrap_runner_find_kernel(struct runner_kernel *out, const struct runner *runner,
                              const char *recipes_dir, struct error *err);
bool __wrap_module_is_in(const struct runner *runner, const char *name);
int __wrap_pool_open(struct pool **out, struct loop *loop, struct spawner_client *spawner,
                     const struct pool_order *order, struct error *err);

int __wrap_runner_list_load(struct runner_list *out, const char *const *data_dirs,
                            struct error *err)
{
    (void)data_dirs, (void)err;
    *out = (struct runner_list){.has_images = true};
    runners_add(out, "python", "[python]\naliases = py\ncommand = /usr/bin/python3 {file}\n");
    runners_add(out, "more", "[python]\ncommand = /opt/python {file}\n");
    if (has_bash)
        runners_add(out, "bash", "[bash]\ncommand = /bin/bash {file}\n");
    runners_add(out, "perl", "[perl]\ncommand = /usr/bin/perl {file}\n");
    return 0;
}

int __wrap_runner_find_kernel(struct runner_kernel *out, const struct runner *runner,
                              const char *recipes_dir, struct error *err)
{
    (void)recipes_dir;
    if (strcmp(runner->language, "perl") == 0 || kernels_left == 0)
        return error_set(err, ERROR_NOT_FOUND, "%s has no sessions", runner->language);
    kernels_left -= kernels_left > 0;
    runners_fill_kernel(out, runner);
    return 0;
}

bool __wrap_module_is_in(const struct runner *runner, const char *name)
{
    (void)name;
    return has_modules && strcmp(runner->image, "python") == 0;
}

int __wrap_pool_open(struct pool **out, struct loop *loop, struct spawner_client *spawner,
                     const struct pool_order *order, struct error *err)
{
    (void)out, (void)loop, (void)spawner, (void)order;
    return error_set(err, ERROR_UNAVAILABLE, "no pools here");
}

/* --- a store that fails when it is told to ---------------------------------------------------- */

static int failing_verb; /* -1: none */

static int run_or_fail(void *db, enum store_verb verb, const void *argument,
                       struct store_rows *rows, struct error *err)
{
    if ((int)verb == __atomic_load_n(&failing_verb, __ATOMIC_SEQ_CST))
        return error_set(err, ERROR_UNAVAILABLE, "the disk is full");
    return sqlite_ops.run(db, verb, argument, rows, err);
}

static void let_fail(int verb)
{
    __atomic_store_n(&failing_verb, verb, __ATOMIC_SEQ_CST);
}

/* --- the shelf -------------------------------------------------------------------------------- */

struct stage {
    struct world world;
    struct store_ops ops;
    struct catalog *catalog;
    struct shelf *shelf;
    json_t *document; /* of the last answer */
    bool has_failed;
    struct error err;
};

static void on_loaded(void *ctx, const struct error *err)
{
    struct stage *s = ctx;
    s->has_failed = err != NULL;
    if (err)
        s->err = *err;
    world_on_answer(&s->world, &(struct store_answer){0});
}

static void on_answer(void *ctx, json_t *document, const struct error *err)
{
    struct stage *s = ctx;
    json_decref(s->document);
    s->document = json_incref(document);
    on_loaded(s, err);
}

static const struct spawn_limits usual = {.memory_bytes = 256 * MIB,
                                          .disk_bytes = 64 * MIB,
                                          .inodes = 1000,
                                          .cpu_milli = 500,
                                          .pids = 64,
                                          .open_files = 64,
                                          .lifetime_ms = 3600 * 1000};

/* The process that comes after: of the last one the files are left. */
static void start(struct stage *s)
{
    struct error err;
    const struct store_order order = {.place = s->world.path};
    const struct catalog_order catalog = {
        .bounds = {.usual = usual, .most = usual, .timeout_max_ms = 60000}};
    if (store_open(&s->world.store, s->world.loop, &s->ops, &order, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(catalog_open(&s->catalog, &catalog, &err), 0);
    assert_int_equal(catalog_start(s->catalog, &err), 0);
    const struct shelf_order shelf = {.store = s->world.store, .catalog = s->catalog};
    s->shelf = shelf_new(&shelf);
}

static void stop(struct stage *s)
{
    store_free(take_ptr(&s->world.store));
    shelf_free(s->shelf);
    catalog_free(s->catalog);
}

#define wait_for(s, call, ...)                                                                     \
    do {                                                                                           \
        world_begin(&(s)->world, NULL);                                                            \
        call((s)->shelf, __VA_ARGS__, s);                                                          \
        world_wait(&(s)->world);                                                                   \
    } while (0)
#define assert_went_well(s) assert_string_equal((s)->has_failed ? (s)->err.msg : "", "")

static void load(struct stage *s)
{
    wait_for(s, shelf_load, on_loaded);
    assert_went_well(s);
}

static void restart(struct stage *s)
{
    stop(s);
    start(s);
    load(s);
}

/* Empty but for what was seeded. */
static void open_stage(struct stage *s)
{
    *s = (struct stage){.ops = sqlite_ops};
    s->ops.run = run_or_fail;
    failing_verb = -1;
    kernels_left = -1;
    has_bash = has_modules = true;
    world_open(&s->world);
    store_free(take_ptr(&s->world.store));
    start(s);
}

static void close_stage(struct stage *s)
{
    json_decref(s->document);
    stop(s);
    world_close(&s->world);
}

static void read_change(struct template_change *out, const char *text)
{
    json_error_t ignored;
    struct error err;
    scoped_json json_t *value = json_loads(text, 0, &ignored);
    if (params_read(out, &template_change_table, value, &err) < 0)
        fail_msg("%s", err.msg);
}

static void add(struct stage *s, const char *text)
{
    struct template_change change;
    read_change(&change, text);
    wait_for(s, shelf_add, NULL, &change.spec, on_answer);
    params_release(&change, &template_change_table);
}

static void change(struct stage *s, const char *word, const char *text)
{
    struct template_change wish;
    read_change(&wish, text);
    wait_for(s, shelf_change, word, &wish, on_answer);
    params_release(&wish, &template_change_table);
}

static const char *text_of(const struct stage *s, const char *field)
{
    const char *text = json_string_value(json_object_get(s->document, field));
    return text ? text : "";
}

static int64_t version_of(const struct stage *s)
{
    return json_integer_value(json_object_get(s->document, "version"));
}

static const struct catalog_kind *kind_of(const struct stage *s, const char *word)
{
    struct error err;
    return catalog_find(s->catalog, word, &err);
}

static void assert_refused_as(const struct stage *s, enum error_code code, const char *word)
{
    assert_true(s->has_failed);
    assert_int_equal(s->err.code, code);
    assert_string_equal(s->err.word ? s->err.word : "", word);
    assert_null(s->document);
}

/* Names of all, oldest first. */
static const char *names_of(struct stage *s)
{
    static char names[256];
    wait_for(s, shelf_list, NULL, 0, on_answer);
    assert_went_well(s);
    const json_t *list = json_object_get(s->document, "templates");
    names[0] = '\0';
    for (size_t i = json_array_size(list); i-- > 0;) {
        size_t len = strlen(names);
        const json_t *name = json_object_get(json_array_get(list, i), "name");
        snprintf(names + len, sizeof(names) - len, "%s%s", len ? " " : "", json_string_value(name));
    }
    return names;
}

static bool has_names(struct stage *s, const char *const *names, size_t count)
{
    const char *all = names_of(s);
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        if (!strstr(all, names[i]))
            return false;
        len += strlen(names[i]) + 1;
    }
    return len == strlen(all) + 1;
}
#define assert_names(s, ...)                                                                       \
    assert_true(has_names(s, (const char *const[]){__VA_ARGS__},                                   \
                          sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

/* --- the start -------------------------------------------------------------------------------- */

static void test_seed(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s);
    has_bash = has_modules = false;
    struct error err;
    bool has_changed;
    assert_int_equal(catalog_look(s.catalog, &has_changed, &err), 0);
    assert_true(has_changed);
    load(&s);
    assert_names(&s, "python"); /* perl has no sessions */
    assert_string_equal(catalog_spec(kind_of(&s, "python"))->language, "python");

    has_bash = has_modules = true; /* images come later */
    restart(&s);
    assert_names(&s, "python", "python-data", "bash");
    const struct template_spec *data = catalog_spec(kind_of(&s, "python-data"));
    assert_int_equal(data->preload.count, 3);
    assert_string_equal(data->preload.items[0], "numpy");
    assert_int_equal(data->pool.max, 16);

    change(&s, "python", "{\"name\": \"snake\", \"language\": \"python\"}");
    assert_went_well(&s);
    wait_for(&s, shelf_remove, "bash", 0, on_answer);
    assert_went_well(&s);
    restart(&s);
    assert_names(&s, "snake", "python-data");
    assert_null(kind_of(&s, "bash"));
    assert_non_null(kind_of(&s, "snake"));
    close_stage(&s);
}

static void test_seed_fails(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s);
    let_fail(STORE_VERB_SEED_TEMPLATE);
    load(&s); /* what is there can be used */
    assert_null(kind_of(&s, "python"));
    let_fail(-1);
    restart(&s);
    assert_names(&s, "python", "python-data", "bash");
    let_fail(STORE_VERB_LIST_TEMPLATES);
    stop(&s);
    start(&s);
    wait_for(&s, shelf_load, on_loaded);
    assert_true(s.has_failed);
    assert_int_equal(s.err.code, ERROR_UNAVAILABLE);
    let_fail(-1);
    close_stage(&s);
}

static void test_gone_image(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s);
    load(&s);
    ask(&s.world, store_add_template,
        &(struct store_template){.id = "tpl_1", .name = "torn", .doc = "{\"name\":"});
    assert_done(&s.world);
    has_bash = false;
    restart(&s);
    assert_names(&s, "python", "python-data", "bash", "torn");
    assert_null(kind_of(&s, "bash"));
    wait_for(&s, shelf_get, "bash", on_answer);
    assert_went_well(&s);
    assert_non_null(strstr(text_of(&s, "problem"), "bash"));
    wait_for(&s, shelf_get, "torn", on_answer);
    assert_string_equal(text_of(&s, "name"), "torn");
    assert_string_not_equal(text_of(&s, "problem"), "");
    assert_true(json_is_string(json_object_get(s.document, "language"))); /* as its shape is */

    has_bash = true;
    restart(&s);
    assert_non_null(kind_of(&s, "bash"));
    change(&s, "torn", "{\"name\": \"whole\", \"language\": \"bash\"}");
    assert_went_well(&s);
    assert_true(json_is_null(json_object_get(s.document, "problem")));
    assert_non_null(kind_of(&s, "whole"));
    close_stage(&s);
}

static void test_many_pages(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s);
    world_begin(&s.world, NULL);
    s.world.waiting += STORE_PAGE_MAX;
    for (int i = 0; i <= STORE_PAGE_MAX; i++) {
        scoped_free char *name = xasprintf("t%d", i);
        scoped_free char *doc =
            xasprintf("{\"name\": \"%s\", \"language\": \"%s\"}", name, i ? "perl" : "python");
        const struct store_template t = {.id = name, .name = name, .doc = doc, .created_ns = i + 1};
        store_add_template(s.world.store, &t, world_on_answer, &s.world);
    }
    world_wait(&s.world);
    load(&s);
    assert_non_null(kind_of(&s, "t0")); /* the oldest, and so on the last page */
    add(&s, "{\"name\": \"one-more\", \"language\": \"python\"}");
    assert_refused_as(&s, ERROR_LIMIT, "");
    close_stage(&s);
}

/* --- add -------------------------------------------------------------------------------------- */

static void test_add(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s);
    load(&s);
    add(&s, "{\"name\": \"mine\", \"language\": \"py\", \"timeout\": 60, \"env\": {\"A\": \"b\"},"
            " \"resources\": {\"memory_bytes\": \"64M\"}, \"pool\": {\"min\": 2}}");
    assert_went_well(&s);
    assert_true(id_is_valid(ID_TEMPLATE, text_of(&s, "id")));
    assert_int_equal(version_of(&s), 1);
    assert_string_equal(text_of(&s, "language"), "python"); /* the alias is not kept */
    assert_string_equal(text_of(&s, "created_at"), text_of(&s, "updated_at"));
    assert_true(json_is_null(json_object_get(s.document, "problem")));
    assert_non_null(kind_of(&s, "mine")); /* also without the pool that could not be opened */
    scoped_json json_t *first = json_incref(s.document);

    restart(&s);
    assert_non_null(kind_of(&s, "mine"));
    wait_for(&s, shelf_get, json_string_value(json_object_get(first, "id")), on_answer);
    assert_true(json_equal(first, s.document));
    wait_for(&s, shelf_get, "mine", on_answer);
    assert_true(json_equal(first, s.document));
    wait_for(&s, shelf_get, "nobody", on_answer);
    assert_refused_as(&s, ERROR_NOT_FOUND, "template_not_found");
    close_stage(&s);
}

struct refusal {
    const char *name, *text;
    enum error_code code;
    const char *word;
    int verb; /* of the store, that fails */
};

static const struct refusal refusals[] = {
    {"a language that is not there", "{\"name\": \"a\", \"language\": \"cobol\"}", ERROR_INVALID,
     "runner_not_found", -1},
    {"an image without the language",
     "{\"name\": \"a\", \"language\": \"bash\", \"image\": \"python\"}", ERROR_INVALID,
     "runner_not_found", -1},
    {"more than is allowed",
     "{\"name\": \"a\", \"language\": \"python\", \"resources\": {\"memory_bytes\": \"2G\"}}",
     ERROR_INVALID, "", -1},
    {"more time than is allowed", "{\"name\": \"a\", \"language\": \"python\", \"timeout\": 61}",
     ERROR_INVALID, "", -1},
    {"a longer life than is allowed", "{\"name\": \"a\", \"language\": \"python\", \"ttl\": 3601}",
     ERROR_INVALID, "", -1},
    {"a name like an id",
     "{\"name\": \"tpl_00000000000000000000000000\", \"language\": \"python\"}", ERROR_INVALID, "",
     -1},
    {"a name that is taken", "{\"name\": \"python\", \"language\": \"bash\"}", ERROR_CONFLICT,
     "template_exists", -1},
    {"no room on the disk", "{\"name\": \"a\", \"language\": \"python\"}", ERROR_UNAVAILABLE, "",
     STORE_VERB_ADD_TEMPLATE},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct stage s;
    open_stage(&s);
    load(&s);
    let_fail(row->verb);
    for (int i = 0; i <= SHELF_MAX; i++) { /* what was refused takes no room */
        add(&s, row->text);
        assert_refused_as(&s, row->code, row->word);
    }
    let_fail(-1);
    assert_null(kind_of(&s, "a"));
    assert_string_equal(catalog_spec(kind_of(&s, "python"))->language, "python");
    restart(&s);
    assert_names(&s, "python", "python-data", "bash");
    close_stage(&s);
}

static void test_full(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s);
    load(&s);
    for (int i = 3; i < SHELF_MAX; i++) {
        scoped_free char *text = xasprintf("{\"name\": \"t%d\", \"language\": \"bash\"}", i);
        add(&s, text);
        assert_went_well(&s);
    }
    add(&s, "{\"name\": \"last\", \"language\": \"bash\"}");
    assert_refused_as(&s, ERROR_LIMIT, "");
    wait_for(&s, shelf_remove, "t7", 0, on_answer);
    add(&s, "{\"name\": \"last\", \"language\": \"bash\"}");
    assert_went_well(&s);
    close_stage(&s);
}

/* --- change ----------------------------------------------------------------------------------- */

static void test_change(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s);
    load(&s);
    wait_for(&s, shelf_get, "python", on_answer);
    scoped_free char *id = xstrdup(text_of(&s, "id"));
    json_object_set_new(s.document, "timeout", json_integer(7)); /* sent back as it was read */
    char *text = json_dumps(s.document, 0);
    change(&s, id, text);
    assert_went_well(&s);
    assert_int_equal(version_of(&s), 2);
    assert_int_equal(catalog_spec(kind_of(&s, id))->timeout_ms, 7000);

    change(&s, id, text); /* the version is past */
    assert_refused_as(&s, ERROR_CONFLICT, "version_mismatch");
    change(&s, "bash", text);
    assert_refused_as(&s, ERROR_INVALID, ""); /* the id is another's */
    free(text);
    change(&s, "nobody", "{\"name\": \"a\", \"language\": \"bash\"}");
    assert_refused_as(&s, ERROR_NOT_FOUND, "template_not_found");
    change(&s, "bash", "{\"name\": \"python\", \"language\": \"bash\"}");
    assert_refused_as(&s, ERROR_CONFLICT, "template_exists");
    change(&s, "bash", "{\"name\": \"bash\", \"language\": \"cobol\"}");
    assert_refused_as(&s, ERROR_INVALID, "runner_not_found");
    let_fail(STORE_VERB_CHANGE_TEMPLATE);
    change(&s, "python", "{\"name\": \"other\", \"language\": \"bash\"}");
    assert_refused_as(&s, ERROR_UNAVAILABLE, "");
    let_fail(-1);
    assert_string_equal(catalog_spec(kind_of(&s, id))->name, "python");
    assert_int_equal(catalog_spec(kind_of(&s, id))->timeout_ms, 7000);

    change(&s, "python", "{\"name\": \"py\", \"language\": \"python\", \"image\": \"more\"}");
    assert_went_well(&s);
    assert_null(kind_of(&s, "python"));
    assert_string_equal(catalog_spec(kind_of(&s, "py"))->image, "more");
    assert_string_equal(text_of(&s, "id"), id);
    close_stage(&s);
}

/* The kernel goes while the store writes: the committed text counts, the one before is no more. */
static void test_change_into_nothing(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s);
    load(&s);
    kernels_left = 1; /* for the check */
    change(&s, "bash", "{\"name\": \"bash\", \"language\": \"bash\", \"timeout\": 9}");
    assert_went_well(&s);
    assert_int_equal(version_of(&s), 2);
    assert_string_equal(text_of(&s, "problem"), "bash has no sessions");
    assert_null(kind_of(&s, "bash"));
    kernels_left = -1;
    wait_for(&s, shelf_get, "bash", on_answer);
    assert_string_not_equal(text_of(&s, "problem"), ""); /* still not there */
    restart(&s);
    assert_int_equal(catalog_spec(kind_of(&s, "bash"))->timeout_ms, 9000);
    close_stage(&s);
}

static void test_changes_at_once(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s);
    load(&s);
    struct template_change wish;
    read_change(&wish, "{\"name\": \"python\", \"language\": \"python\"}");
    world_begin(&s.world, NULL);
    s.world.waiting += 9;
    for (unsigned i = 1; i <= 10; i++) {
        wish.spec.timeout_ms = 1000 * i;
        shelf_change(s.shelf, "python", &wish, on_answer, &s);
    }
    world_wait(&s.world);
    params_release(&wish, &template_change_table);
    uint64_t here = catalog_spec(kind_of(&s, "python"))->timeout_ms;
    wait_for(&s, shelf_get, "python", on_answer);
    assert_int_equal(version_of(&s), 11);
    restart(&s);
    assert_int_equal(catalog_spec(kind_of(&s, "python"))->timeout_ms, here);
    close_stage(&s);
}

/* --- remove ----------------------------------------------------------------------------------- */

static void test_remove(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s);
    load(&s);
    struct store_session session = a_session("ses_1");
    scoped_free char *id = xstrdup(catalog_id(kind_of(&s, "bash")));
    session.template_id = id;
    ask(&s.world, store_add_session, &session);
    assert_done(&s.world);
    wait_for(&s, shelf_remove, "bash", 0, on_answer);
    assert_refused_as(&s, ERROR_CONFLICT, "template_in_use");
    assert_non_null(kind_of(&s, "bash"));

    ask(&s.world, store_change_session,
        &(struct store_session_change){
            .id = "ses_1", .to = STORE_SESSION_TERMINATED, .ended_ns = 5000});
    assert_done(&s.world);
    wait_for(&s, shelf_remove, id, 2, on_answer);
    assert_refused_as(&s, ERROR_CONFLICT, "version_mismatch");
    let_fail(STORE_VERB_REMOVE_TEMPLATE);
    wait_for(&s, shelf_remove, "bash", 1, on_answer);
    assert_refused_as(&s, ERROR_UNAVAILABLE, "");
    let_fail(-1);
    assert_non_null(kind_of(&s, "bash"));
    wait_for(&s, shelf_remove, "bash", 1, on_answer);
    assert_went_well(&s);
    assert_null(kind_of(&s, id));
    wait_for(&s, shelf_remove, id, 0, on_answer);
    assert_refused_as(&s, ERROR_NOT_FOUND, "template_not_found");
    close_stage(&s);
}

/* What is under way when the store ends is answered, too. */
static void test_end(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s);
    load(&s);
    world_begin(&s.world, NULL);
    shelf_get(s.shelf, "python", on_answer, &s);
    stop(&s);
    assert_int_equal(s.world.waiting, 0);
    start(&s);
    close_stage(&s);
}

static void test_list(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s);
    load(&s);
    wait_for(&s, shelf_list, NULL, 2, on_answer);
    assert_int_equal(json_array_size(json_object_get(s.document, "templates")), 2);
    scoped_free char *cursor = xstrdup(text_of(&s, "next_cursor"));
    wait_for(&s, shelf_list, cursor, 2, on_answer);
    assert_int_equal(json_array_size(json_object_get(s.document, "templates")), 1);
    assert_true(json_is_null(json_object_get(s.document, "next_cursor")));
    wait_for(&s, shelf_list, "nonsense", 2, on_answer);
    assert_refused_as(&s, ERROR_INVALID, "");
    close_stage(&s);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "defaults are seeded once, when their image is there", test_seed);
    check_one(&check, "a store that cannot be written or read at the start", test_seed_fails);
    check_one(&check, "a template whose image is gone is kept, and says so", test_gone_image);
    check_one(&check, "every page of the store is loaded", test_many_pages);
    check_one(&check, "what was added is there after a restart", test_add);
    check_rows(&check, refusals, test_refusal);
    check_one(&check, "there is an end to the number of templates", test_full);
    check_one(&check, "a change is of one version, and whole", test_change);
    check_one(&check, "a change that is committed counts", test_change_into_nothing);
    check_one(&check, "many changes at once end the same way in both", test_changes_at_once);
    check_one(&check, "what live sessions use is not removed", test_remove);
    check_one(&check, "the end of the store answers all", test_end);
    check_one(&check, "a list in pages", test_list);
    return check_run(&check, "shelf");
}
