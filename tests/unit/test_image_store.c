/* test_image_store.c - tags, images, and what a crash leaves */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/image_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "check.h"
#include "image/draft.h"
#include "image/scratch.h"

#define CONF "[test]\ncommand = /bin/test {file}\n"

struct world {
    char *dir;
    struct image_store *store;
};

static struct world world_make(void)
{
    struct world world = {.dir = check_temp_dir()};
    struct error err;
    assert_int_equal(image_store_create(&world.store, world.dir, &err), 0);
    return world;
}

static void world_end(struct world *world)
{
    image_store_free(world->store);
    check_remove_dir(world->dir);
}

/* A whole image with one file of that content. */
static void make_image(struct world *world, const char *name, const char *content,
                       uint8_t digest[SHA256_BYTES])
{
    scoped(draft) struct draft *draft = NULL;
    struct error err = {.msg = ""};
    assert_int_equal(draft_open(&draft, world->store, &err), 0);
    assert_int_equal(mkdir(draft_root_dir(draft), 0755), 0);
    check_put_file(draft_root_dir(draft), "file", content);
    check_put_file(draft_image_dir(draft), "runner.conf", CONF);
    check_put_file(draft_work_dir(draft), "rest", "must not be stored");
    int answer = draft_commit(draft, name, "test of the store", NULL, 50, digest, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(answer, 0);
}

static int count_image(void *ctx, const uint8_t digest[SHA256_BYTES], struct error *err)
{
    (void)digest;
    (void)err;
    ++*(int *)ctx;
    return 0;
}

static int image_count(const struct world *world)
{
    int count = 0;
    struct error err;
    assert_int_equal(image_store_images(world->store, count_image, &count, &err), 0);
    return count;
}

/* --- names ------------------------------------------------------------------------------------ */

struct name_case {
    const char *name;
    const char *tag;
    bool is_valid;
};

static const struct name_case names[] = {
    {"a word is a name", "python", true},
    {"digits, dots, dashes and underscores may follow", "py3.11-slim_x", true},
    {"an empty name is none", "", false},
    {"a path is no name", "a/b", false},
    {"a way up is no name", "..", false},
    {"a hidden file is no name", ".x", false},
    {"an option is no name", "-rf", false},
    {"capital letters are none", "Python", false},
    {"the folder of tags is no name", "tags", false},
    {"blanks are none", "a b", false},
    {"63 letters are the most", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     true},
    {"64 letters are too many", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     false},
};

static void test_name(void **state)
{
    const struct name_case *row = *state;
    struct world world = world_make();
    uint8_t digest[SHA256_BYTES];
    struct error err;
    assert_int_equal(image_store_name_is_valid(row->tag), row->is_valid);
    assert_int_equal(image_store_resolve(world.store, row->tag, digest, &err), -1);
    assert_int_equal(err.code, row->is_valid ? ERROR_NOT_FOUND : ERROR_INVALID);
    world_end(&world);
}

/* --- life ------------------------------------------------------------------------------------- */

static void test_store_and_find(void **state)
{
    (void)state;
    struct world world = world_make();
    uint8_t digest[SHA256_BYTES], found[SHA256_BYTES];
    struct image_info info;
    struct error err;
    make_image(&world, "one", "content", digest);
    assert_int_equal(image_store_resolve(world.store, "one", found, &err), 0);
    assert_memory_equal(digest, found, SHA256_BYTES);
    assert_int_equal(image_store_info(world.store, digest, &info, &err), 0);
    assert_string_equal(info.name, "one");
    assert_string_equal(info.source, "test of the store");
    assert_int_equal(info.size_bytes, strlen("content"));

    char hex[SHA256_HEX_BYTES];
    format_hex(digest, sizeof(digest), hex);
    scoped_free char *file = xasprintf("%s/images/%s/rootfs/file", world.dir, hex);
    scoped_free char *tag = xasprintf("%s/images/tags/one", world.dir);
    scoped_free char *rest = xasprintf("%s/images/%s/work", world.dir, hex);
    scoped_free char *content = check_read_file(file), *line = check_read_file(tag);
    assert_string_equal(content, "content");
    assert_int_equal(strlen(line), 65);
    assert_memory_equal(line, hex, 64);
    assert_int_equal(access(rest, F_OK), -1);
    world_end(&world);
}

static void test_reuse(void **state)
{
    (void)state;
    struct world world = world_make();
    uint8_t first[SHA256_BYTES], second[SHA256_BYTES], third[SHA256_BYTES];
    make_image(&world, "one", "same", first);
    make_image(&world, "two", "same", second);
    make_image(&world, "one", "other", third);
    assert_memory_equal(first, second, SHA256_BYTES);
    assert_int_not_equal(memcmp(first, third, SHA256_BYTES), 0);
    assert_int_equal(image_count(&world), 2);
    world_end(&world);
}

static void test_remove(void **state)
{
    (void)state;
    struct world world = world_make();
    uint8_t digest[SHA256_BYTES];
    struct error err;
    make_image(&world, "one", "x", digest);
    make_image(&world, "two", "x", digest);
    assert_int_equal(image_store_remove(world.store, digest, &err), -1);
    assert_int_equal(err.code, ERROR_CONFLICT);
    assert_int_equal(image_store_untag(world.store, "one", &err), 0);
    assert_int_equal(image_store_untag(world.store, "one", &err), -1);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    assert_int_equal(image_store_remove(world.store, digest, &err), -1);
    assert_int_equal(image_store_untag(world.store, "two", &err), 0);
    assert_int_equal(image_store_remove(world.store, digest, &err), 0);
    assert_int_equal(image_count(&world), 0);
    world_end(&world);
}

static int collect_tag(void *ctx, const char *name, const uint8_t digest[SHA256_BYTES],
                       struct error *err)
{
    (void)digest;
    (void)err;
    strbuf_add_fmt(ctx, "%s ", name);
    return 0;
}

static void test_tags(void **state)
{
    (void)state;
    struct world world = world_make();
    uint8_t digest[SHA256_BYTES];
    struct error err;
    make_image(&world, "b", "x", digest);
    make_image(&world, "a", "x", digest);
    scoped_free char *tags = xasprintf("%s/images/tags", world.dir);
    check_put_file(tags, ".new-c", "left by a crash");
    scoped_strbuf struct strbuf seen;
    strbuf_init(&seen, 100);
    assert_int_equal(image_store_tags(world.store, collect_tag, &seen, &err), 0);
    assert_string_equal(strbuf_str(&seen), "a b ");

    check_put_file(tags, "c", "not a digest\n");
    assert_int_equal(image_store_resolve(world.store, "c", digest, &err), -1);
    assert_non_null(strstr(err.msg, "'c' does not hold a digest"));
    world_end(&world);
}

/* Whoever may write into tags/ of a store must not make us read other files. */
static void test_tag_link(void **state)
{
    (void)state;
    struct world world = world_make();
    uint8_t digest[SHA256_BYTES];
    struct error err;
    scoped_free char *link = xasprintf("%s/images/tags/x", world.dir);
    assert_int_equal(symlink("/etc/hostname", link), 0);
    assert_int_equal(image_store_resolve(world.store, "x", digest, &err), -1);
    assert_int_equal(err.sys_errno, ELOOP);
    world_end(&world);
}

static void test_no_store(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    struct image_store *store = NULL;
    struct error err;
    assert_int_equal(image_store_open(&store, dir, &err), -1);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    check_remove_dir(dir);
}

/* --- crashes ---------------------------------------------------------------------------------- */

static int folder_count(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *item; (item = readdir(dir));)
        count += strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0;
    closedir(dir);
    return count;
}

static void test_abandoned(void **state)
{
    (void)state;
    struct world world = world_make();
    struct error err;
    pid_t child = fork();
    if (child == 0) {
        struct draft *draft = NULL;
        if (draft_open(&draft, world.store, &err) < 0)
            _exit(1);
        check_put_file(draft_work_dir(draft), "half", "done");
        _exit(0); /* as if killed: nothing is cleaned up */
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);

    scoped(scratch) struct scratch *held = NULL, *next = NULL;
    scoped_free char *images = xasprintf("%s/images", world.dir);
    assert_int_equal(scratch_open(&held, images, ".scratch-", 0700, &err), 0);
    assert_int_equal(scratch_open(&next, images, ".scratch-", 0700, &err), 0);
    assert_int_equal(access(scratch_path(held), F_OK), 0); /* alive: left alone */
    assert_int_equal(folder_count(images), 3);             /* tags and the two */
    scratch_free(take_ptr(&held));
    scratch_free(take_ptr(&next));
    assert_int_equal(folder_count(images), 1);
    world_end(&world);
}

static void test_two_makers(void **state)
{
    (void)state;
    struct world world = world_make();
    pid_t children[4];
    for (size_t i = 0; i < ARRAY_LEN(children); i++) {
        children[i] = fork();
        if (children[i] == 0) {
            uint8_t digest[SHA256_BYTES];
            for (int round = 0; round < 10; round++)
                make_image(&world, "same", i % 2 ? "odd" : "even", digest);
            _exit(0);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(children); i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(image_count(&world), 2);
    world_end(&world);
}

static void test_dirs(void **state)
{
    (void)state;
    const char *dirs[IMAGE_STORE_DIRS];
    image_store_dirs("/own", dirs);
    assert_string_equal(dirs[0], "/own");
    assert_string_equal(dirs[1], IMAGE_STORE_SYSTEM_DIR);
    assert_null(dirs[2]);
    image_store_dirs(IMAGE_STORE_SYSTEM_DIR, dirs);
    assert_string_equal(dirs[0], IMAGE_STORE_SYSTEM_DIR);
    assert_null(dirs[1]);
}

int main(void)
{
    static struct check check;
    check_rows(&check, names, test_name);
    check_one(&check, "finds by its tag what was stored", test_store_and_find);
    check_one(&check, "keeps one copy of equal images", test_reuse);
    check_one(&check, "removes an image with its last tag only", test_remove);
    check_one(&check, "lists tags in order, and nothing else", test_tags);
    check_one(&check, "follows no link in place of a tag", test_tag_link);
    check_one(&check, "a missing store is not found", test_no_store);
    check_one(&check, "removes what a dead maker left, and nobody else's", test_abandoned);
    check_one(&check, "several makers at once do not disturb each other", test_two_makers);
    check_one(&check, "looks in the own store, then in the system's", test_dirs);
    return check_run(&check, "image_store");
}
