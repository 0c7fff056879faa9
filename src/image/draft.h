/* draft.h - an image in the making: a private folder in the store until it is whole
 *
 *   <draft>/image/rootfs       filled by the maker, like
 *   <draft>/image/runner.conf
 *   <draft>/work               whatever the maker needs on the way */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/scoped.h"
#include "codec/sha256.h"

struct image_store;
struct progress;
struct draft; /* opaque */

/* Opens an empty draft with its `image` and `work` folders, and removes what dead makers left.
 * `store` is borrowed for the draft's life. */
MUST_CHECK int draft_open(struct draft **out, const struct image_store *store, struct error *err);
void draft_free(struct draft *draft); /* gives it up, unless it was committed */
SCOPED_DEFINE(draft)

int draft_image_fd(const struct draft *draft);          /* borrowed */
const char *draft_image_dir(const struct draft *draft); /* borrowed, like all paths here */
const char *draft_root_dir(const struct draft *draft);  /* not made by draft_open() */
const char *draft_work_dir(const struct draft *draft);

/* Scrubs the root, checks runner.conf, hashes both, and puts the image into the store as `name`.
 * `source` says for people where it came from. Tells percents from `percent` on. */
MUST_CHECK int draft_commit(struct draft *draft, const char *name, const char *source,
                            const struct progress *progress, unsigned percent,
                            uint8_t digest[SHA256_BYTES], struct error *err);
