/* draft.c - the common end of building and importing
 *
 * The digest of an image covers its tree and its runner.conf: the same tree with another command is
 * another image. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/draft.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "image/digest.h"
#include "image/image_store.h"
#include "image/progress.h"
#include "image/runner.h"
#include "image/scratch.h"
#include "image/scrub.h"
#include "image/tree.h"

#define PREFIX        ".scratch-"
#define MAGIC         "cove image 1\n"
#define ENTRIES_GUESS 15000 /* of a typical image: what the bar runs against while hashing */
#define TELL_EVERY    256

struct draft {
    const struct image_store *store;
    struct scratch *scratch;
    int image_fd;
    char *image_dir, *root_dir, *work_dir;
};

int draft_open(struct draft **out, const struct image_store *store, struct error *err)
{
    scoped(draft) struct draft *draft = xcalloc(1, sizeof(*draft));
    *draft = (struct draft){.store = store, .image_fd = -1};
    if (scratch_open(&draft->scratch, image_store_path(store), PREFIX, 0700, err) < 0) {
        if (err->code == ERROR_DENIED)
            error_hint(err, "only its owner may change that store; --data-dir chooses another");
        return -1;
    }
    int fd = scratch_fd(draft->scratch);
    const char *path = scratch_path(draft->scratch);
    draft->image_dir = xasprintf("%s/image", path);
    draft->root_dir = xasprintf("%s/image/rootfs", path);
    draft->work_dir = xasprintf("%s/work", path);
    if (mkdirat(fd, "image", 0755) < 0 || mkdirat(fd, "work", 0755) < 0)
        return error_sys(err, "make a folder in '%s'", path);
    draft->image_fd = tree_open(fd, "image", O_RDONLY | O_DIRECTORY);
    if (draft->image_fd < 0)
        return error_sys(err, "open '%s'", draft->image_dir);
    *out = take_ptr(&draft);
    return 0;
}

void draft_free(struct draft *draft)
{
    if (!draft)
        return;
    scoped_close_fd(&draft->image_fd);
    scratch_free(draft->scratch);
    free(draft->image_dir);
    free(draft->root_dir);
    free(draft->work_dir);
    free(draft);
}

int draft_image_fd(const struct draft *draft)
{
    return draft->image_fd;
}

const char *draft_image_dir(const struct draft *draft)
{
    return draft->image_dir;
}

const char *draft_root_dir(const struct draft *draft)
{
    return draft->root_dir;
}

const char *draft_work_dir(const struct draft *draft)
{
    return draft->work_dir;
}

/* --- commit ----------------------------------------------------------------------------------- */

static int read_conf(const struct draft *draft, char **out, struct error *err)
{
    scoped_runner_list struct runner_list runners = {0};
    if (runner_list_parse(&runners, draft->image_fd, RUNNER_CONF, err) < 0)
        return -1;
    scoped_fd int fd = tree_open(draft->image_fd, RUNNER_CONF, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || fchmod(fd, 0644) < 0)
        return error_sys(err, "open '" RUNNER_CONF "'");
    return fd_read_text(fd, out, CONF_FILE_MAX_BYTES, err);
}

static void hash_image(const struct digest_summary *tree, const char *conf,
                       uint8_t digest[SHA256_BYTES])
{
    BUG_ON(!conf); /* read before */
    scoped(sha256) struct sha256 *hash = sha256_new();
    sha256_add(hash, MAGIC, strlen(MAGIC));
    sha256_add(hash, tree->hash, sizeof(tree->hash));
    sha256_add(hash, conf, strlen(conf));
    sha256_end(hash, digest);
}

/* A value that fits one line of a conf file, whatever it held. */
static void add_value(struct strbuf *out, const char *key, const char *value)
{
    strbuf_add_fmt(out, "%s = ", key);
    for (; *value; value++)
        strbuf_add_char(out, (unsigned char)*value < ' ' || *value == '#' ? '_' : *value);
    strbuf_add_char(out, '\n');
}

static int write_facts(const struct draft *draft, const char *name, const char *source,
                       const struct digest_summary *tree, struct error *err)
{
    char created[CLOCK_TEXT_BYTES];
    clock_format(clock_wall_ns(), created);
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, CONF_FILE_MAX_BYTES);
    add_value(&text, "name", name);
    add_value(&text, "created", created);
    add_value(&text, "source", source);
    strbuf_add_fmt(&text, "size = %llu\nentries = %llu\n", (unsigned long long)tree->bytes,
                   (unsigned long long)tree->entries);

    scoped_fd int fd = openat(draft->image_fd, "image.conf",
                              O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_sys(err, "write 'image.conf'");
    return fd_write_all(fd, strbuf_str(&text), text.len, err);
}

struct hashing {
    const struct progress *progress;
    unsigned from, to; /* percent */
};

static void hashing_progress(void *ctx, uint64_t entries)
{
    const struct hashing *hashing = ctx;
    if (entries % TELL_EVERY == 0) {
        uint64_t done = MIN(entries, ENTRIES_GUESS);
        unsigned span = hashing->to - hashing->from;
        progress_tell(hashing->progress, "hash the image",
                      hashing->from + (unsigned)(done * span / ENTRIES_GUESS));
    }
}

int draft_commit(struct draft *draft, const char *name, const char *source,
                 const struct progress *progress, unsigned percent, uint8_t digest[SHA256_BYTES],
                 struct error *err)
{
    struct hashing hashing = {progress, percent + (99 - percent) / 4, 95};
    struct digest_summary tree;
    uint8_t hash[SHA256_BYTES];
    scoped_free char *conf = NULL;

    progress_tell(progress, "check the image", percent);
    if (read_conf(draft, &conf, err) < 0)
        return -1;
    scoped_fd int root = tree_open(draft->image_fd, "rootfs", O_RDONLY | O_DIRECTORY);
    if (root < 0)
        return error_sys(err, "open the root of the image");
    if (scrub_root(root, err) < 0 ||
        digest_tree(root, hashing_progress, &hashing, &tree, err) < 0 ||
        write_facts(draft, name, source, &tree, err) < 0)
        return -1;

    progress_tell(progress, "store the image", 96);
    hash_image(&tree, conf, hash);
    scoped_free char *inner = xasprintf("%s/image", scratch_name(draft->scratch));
    if (image_store_commit(draft->store, inner, name, hash, err) < 0)
        return -1;
    memcpy(digest, hash, SHA256_BYTES);
    return 0;
}
