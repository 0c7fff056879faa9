/* porter_list.c - one page of the names in a directory
 *
 * A page begins behind a name, not at a place: what is made or removed meanwhile moves nothing else
 * to another page. One walk keeps the smallest names behind it, so memory is bounded however many
 * there are, and only those of the page are looked at closer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "init/beneath.h"
#include "init/porter.h"

#define ALIVE_EACH 8192 /* names */

static struct page {
    char names[FILES_PAGE_MAX][FILES_NAME_MAX + 1];
    uint16_t order[FILES_PAGE_MAX]; /* of the names, the smallest first */
    size_t count, max;
    bool has_more;
} page;

/* How many names of the page are smaller. */
static size_t find_place(const struct page *l, const char *name)
{
    size_t low = 0, high = l->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(l->names[l->order[middle]], name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void keep(struct page *l, const char *name)
{
    size_t at = find_place(l, name);
    uint16_t slot = (uint16_t)l->count;
    if (l->count == l->max) {
        l->has_more = true;
        if (at == l->max)
            return;
        slot = l->order[l->max - 1]; /* the largest gives way */
        l->count--;
    }
    memmove(&l->order[at + 1], &l->order[at], (l->count - at) * sizeof(l->order[0]));
    l->order[at] = slot;
    l->count++;
    memcpy(l->names[slot], name, strlen(name) + 1); /* is_name() has seen that it fits */
}

static bool is_name(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strlen(name) <= FILES_NAME_MAX;
}

static int walk(struct page *l, DIR *dir, const char *after)
{
    for (unsigned seen = 1;; seen++) {
        errno = 0;
        struct dirent *e = readdir(dir);
        if (!e)
            return errno;
        if (is_name(e->d_name) && strcmp(e->d_name, after) > 0)
            keep(l, e->d_name);
        if (seen % ALIVE_EACH == 0)
            porter_tell_alive();
    }
}

static void tell(const struct page *l, int fd)
{
    for (size_t i = 0; i < l->count; i++) {
        struct stat st;
        const char *name = l->names[l->order[i]];
        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) /* else it is gone meanwhile */
            porter_tell_entry(&st, name);
    }
}

int porter_list(struct porter *p)
{
    struct page *l = &page;
    int fd = beneath_open(p->root, p->path, O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return errno;
    l->count = 0;
    l->has_more = false;
    l->max = MIN(MAX(p->order.count, 1u), (uint32_t)FILES_PAGE_MAX);
    int error = walk(l, dir, p->other);
    if (!error)
        tell(l, fd);
    p->flags |= l->has_more ? FILES_MORE : 0;
    closedir(dir);
    return error;
}
