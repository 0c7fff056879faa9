/* test_layer_cache.c - what is told of layers, and that those in use stay */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/layer_cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define ONE "1111111111111111111111111111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222222222222222222222222222"

static void make_layer(const char *data, const char *name, const char *note, time_t used)
{
    scoped_free char *layers = xasprintf("%s/layers", data),
                     *dir = xasprintf("%s/%s", layers, name);
    scoped_free char *tree = xasprintf("%s/tree", dir), *deep = xasprintf("%s/deep", tree);
    const struct timespec times[2] = {{.tv_sec = used}, {.tv_sec = used}};
    (void)!mkdir(layers, 0700);
    assert_int_equal(mkdir(dir, 0755) | mkdir(tree, 0755) | mkdir(deep, 0755), 0);
    check_put_file(deep, "f", "hello");
    check_put_file(dir, "note", note);
    check_put_file(dir, "size", "1234 5\n");
    assert_int_equal(utimensat(AT_FDCWD, dir, times, 0), 0);
}

static void test_list(void **state)
{
    (void)state;
    struct error err;
    char *data = check_temp_dir();
    scoped_layer_cache struct layer_cache cache = {.fd = -1};
    assert_int_equal(layer_cache_open(&cache, data, &err), 0);
    assert_int_equal(cache.count, 0); /* none was ever made */
    layer_cache_close(&cache);

    make_layer(data, ONE, "{\"language\": \"python\", \"requirements\": [\"a\", \"b==1\", 7]}",
               1000);
    make_layer(data, TWO, "no json at all", 2000);
    scoped_free char *layers = xasprintf("%s/layers", data);
    check_put_file(layers, "stray", "x");
    assert_int_equal(layer_cache_open(&cache, data, &err), 0);
    assert_int_equal(cache.count, 2);
    assert_string_equal(cache.items[0].name, TWO); /* used last */
    assert_null(cache.items[0].language);
    assert_string_equal(cache.items[1].language, "python");
    assert_string_equal(cache.items[1].requirements, "a b==1");
    assert_int_equal(cache.items[1].bytes, 1234);
    assert_int_equal(cache.items[1].entries, 5);
    assert_int_equal(cache.items[1].used_ns, 1000ll * 1000000000);
    assert_false(cache.items[1].is_in_use);
    check_remove_dir(data);
}

static void test_remove(void **state)
{
    (void)state;
    struct error err;
    bool is_removed;
    char *data = check_temp_dir();
    scoped_layer_cache struct layer_cache cache = {.fd = -1};
    make_layer(data, ONE, "{}", 1000);
    scoped_free char *path = xasprintf("%s/layers/" ONE, data);
    int held = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(held, LOCK_SH), 0); /* as a spawner does for its sandbox */
    assert_int_equal(layer_cache_open(&cache, data, &err), 0);
    assert_true(cache.items[0].is_in_use);
    assert_int_equal(layer_cache_remove(&cache, &cache.items[0], &is_removed, &err), 0);
    assert_false(is_removed);
    assert_int_equal(access(path, F_OK), 0);
    int claim = layer_cache_claim(&cache, &cache.items[0]);
    scoped_free char *tree = xasprintf("%s/tree", path);
    int looking = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(claim >= 0);
    assert_int_equal(flock(looking, LOCK_SH | LOCK_NB), -1); /* so it is seen... */
    close(claim);
    assert_int_equal(flock(looking, LOCK_SH | LOCK_NB), 0); /* ...for as long as he waits */
    close(looking);
    close(held);
    assert_int_equal(layer_cache_remove(&cache, &cache.items[0], &is_removed, &err), 0);
    assert_true(is_removed);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(layer_cache_remove(&cache, &cache.items[0], &is_removed, &err), 0);
    assert_false(is_removed); /* somebody was faster */
    scoped_free char *layers = xasprintf("%s/layers", data);
    assert_int_equal(rmdir(layers), 0); /* nothing is left of it */
    check_remove_dir(data);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "lists layers, the last used first", test_list);
    check_one(&check, "removes none that is in use", test_remove);
    return check_run(&check, "layer_cache");
}
