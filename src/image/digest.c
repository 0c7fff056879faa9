/* digest.c - SHA-256 over one record per entry, in the order of a sorted walk
 *
 * A record is: type, blank, permission bits in octal, NUL, path, NUL, then 32 bytes of a file's
 * hash or a link's target and NUL. No two different trees give the same bytes: names hold no NUL,
 * and every other part has a fixed length. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/digest.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "image/tree.h"

#define MAGIC      "cove tree 1\n"
#define READ_BYTES (128 * KIB)

struct digest {
    struct sha256 *tree;
    struct sha256 *file;
    char *buffer;
    struct digest_summary summary;
    digest_progress_fn progress;
    void *ctx;
};

static void digest_release(struct digest *digest)
{
    sha256_free(digest->tree);
    sha256_free(digest->file);
    free(digest->buffer);
}

static void add_head(struct digest *digest, char type, const struct tree_entry *entry)
{
    char head[16];
    int len = snprintf(head, sizeof(head), "%c %04o", type, entry->st.st_mode & 07777);
    sha256_add(digest->tree, head, (size_t)len + 1);
    sha256_add(digest->tree, entry->path, strlen(entry->path) + 1);
}

static int add_file(struct digest *digest, const struct tree_entry *entry, struct error *err)
{
    scoped_fd int fd = openat(entry->dir_fd, entry->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, "open '%s'", entry->path);
    ssize_t n;
    while ((n = read(fd, digest->buffer, READ_BYTES)) > 0) {
        sha256_add(digest->file, digest->buffer, (size_t)n);
        digest->summary.bytes += (uint64_t)n;
    }
    if (n < 0)
        return error_sys(err, "read '%s'", entry->path);
    uint8_t hash[SHA256_BYTES];
    sha256_end(digest->file, hash);
    add_head(digest, 'f', entry);
    sha256_add(digest->tree, hash, sizeof(hash));
    return 0;
}

static int add_link(struct digest *digest, const struct tree_entry *entry, struct error *err)
{
    char target[PATH_MAX];
    ssize_t len = readlinkat(entry->dir_fd, entry->name, target, sizeof(target) - 1);
    if (len < 0)
        return error_sys(err, "read link '%s'", entry->path);
    target[len] = '\0';
    add_head(digest, 'l', entry);
    sha256_add(digest->tree, target, (size_t)len + 1);
    return 0;
}

static int visit(void *ctx, const struct tree_entry *entry, struct error *err)
{
    struct digest *digest = ctx;
    int answer = 0;
    if (entry->is_leaving)
        return 0;
    if (S_ISREG(entry->st.st_mode))
        answer = add_file(digest, entry, err);
    else if (S_ISLNK(entry->st.st_mode))
        answer = add_link(digest, entry, err);
    else if (S_ISDIR(entry->st.st_mode))
        add_head(digest, 'd', entry);
    else
        answer =
            error_set(err, ERROR_INVALID, "'%s' is neither file, folder nor link", entry->path);

    digest->summary.entries++;
    if (answer == 0 && digest->progress)
        digest->progress(digest->ctx, digest->summary.entries);
    return answer;
}

int digest_tree(int root_fd, digest_progress_fn progress, void *ctx, struct digest_summary *out,
                struct error *err)
{
    __attribute__((cleanup(digest_release))) struct digest digest = {
        .tree = sha256_new(),
        .file = sha256_new(),
        .buffer = xmalloc(READ_BYTES),
        .progress = progress,
        .ctx = ctx,
    };
    sha256_add(digest.tree, MAGIC, strlen(MAGIC));
    if (tree_walk(root_fd, visit, &digest, err) < 0)
        return error_wrap(err, "hash the image");
    sha256_end(digest.tree, digest.summary.hash);
    *out = digest.summary;
    return 0;
}
