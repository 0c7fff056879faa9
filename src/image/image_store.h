/* image_store.h - where images live: found by name or by the hash of their content
 *
 *   <data-dir>/images/<64 hex digits>/rootfs/...    the tree, never changed once it is there
 *   <data-dir>/images/<64 hex digits>/runner.conf   how programs are started in it
 *   <data-dir>/images/<64 hex digits>/image.conf    name, created, size, entries, source
 *   <data-dir>/images/tags/<name>                   a file that holds the 64 digits
 *
 * There may be two stores: the user's own, and the system's below it. A name in the first hides the
 * same name in the second. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/scoped.h"
#include "codec/sha256.h"

#define IMAGE_STORE_SYSTEM_DIR     "/var/lib/cove"
#define IMAGE_STORE_NAME_MAX_BYTES 64
#define IMAGE_STORE_DIRS           3 /* own, system, NULL */

struct image_store; /* opaque */

/* The data directories to look in, in order, NULL-terminated; `data_dir` is borrowed into `dirs`.
 */
void image_store_dirs(const char *data_dir, const char *dirs[IMAGE_STORE_DIRS]);

/* Names are [a-z0-9][a-z0-9._-]*, at most 63 characters, and not "tags". */
bool image_store_name_is_valid(const char *name);

/* Opens `<data_dir>/images`; a missing one is ERROR_NOT_FOUND. */
MUST_CHECK int image_store_open(struct image_store **out, const char *data_dir, struct error *err);

/* Opens it, made before when it is missing. */
MUST_CHECK int image_store_create(struct image_store **out, const char *data_dir,
                                  struct error *err);
void image_store_free(struct image_store *store);
SCOPED_DEFINE(image_store)

const char *image_store_path(const struct image_store *store);     /* of images/; borrowed */
const char *image_store_data_dir(const struct image_store *store); /* borrowed */

/* What the tag `name` stands for; ERROR_NOT_FOUND when there is none. */
MUST_CHECK int image_store_resolve(const struct image_store *store, const char *name,
                                   uint8_t digest[SHA256_BYTES], struct error *err);

/* All tags, sorted: calls `each` with borrowed values until it answers -1. */
typedef int (*image_store_tag_fn)(void *ctx, const char *name, const uint8_t digest[SHA256_BYTES],
                                  struct error *err);
MUST_CHECK int image_store_tags(const struct image_store *store, image_store_tag_fn each, void *ctx,
                                struct error *err);

/* The folder of an image; the fd is owned by the caller. */
MUST_CHECK int image_store_open_image(const struct image_store *store,
                                      const uint8_t digest[SHA256_BYTES], int *out_fd,
                                      struct error *err);

/* Plain data of image.conf. */
struct image_info {
    char name[IMAGE_STORE_NAME_MAX_BYTES]; /* under which it was first made */
    uint8_t digest[SHA256_BYTES];
    char created[32];
    uint64_t size_bytes;
    uint64_t entries;
    char source[256]; /* "recipe python", "import app.tar" */
};

MUST_CHECK int image_store_info(const struct image_store *store, const uint8_t digest[SHA256_BYTES],
                                struct image_info *out, struct error *err);

/* Every image, tagged or not, in the order of their digests. */
typedef int (*image_store_image_fn)(void *ctx, const uint8_t digest[SHA256_BYTES],
                                    struct error *err);
MUST_CHECK int image_store_images(const struct image_store *store, image_store_image_fn each,
                                  void *ctx, struct error *err);

/* Moves the folder `draft_name` of the store into place under its digest and lets `name` stand for
 * it, durably. An image of that digest that is there already is used, and the draft left alone. */
MUST_CHECK int image_store_commit(const struct image_store *store, const char *draft_name,
                                  const char *name, const uint8_t digest[SHA256_BYTES],
                                  struct error *err);

/* Ends a tag; the image stays. */
MUST_CHECK int image_store_untag(const struct image_store *store, const char *name,
                                 struct error *err);

/* Removes an image that no tag stands for; one that has a tag is ERROR_CONFLICT. */
MUST_CHECK int image_store_remove(const struct image_store *store,
                                  const uint8_t digest[SHA256_BYTES], struct error *err);
