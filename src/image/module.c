/* module.c - looks for folders of packages below usr/lib/python3*, and what is in them
 *
 * The tree is somebody's image: links in it are followed as a process inside would, and nothing is
 * believed but that a name is there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/module.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
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

static bool is_in_home(int root_fd, const char *home, const char *name)
{
    bool is_found = false;
    int fd = tree_open_in_root(root_fd, home, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *entry; dir && !is_found && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, INTERPRETER, strlen(INTERPRETER)) == 0)
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

bool module_is_in(const struct runner *runner, const char *name)
{
    struct error ignored;
    scoped(image_store) struct image_store *store = NULL;
    scoped_fd int image = -1;
    if (!runner->data_dir || image_store_open(&store, runner->data_dir, &ignored) < 0 ||
        image_store_open_image(store, runner->digest, &image, &ignored) < 0)
        return false;
    scoped_fd int root = tree_open(image, "rootfs", O_PATH | O_DIRECTORY);
    return root >= 0 && module_is_below(root, name);
}
