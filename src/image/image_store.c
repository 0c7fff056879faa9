/* image_store.c - folders named by digest, tags beside them
 *
 * Readers take no lock: an image appears by one rename, complete and synced, and a tag is replaced
 * by one rename. Writers hold a lock from their look to their rename, so that no tag is given to an
 * image that somebody else is just removing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/image_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/parse.h"
#include "image/tree.h"

#define TAGS          "tags"
#define TAG_DRAFT     ".new-"             /* before the name: never a valid one */
#define REMOVED       ".scratch-removed-" /* found by the next build when we die while removing */
#define TAG_MAX_BYTES 128

struct image_store {
    int fd; /* of images/ */
    char *data_dir;
    char *path;
};

void image_store_dirs(const char *data_dir, const char *dirs[IMAGE_STORE_DIRS])
{
    size_t count = 0;
    if (data_dir)
        dirs[count++] = data_dir;
    if (!data_dir || strcmp(data_dir, IMAGE_STORE_SYSTEM_DIR) != 0)
        dirs[count++] = IMAGE_STORE_SYSTEM_DIR;
    dirs[count] = NULL;
}

bool image_store_name_is_valid(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-");
    return len > 0 && len < IMAGE_STORE_NAME_MAX_BYTES && name[len] == '\0' &&
           strchr(first, name[0]) && strcmp(name, TAGS) != 0;
}

static int check_name(const char *name, struct error *err)
{
    if (image_store_name_is_valid(name))
        return 0;
    error_set(err, ERROR_INVALID, "'%.80s' cannot be the name of an image", name);
    error_hint(err, "use small letters, digits, '.', '_' and '-', at most %d of them",
               IMAGE_STORE_NAME_MAX_BYTES - 1);
    return -1;
}

/* --- open ------------------------------------------------------------------------------------- */

int image_store_open(struct image_store **out, const char *data_dir, struct error *err)
{
    scoped(image_store) struct image_store *store = xcalloc(1, sizeof(*store));
    store->data_dir = xstrdup(data_dir);
    store->path = xasprintf("%s/images", data_dir);
    store->fd = open(store->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->fd < 0)
        return error_sys(err, "open the image store '%s'", store->path);
    *out = take_ptr(&store);
    return 0;
}

static int make_folders(const char *path, struct error *err)
{
    scoped_free char *part = xstrdup(path);
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return error_sys(err, "make '%s'", part);
        if (!slash)
            return 0;
        *slash = '/';
    }
}

int image_store_create(struct image_store **out, const char *data_dir, struct error *err)
{
    scoped_free char *tags = xasprintf("%s/images/" TAGS, data_dir);
    if (make_folders(tags, err) < 0) {
        if (err->sys_errno == EACCES || err->sys_errno == EROFS || err->sys_errno == EPERM)
            error_hint(err, "choose a folder that you may write to with --data-dir");
        return -1;
    }
    return image_store_open(out, data_dir, err);
}

void image_store_free(struct image_store *store)
{
    if (!store)
        return;
    scoped_close_fd(&store->fd);
    free(store->data_dir);
    free(store->path);
    free(store);
}

const char *image_store_path(const struct image_store *store)
{
    return store->path;
}

const char *image_store_data_dir(const struct image_store *store)
{
    return store->data_dir;
}

/* --- read ------------------------------------------------------------------------------------- */

static int read_tag(int tags_fd, const char *name, uint8_t digest[SHA256_BYTES], struct error *err)
{
    scoped_fd int fd = tree_open(tags_fd, name, O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return error_sys(err, "open the tag '%s'", name);
    char text[TAG_MAX_BYTES];
    ssize_t len = fd_read_full(fd, text, sizeof(text) - 1);
    if (len < 0)
        return error_sys(err, "read the tag '%s'", name);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    text[len] = '\0';
    if (!parse_hex(text, digest, SHA256_BYTES))
        return error_set(err, ERROR_INTERNAL, "the tag '%s' does not hold a digest", name);
    return 0;
}

int image_store_resolve(const struct image_store *store, const char *name,
                        uint8_t digest[SHA256_BYTES], struct error *err)
{
    uint8_t found[SHA256_BYTES];
    if (check_name(name, err) < 0)
        return -1;
    scoped_fd int tags = tree_open(store->fd, TAGS, O_RDONLY | O_DIRECTORY);
    if (tags < 0)
        return error_sys(err, "open the tags of '%s'", store->path);
    if (read_tag(tags, name, found, err) < 0)
        return -1;
    memcpy(digest, found, SHA256_BYTES);
    return 0;
}

struct tag_listing {
    image_store_tag_fn each;
    void *ctx;
};

static int visit_tag(void *ctx, const struct tree_entry *entry, struct error *err)
{
    struct tag_listing *listing = ctx;
    uint8_t digest[SHA256_BYTES];
    if (S_ISDIR(entry->st.st_mode) || !image_store_name_is_valid(entry->name))
        return TREE_SKIP;
    if (read_tag(entry->dir_fd, entry->name, digest, err) < 0)
        return err->sys_errno == ENOENT ? 0 : -1; /* removed since we read the folder */
    return listing->each(listing->ctx, entry->name, digest, err);
}

int image_store_tags(const struct image_store *store, image_store_tag_fn each, void *ctx,
                     struct error *err)
{
    scoped_fd int tags = tree_open(store->fd, TAGS, O_RDONLY | O_DIRECTORY);
    if (tags < 0 && errno == ENOENT)
        return 0;
    if (tags < 0)
        return error_sys(err, "open the tags of '%s'", store->path);
    struct tag_listing listing = {each, ctx};
    return tree_walk(tags, visit_tag, &listing, err);
}

int image_store_open_image(const struct image_store *store, const uint8_t digest[SHA256_BYTES],
                           int *out_fd, struct error *err)
{
    char hex[SHA256_HEX_BYTES];
    format_hex(digest, SHA256_BYTES, hex);
    int fd = tree_open(store->fd, hex, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return error_sys(err, "open the image %.12s", hex);
    *out_fd = fd;
    return 0;
}

/* What image.conf holds; a size of 0 is a number. Unknown keys are those of a newer version. */
#define TEXT(field)   offsetof(struct image_info, field), sizeof(((struct image_info *)0)->field)
#define NUMBER(field) offsetof(struct image_info, field), 0
static const struct info_key {
    const char *name;
    size_t offset;
    size_t size;
} info_keys[] = {
    {"name", TEXT(name)},         {"created", TEXT(created)},   {"source", TEXT(source)},
    {"size", NUMBER(size_bytes)}, {"entries", NUMBER(entries)},
};

static int info_entry(void *ctx, const char *section, const char *key, const char *value,
                      struct error *err)
{
    (void)section;
    for (size_t i = 0; i < ARRAY_LEN(info_keys); i++) {
        char *field = (char *)ctx + info_keys[i].offset;
        if (strcmp(key, info_keys[i].name) != 0)
            continue;
        if (info_keys[i].size > 0)
            snprintf(field, info_keys[i].size, "%s", value);
        else if (!parse_u64(value, (uint64_t *)field))
            return error_set(err, ERROR_INVALID, "'%s' is not a number", value);
    }
    return 0;
}

int image_store_info(const struct image_store *store, const uint8_t digest[SHA256_BYTES],
                     struct image_info *out, struct error *err)
{
    struct image_info info = {.name = ""};
    scoped_fd int image = -1;
    memcpy(info.digest, digest, SHA256_BYTES);
    if (image_store_open_image(store, digest, &image, err) < 0)
        return -1;
    if (conf_read(image, "image.conf", info_entry, &info, err) < 0)
        return error_wrap(err, "image '%s'", info.name);
    *out = info;
    return 0;
}

struct image_listing {
    image_store_image_fn each;
    void *ctx;
};

static int visit_image(void *ctx, const struct tree_entry *entry, struct error *err)
{
    struct image_listing *listing = ctx;
    uint8_t digest[SHA256_BYTES];
    if (S_ISDIR(entry->st.st_mode) && parse_hex(entry->name, digest, SHA256_BYTES) &&
        listing->each(listing->ctx, digest, err) < 0)
        return -1;
    return TREE_SKIP;
}

int image_store_images(const struct image_store *store, image_store_image_fn each, void *ctx,
                       struct error *err)
{
    struct image_listing listing = {each, ctx};
    return tree_walk(store->fd, visit_image, &listing, err);
}

/* --- change ----------------------------------------------------------------------------------- */

/* The lock ends with the fd. */
static int lock(const struct image_store *store, int *out_fd, struct error *err)
{
    scoped_fd int tags = tree_open(store->fd, TAGS, O_RDONLY | O_DIRECTORY);
    if (tags < 0 || flock(tags, LOCK_EX) < 0)
        return error_sys(err, "lock '%s'", store->path);
    *out_fd = take_fd(&tags);
    return 0;
}

static int write_tag(int tags_fd, const char *name, const uint8_t digest[SHA256_BYTES],
                     struct error *err)
{
    scoped_free char *draft = xasprintf(TAG_DRAFT "%s", name);
    char line[SHA256_HEX_BYTES + 1];
    format_hex(digest, SHA256_BYTES, line);
    line[SHA256_HEX_BYTES - 1] = '\n';

    scoped_fd int fd =
        openat(tags_fd, draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_sys(err, "write the tag '%s'", name);
    if (fd_write_all(fd, line, SHA256_HEX_BYTES, err) < 0)
        return error_wrap(err, "write the tag '%s'", name);
    if (fsync(fd) < 0 || renameat(tags_fd, draft, tags_fd, name) < 0 || fsync(tags_fd) < 0)
        return error_sys(err, "write the tag '%s'", name);
    return 0;
}

int image_store_commit(const struct image_store *store, const char *draft_name, const char *name,
                       const uint8_t digest[SHA256_BYTES], struct error *err)
{
    scoped_fd int draft = -1, tags = -1;
    char hex[SHA256_HEX_BYTES];
    format_hex(digest, SHA256_BYTES, hex);
    if (check_name(name, err) < 0)
        return -1;
    draft = tree_open(store->fd, draft_name, O_RDONLY | O_DIRECTORY);
    if (draft < 0)
        return error_sys(err, "open '%s'", draft_name);
    /* All files at once, which one fsync() per file is not; without the lock, for it takes long. */
    if (syncfs(draft) < 0)
        return error_sys(err, "write the image to disk");

    if (lock(store, &tags, err) < 0)
        return -1;
    if (renameat2(store->fd, draft_name, store->fd, hex, RENAME_NOREPLACE) < 0 && errno != EEXIST)
        return error_sys(err, "move the image into place");
    if (fsync(store->fd) < 0)
        return error_sys(err, "write the image to disk");
    return write_tag(tags, name, digest, err);
}

int image_store_untag(const struct image_store *store, const char *name, struct error *err)
{
    scoped_fd int tags = -1;
    if (check_name(name, err) < 0 || lock(store, &tags, err) < 0)
        return -1;
    if (unlinkat(tags, name, 0) < 0 || fsync(tags) < 0)
        return error_sys(err, "remove the tag '%s'", name);
    return 0;
}

static int refuse_tagged(void *ctx, const char *name, const uint8_t digest[SHA256_BYTES],
                         struct error *err)
{
    if (memcmp(ctx, digest, SHA256_BYTES) == 0)
        return error_set(err, ERROR_CONFLICT, "the image is in use as '%s'", name);
    return 0;
}

int image_store_remove(const struct image_store *store, const uint8_t digest[SHA256_BYTES],
                       struct error *err)
{
    scoped_fd int tags = -1;
    char hex[SHA256_HEX_BYTES];
    format_hex(digest, SHA256_BYTES, hex);
    scoped_free char *removed = xasprintf(REMOVED "%s", hex);

    if (lock(store, &tags, err) < 0 ||
        image_store_tags(store, refuse_tagged, (void *)digest, err) < 0)
        return -1;
    if (tree_remove(store->fd, removed, err) < 0) /* what a crash left */
        return -1;
    /* First out of sight, in one step: half an image must not be found under its digest. */
    if (renameat(store->fd, hex, store->fd, removed) < 0)
        return error_sys(err, "remove the image %.12s", hex);
    scoped_close_fd(&tags);
    tags = -1;
    return tree_remove(store->fd, removed, err);
}
