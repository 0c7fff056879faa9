/* test_image_module.c - modules are found where they are, and nowhere outside of the image */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/module.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

struct place {
    const char *name;
    const char *path; /* a folder, or a file of an empty text; NULL: nothing */
    const char *link; /* to this, in place of the first folder of the path */
    const char *module;
    bool is_found;
};

static const struct place places[] = {
    {"Debian's", "usr/lib/python3/dist-packages/numpy/", NULL, "numpy", true},
    {"pip's", "usr/local/lib/python3.12/site-packages/numpy/", NULL, "numpy", true},
    {"a part of a package", "usr/lib/python3/dist-packages/matplotlib/", NULL, "matplotlib.pyplot",
     true},
    {"a module of one file", "usr/lib/python3/dist-packages/six.py", NULL, "six", true},
    {"only another one", "usr/lib/python3/dist-packages/numpydoc/", NULL, "numpy", false},
    {"of another interpreter", "usr/lib/python2.7/dist-packages/numpy/", NULL, "numpy", false},
    {"an empty image", NULL, NULL, "numpy", false},
    {"through a link inside", "real/lib/python3/dist-packages/numpy/", "/real", "numpy", true},
    {"a link that leads out", NULL, "..", "numpy", false},
};

static void make_path(const char *root, const char *path)
{
    scoped_free char *full = xasprintf("%s/%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(full, 0755);
        *at = '/';
    }
    if (full[strlen(full) - 1] != '/') {
        scoped_fd int fd = open(full, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
    }
}

static void test_place(void **state)
{
    const struct place *row = *state;
    char *dir = check_temp_dir();
    scoped_free char *root = xasprintf("%s/root", dir), *usr = xasprintf("%s/usr", root);
    assert_int_equal(mkdir(root, 0755), 0);
    make_path(dir, "lib/python3/dist-packages/numpy/"); /* beside the image */
    if (row->path)
        make_path(root, row->path);
    if (row->link)
        assert_int_equal(symlink(row->link, usr), 0);
    scoped_fd int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(module_is_below(fd, row->module), row->is_found);
    check_remove_dir(dir);
}

/* Names that no installer writes are left out: people are shown the others. */
static void test_packages(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    static const char *const paths[] = {
        "usr/lib/python3/dist-packages/numpy-1.24.2.egg-info/PKG-INFO",
        "usr/lib/python3/dist-packages/Pillow-9.4.0.egg-info",
        "usr/lib/python3/dist-packages/six-1.16.0-py3.11.egg-info/",
        "usr/local/lib/python3.11/site-packages/attrs-22.2.0.dist-info/",
        "usr/local/lib/python3.11/site-packages/numpy-1.24.2.dist-info/", /* once more */
        "usr/lib/python3/dist-packages/numpy/",
        "usr/lib/python3/dist-packages/nothing.dist-info/",
        "usr/lib/python3/dist-packages/-1.dist-info/",
        "usr/lib/python3/dist-packages/bad\x1bname-1.dist-info/",
        "usr/lib/python3/dist-packages/bad-1\n2.dist-info/",
        "usr/lib/python2/dist-packages/old-1.dist-info/",
    };
    static const char *const expected[] = {"attrs 22.2.0", "numpy 1.24.2", "Pillow 9.4.0",
                                           "six 1.16.0"};
    scoped_packages struct module_packages found;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        make_path(dir, paths[i]);
    scoped_fd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    module_list_below(fd, &found);
    assert_int_equal(found.count, ARRAY_LEN(expected));
    for (size_t i = 0; i < found.count; i++) {
        scoped_free char *text = xasprintf("%s %s", found.items[i].name, found.items[i].version);
        assert_string_equal(text, expected[i]);
    }
    check_remove_dir(dir);
}

static void test_no_image(void **state)
{
    (void)state;
    char nowhere[] = "/nonexistent";
    assert_false(module_is_in(&(struct runner){.data_dir = nowhere}, "numpy"));
    assert_false(module_is_in(&(struct runner){0}, "numpy"));
}

int main(void)
{
    struct check check = {0};
    check_rows(&check, places, test_place);
    check_one(&check, "packages are those that an installer has left", test_packages);
    check_one(&check, "an image that is not there has none", test_no_image);
    return check_run(&check, "image_module");
}
