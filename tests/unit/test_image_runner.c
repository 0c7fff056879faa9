/* test_image_runner.c - runner.conf, and finding the runner of a language or file */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/runner.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"
#include "image/draft.h"
#include "image/image_store.h"

#define PYTHON                                                                                     \
    "[python]\naliases = py python3\nextensions = py pyw\nmain = main.py\n"                        \
    "command = /usr/bin/python3 -u {file}\nenv = A=1\nenv = B=two words\nversion = 3.11\n"
#define NODE                                                                                       \
    "[javascript]\naliases = js\nextensions = js mjs\ncommand = /usr/bin/node {file}\n"            \
    "[typescript]\naliases = ts\nextensions = ts\ncommand = /usr/bin/node {file}\n"

/* --- one file --------------------------------------------------------------------------------- */

struct parse_case {
    const char *name;
    const char *text;
    const char *command; /* of the first runner, words in |; NULL: an error */
    const char *error;   /* part of the message */
};

static const struct parse_case parse_cases[] = {
    {"splits a command at blanks", "[a]\ncommand = /x  -y\tz", "/x|-y|z|", NULL},
    {"keeps blanks in quotes", "[a]\ncommand = /x \"a b\" c", "/x|a b|c|", NULL},
    {"knows quotes and backslashes in quotes", "[a]\ncommand = /x \"a \\\" \\\\ b\"",
     "/x|a \" \\ b|", NULL},
    {"takes an empty word", "[a]\ncommand = /x \"\" y", "/x||y|", NULL},
    {"refuses an open quote", "[a]\ncommand = /x \"a", NULL, "quote is not closed"},
    {"refuses text behind a quote", "[a]\ncommand = /x \"a\"b", NULL, "followed by a blank"},
    {"refuses a relative command", "[a]\ncommand = python {file}", NULL, "absolute path"},
    {"takes a command for one line", "[a]\ncommand = /x {file}\ninline = /x -c {code}",
     "/x|{file}|", NULL},
    {"refuses one that has no place for it", "[a]\ncommand = /x {file}\ninline = /x -c", NULL,
     "inline: has no word {code}"},
    {"refuses two commands", "[a]\ncommand = /x\ncommand = /y", NULL, "command: given twice"},
    {"refuses a language without a command", "[a]\nmain = x", NULL, "[a] has no command"},
    {"refuses an empty file", "# nothing\n", NULL, "describes no language"},
    {"refuses keys before the first language", "command = /x", NULL, "not the name of a language"},
    {"refuses an unknown key, with its line", "[a]\nenvs = A=1", NULL,
     "runner.conf:2: unknown key 'envs'"},
    {"refuses a main file elsewhere", "[a]\nmain = ../x\ncommand = /x", NULL, "name of a file"},
    {"refuses an environment without a name", "[a]\nenv = =x\ncommand = /x", NULL,
     "is not NAME=VALUE"},
    {"refuses odd aliases", "[a]\naliases = ok ../no\ncommand = /x", NULL, "'../no' is not a name"},
};

static int parse(struct runner_list *list, const char *text, struct error *err)
{
    char *dir = check_temp_dir();
    check_put_file(dir, "runner.conf", text);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    int answer = runner_list_parse(list, fd, "runner.conf", err);
    close(fd);
    check_remove_dir(dir);
    return answer;
}

static void test_parse(void **state)
{
    const struct parse_case *row = *state;
    scoped_runner_list struct runner_list list = {0};
    struct error err = {.msg = ""};
    if (!row->command) {
        assert_int_equal(parse(&list, row->text, &err), -1);
        if (!strstr(err.msg, row->error))
            assert_string_equal(err.msg, row->error);
        assert_int_equal(list.count, 0);
        return;
    }
    assert_int_equal(parse(&list, row->text, &err), 0);
    scoped_strbuf struct strbuf words;
    strbuf_init(&words, 1000);
    for (char **word = list.items[0].command.items; *word; word++)
        strbuf_add_fmt(&words, "%s|", *word);
    assert_string_equal(strbuf_str(&words), row->command);
}

static void test_fields(void **state)
{
    (void)state;
    scoped_runner_list struct runner_list list = {0};
    struct error err;
    assert_int_equal(parse(&list, PYTHON, &err), 0);
    const struct runner *runner = &list.items[0];
    assert_string_equal(runner->language, "python");
    assert_string_equal(runner->main, "main.py");
    assert_string_equal(runner->version, "3.11");
    assert_string_equal(runner->env.items[1], "B=two words");
    assert_null(runner->env.items[2]);
    assert_string_equal(runner->aliases.items[1], "python3");
    assert_false(runner->takes_stdin);
}

static void test_presets(void **state)
{
    (void)state;
    scoped_runner_list struct runner_list list = {0};
    struct error err;
    assert_int_equal(
        parse(&list, "[a]\ncommand = /x\n[b]\nextensions = bb b\ncommand = /y {file}", &err), 0);
    assert_int_equal(list.count, 2);
    assert_true(list.items[0].takes_stdin);
    assert_string_equal(list.items[0].main, "main.a");
    assert_non_null(list.items[0].env.items);
    assert_null(list.items[0].env.items[0]);
    assert_string_equal(list.items[1].main, "main.bb");
    assert_false(list.items[1].takes_stdin);
}

static void test_too_many(void **state)
{
    (void)state;
    scoped_runner_list struct runner_list list = {0};
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 64 * KIB);
    strbuf_add_str(&text, "[a]\ncommand = /x");
    for (int i = 0; i < RUNNER_WORDS_MAX; i++)
        strbuf_add_str(&text, " y");
    struct error err;
    assert_int_equal(parse(&list, strbuf_str(&text), &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
}

/* --- stores ----------------------------------------------------------------------------------- */

struct world {
    char *own, *shared;
    const char *dirs[IMAGE_STORE_DIRS];
    struct runner_list list;
};

static struct world world_make(void)
{
    struct world world = {.own = check_temp_dir(), .shared = check_temp_dir()};
    world.dirs[0] = world.own;
    world.dirs[1] = world.shared;
    return world;
}

static void world_end(struct world *world)
{
    runner_list_release(&world->list);
    check_remove_dir(world->own);
    check_remove_dir(world->shared);
}

static void add_image(const char *data_dir, const char *name, const char *conf)
{
    scoped(image_store) struct image_store *store = NULL;
    scoped(draft) struct draft *draft = NULL;
    uint8_t digest[SHA256_BYTES];
    struct error err;
    assert_int_equal(image_store_create(&store, data_dir, &err), 0);
    assert_int_equal(draft_open(&draft, store, &err), 0);
    assert_int_equal(mkdir(draft_root_dir(draft), 0755), 0);
    check_put_file(draft_image_dir(draft), "runner.conf", conf);
    assert_int_equal(draft_commit(draft, name, "test", NULL, 0, digest, &err), 0);
}

static void world_load(struct world *world)
{
    struct error err = {.msg = ""};
    assert_int_equal(runner_list_load(&world->list, world->dirs, &err), 0);
}

struct find_case {
    const char *name;
    const char *language; /* one of the two */
    const char *file;
    const char *found; /* NULL: an error */
    const char *error;
    const char *hint; /* part of it */
};

static const struct find_case find_cases[] = {
    {"finds by language", "python", NULL, "python", NULL, NULL},
    {"finds by alias", "ts", NULL, "typescript", NULL, NULL},
    {"finds by extension", NULL, "a/b.c/prog.mjs", "javascript", NULL, NULL},
    {"a language is not an extension", NULL, "x.python", NULL,
     "no runner for files that end in '.python'", "languages here: javascript, typescript, python"},
    {"an extension is not a language", "pyw", NULL, NULL, "no runner for the language 'pyw'",
     "languages here"},
    {"a mistyped language gets the nearest", "pyhton", NULL, NULL,
     "no runner for the language 'pyhton'", "did you mean 'python'?"},
    {"a file without extension asks for -l", NULL, "dir.py/prog", NULL,
     "the name 'prog' does not tell its language", "name one with -l"},
    {"a hidden file has no extension", NULL, ".py", NULL,
     "the name '.py' does not tell its language", "languages here"},
};

static void test_find(void **state)
{
    const struct find_case *row = *state;
    struct world world = world_make();
    struct error err;
    add_image(world.own, "node", NODE);
    add_image(world.shared, "python", PYTHON);
    world_load(&world);
    const struct runner *runner = row->language ? runner_find(&world.list, row->language, &err)
                                                : runner_find_by_file(&world.list, row->file, &err);
    if (row->found) {
        assert_non_null(runner);
        assert_string_equal(runner->language, row->found);
    } else {
        assert_null(runner);
        assert_string_equal(err.msg, row->error);
        if (!strstr(err.hint, row->hint))
            assert_string_equal(err.hint, row->hint);
    }
    world_end(&world);
}

static void test_own_first(void **state)
{
    (void)state;
    struct world world = world_make();
    struct error err;
    add_image(world.shared, "python", PYTHON);
    add_image(world.own, "python", "[python]\ncommand = /own {file}\n");
    world_load(&world);
    assert_int_equal(world.list.count, 1);
    const struct runner *runner = runner_find(&world.list, "python", &err);
    assert_non_null(runner);
    assert_string_equal(runner->command.items[0], "/own");
    assert_string_equal(runner->data_dir, world.own);
    assert_string_equal(runner->image, "python");
    world_end(&world);
}

static void test_nothing(void **state)
{
    (void)state;
    struct world world = world_make();
    struct error err;
    world_load(&world);
    assert_false(world.list.has_images);
    assert_null(runner_find(&world.list, "python", &err));
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    assert_non_null(strstr(err.hint, "cove image build"));
    world_end(&world);
}

static void test_broken(void **state)
{
    (void)state;
    struct world world = world_make();
    struct error err;
    add_image(world.own, "python", PYTHON);
    scoped_free char *tags = xasprintf("%s/images/tags", world.own);
    check_put_file(tags, "gone",
                   "0000000000000000000000000000000000000000000000000000000000000000\n");
    world_load(&world);
    assert_non_null(runner_find(&world.list, "python", &err));
    assert_non_null(strstr(world.list.broken.msg, "image 'gone'"));
    world_end(&world);
}

static void test_only_broken(void **state)
{
    (void)state;
    struct world world = world_make();
    struct error err;
    scoped(image_store) struct image_store *store = NULL;
    assert_int_equal(image_store_create(&store, world.own, &err), 0);
    scoped_free char *tags = xasprintf("%s/images/tags", world.own);
    check_put_file(tags, "gone",
                   "0000000000000000000000000000000000000000000000000000000000000000\n");
    world_load(&world);
    assert_null(runner_find(&world.list, "python", &err));
    assert_non_null(strstr(err.hint, "image 'gone'"));
    world_end(&world);
}

int main(void)
{
    static struct check check;
    check_rows(&check, parse_cases, test_parse);
    check_one(&check, "reads every key", test_fields);
    check_one(&check, "fills in what a file leaves open", test_presets);
    check_one(&check, "refuses a command of too many words", test_too_many);
    check_rows(&check, find_cases, test_find);
    check_one(&check, "an own image hides the system's of that name", test_own_first);
    check_one(&check, "with no image at all, says how to build them", test_nothing);
    check_one(&check, "a broken image does not hide the others", test_broken);
    check_one(&check, "when only broken images are there, says what is wrong", test_only_broken);
    return check_run(&check, "image_runner");
}
