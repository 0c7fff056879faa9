/* module.c - looks for folders of packages below usr/lib/python3*, and what is in them
 *
 * The tree is somebody's image: links in it are followed as a process inside would, and nothing is
 * believed but that a name is there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/module.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "image/image_store.h"
#include "image/tree.h"

#define INTERPRETER "python3" /* how their folders begin: python3, python3.11 */

static const char *const homes[] = {"usr/local/lib", "usr/lib"};
static const char *const folders[] = {"dist-packages", "site-packages"};

static bool is_there(int root_fd, const char *path)
{
    scoped_fd int fd = tree_open_in_root(root_fd, path, O_PATH);
    return fd >= 0;
}

/* A package is a folder, a module of one file has the ending. */
static bool has_module(int root_fd, const char *home, const char *interpreter, const char *name)
{
    size_t len = strcspn(name, ".");
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        scoped_free char *folder =
            xasprintf("%s/%s/%s/%.*s", home, interpreter, folders[i], (int)len, name);
        scoped_free char *file = xasprintf("%s.py", folder);
        if (is_there(root_fd, folder) || is_there(root_fd, file))
            return true;
    }
    return false;
}

static DIR *open_folder(int root_fd, const char *path)
{
    int fd = tree_open_in_root(root_fd, path, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    return dir;
}

static bool is_interpreter(const struct dirent *entry)
{
    return strncmp(entry->d_name, INTERPRETER, strlen(INTERPRETER)) == 0;
}

static bool is_in_home(int root_fd, const char *home, const char *name)
{
    bool is_found = false;
    DIR *dir = open_folder(root_fd, home);
    for (struct dirent *entry; dir && !is_found && (entry = readdir(dir));) {
        if (is_interpreter(entry))
            is_found = has_module(root_fd, home, entry->d_name, name);
    }
    if (dir)
        closedir(dir);
    return is_found;
}

bool module_is_below(int root_fd, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(homes); i++) {
        if (is_in_home(root_fd, homes[i], name))
            return true;
    }
    return false;
}

static int open_root(const struct runner *runner)
{
    struct error ignored;
    scoped(image_store) struct image_store *store = NULL;
    scoped_fd int image = -1;
    if (!runner->data_dir || image_store_open(&store, runner->data_dir, &ignored) < 0 ||
        image_store_open_image(store, runner->digest, &image, &ignored) < 0)
        return -1;
    return tree_open(image, "rootfs", O_PATH | O_DIRECTORY);
}

bool module_is_in(const struct runner *runner, const char *name)
{
    scoped_fd int root = open_root(runner);
    return root >= 0 && module_is_below(root, name);
}

/* --- packages --------------------------------------------------------------------------------- */

/* A part of a name that people are shown, up to the next dash; how long it is, or 0. */
static size_t read_word(char out[MODULE_PACKAGE_BYTES], const char *text, const char *end)
{
    size_t len = 0;
    while (text + len < end && text[len] != '-') {
        if (text[len] <= ' ' || text[len] > '~' || len + 1 >= MODULE_PACKAGE_BYTES)
            return 0;
        len++;
    }
    memcpy(out, text, len);
    out[len] = '\0';
    return len;
}

/* "numpy-1.24.2.dist-info", "six-1.16.0-py3.11.egg-info" */
static bool read_package(struct module_package *out, const char *name)
{
    static const char *const endings[] = {".dist-info", ".egg-info"};
    const char *end = NULL;
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        size_t len = strlen(name), ending = strlen(endings[i]);
        if (len > ending && strcmp(name + len - ending, endings[i]) == 0)
            end = name + len - ending;
    }
    if (!end)
        return false;
    size_t len = read_word(out->name, name, end);
    return len > 0 && name[len] == '-' && read_word(out->version, name + len + 1, end) > 0;
}

static void list_folder(int root_fd, const char *path, struct module_packages *out)
{
    DIR *dir = open_folder(root_fd, path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct module_package one;
        if (out->count >= MODULE_PACKAGES_MAX || !read_package(&one, entry->d_name))
            continue;
        out->items = xrealloc(out->items, (out->count + 1) * sizeof(one));
        out->items[out->count++] = one;
    }
    if (dir)
        closedir(dir);
}

static void list_home(int root_fd, const char *home, struct module_packages *out)
{
    DIR *dir = open_folder(root_fd, home);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        for (size_t i = 0; is_interpreter(entry) && i < ARRAY_LEN(folders); i++) {
            scoped_free char *path = xasprintf("%s/%s/%s", home, entry->d_name, folders[i]);
            list_folder(root_fd, path, out);
        }
    }
    if (dir)
        closedir(dir);
}

static int by_name(const void *a, const void *b)
{
    const struct module_package *x = a, *y = b;
    int order = strcasecmp(x->name, y->name);
    return order ? order : strcmp(x->version, y->version);
}

/* The same one may be found in two places, which lead to each other. */
static void sort(struct module_packages *p)
{
    size_t kept = 0;
    if (p->count > 0)
        qsort(p->items, p->count, sizeof(*p->items), by_name);
    for (size_t i = 0; i < p->count; i++) {
        if (kept == 0 || by_name(&p->items[kept - 1], &p->items[i]) != 0)
            p->items[kept++] = p->items[i];
    }
    p->count = kept;
}

void module_list_below(int root_fd, struct module_packages *out)
{
    *out = (struct module_packages){0};
    for (size_t i = 0; i < ARRAY_LEN(homes); i++)
        list_home(root_fd, homes[i], out);
    sort(out);
}

void module_list(const struct runner *runner, struct module_packages *out)
{
    scoped_fd int root = strcmp(runner->language, "python") == 0 ? open_root(runner) : -1;
    *out = (struct module_packages){0};
    if (root >= 0)
        module_list_below(root, out);
}

void module_packages_release(struct module_packages *packages)
{
    free(packages->items);
    *packages = (struct module_packages){0};
}
