/* layer_cache.c - a lock decides whether a layer is in use: sandboxes hold a shared one */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/layer_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "codec/json.h"
#include "image/tree.h"

#define NOTE_MAX_BYTES (64 * KIB)
#define SIZE_MAX_BYTES 64
#define DRAFT_PREFIX   ".new-" /* what a helper of the spawner's finds and removes after a crash */

static bool is_digest(const char *name)
{
    return strlen(name) == SHA256_HEX_BYTES - 1 &&
           strspn(name, "0123456789abcdef") == SHA256_HEX_BYTES - 1;
}

/* --- looking --------------------------------------------------------------------------------- */

static int open_layer(int dir_fd, const char *name)
{
    return tree_open(dir_fd, name, O_RDONLY | O_DIRECTORY);
}

static char *read_file(int layer_fd, const char *name, size_t max)
{
    struct error ignored;
    char *text = NULL;
    scoped_fd int fd = tree_open(layer_fd, name, O_RDONLY);
    return fd >= 0 && fd_read_text(fd, &text, max, &ignored) == 0 ? text : xstrdup("");
}

static char *join(const json_t *list)
{
    scoped_strbuf struct strbuf text;
    size_t i;
    const json_t *item;
    strbuf_init(&text, NOTE_MAX_BYTES);
    json_array_foreach(list, i, item)
    {
        if (json_is_string(item))
            strbuf_add_fmt(&text, "%s%s", text.len ? " " : "", json_string_value(item));
    }
    return text.len ? strbuf_take(&text) : NULL;
}

static void read_note(struct layer_info *layer, int fd)
{
    struct error ignored;
    scoped_free char *text = read_file(fd, "note", NOTE_MAX_BYTES);
    scoped_json json_t *note = NULL;
    const struct json_limits limits = {.max_bytes = NOTE_MAX_BYTES};
    if (json_parse(&note, text, strlen(text), &limits, &ignored) < 0 || !json_is_object(note))
        return;
    const char *language = json_string_value(json_object_get(note, "language"));
    layer->language = language ? xstrdup(language) : NULL;
    layer->requirements = join(json_object_get(note, "requirements"));
    layer->created_ns = json_integer_value(json_object_get(note, "created_ns"));
}

static void look(struct layer_info *layer, int fd)
{
    struct stat st;
    scoped_free char *size = read_file(fd, "size", SIZE_MAX_BYTES);
    if (sscanf(size, "%" SCNu64 " %" SCNu64, &layer->bytes, &layer->entries) != 2)
        layer->bytes = layer->entries = 0;
    if (fstat(fd, &st) == 0)
        layer->used_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    layer->is_in_use = flock(fd, LOCK_EX | LOCK_NB) < 0;
    flock(fd, LOCK_UN);
    read_note(layer, fd);
}

static void add(struct layer_cache *cache, const char *name)
{
    scoped_fd int fd = open_layer(cache->fd, name);
    if (fd < 0)
        return; /* somebody else removes it */
    cache->items = xrealloc(cache->items, (cache->count + 1) * sizeof(*cache->items));
    struct layer_info *layer = &cache->items[cache->count++];
    *layer = (struct layer_info){0};
    memcpy(layer->name, name, SHA256_HEX_BYTES);
    look(layer, fd);
}

static int compare(const void *a, const void *b)
{
    const struct layer_info *x = a, *y = b;
    return x->used_ns > y->used_ns ? -1 : x->used_ns < y->used_ns;
}

int layer_cache_open(struct layer_cache *out, const char *data_dir, struct error *err)
{
    struct layer_cache cache = {.fd = -1};
    scoped_free char *path = xasprintf("%s/layers", data_dir);
    *out = cache;
    scoped_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir)
        return error_sys(err, "open the package layers in '%s'", path);
    cache.fd = take_fd(&fd);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (is_digest(entry->d_name))
            add(&cache, entry->d_name);
    }
    closedir(dir);
    if (cache.count > 0)
        qsort(cache.items, cache.count, sizeof(*cache.items), compare);
    *out = cache;
    return 0;
}

void layer_cache_close(struct layer_cache *cache)
{
    for (size_t i = 0; i < cache->count; i++) {
        free(cache->items[i].language);
        free(cache->items[i].requirements);
    }
    free(cache->items);
    if (cache->fd >= 0)
        scoped_close_fd(&cache->fd);
    *cache = (struct layer_cache){.fd = -1};
}

/* --- removing -------------------------------------------------------------------------------- */

int layer_cache_claim(const struct layer_cache *cache, const struct layer_info *layer)
{
    scoped_fd int fd = open_layer(cache->fd, layer->name);
    scoped_fd int tree = fd < 0 ? -1 : tree_open(fd, "tree", O_RDONLY | O_DIRECTORY);
    return tree >= 0 && flock(tree, LOCK_EX | LOCK_NB) == 0 ? take_fd(&tree) : -1;
}

/* Its name goes first, behind the lock: from then on no spawner finds it. What a crash leaves of it
 * has a name that the next build removes. */
int layer_cache_remove(const struct layer_cache *cache, const struct layer_info *layer,
                       bool *is_removed, struct error *err)
{
    char doomed[sizeof(DRAFT_PREFIX) + SHA256_HEX_BYTES];
    scoped_fd int fd = open_layer(cache->fd, layer->name);
    *is_removed = false;
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return error_sys(err, "open package layer '%.12s'", layer->name);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return 0;
    snprintf(doomed, sizeof(doomed), DRAFT_PREFIX "%s", layer->name);
    if (renameat(cache->fd, layer->name, cache->fd, doomed) < 0)
        return error_sys(err, "remove package layer '%.12s'", layer->name);
    *is_removed = true;
    return tree_remove(cache->fd, doomed, err);
}
