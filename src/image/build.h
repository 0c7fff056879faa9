/* build.h - makes an image from a recipe, a folder with
 *
 *   runner.conf   how its programs are started (see runner.h)
 *   packages      Debian packages to unpack
 *   customize     program that shapes the unpacked root (optional)
 *   prepare       program that fetches what is no package, before (optional)
 *
 * beside a folder `common` with what holds for all. images/README.md is the manual. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "codec/sha256.h"
#include "image/arguments.h"
#include "image/progress.h"

struct image_store;

struct build_request {
    const char *recipes_dir;
    const char *name; /* of the recipe, and of the image */
    struct progress progress;
};

/* Names of the recipes in a folder, sorted, added to `out`. */
MUST_CHECK int build_recipes(const char *recipes_dir, struct arguments *out, struct error *err);

/* Builds and stores. As root it works in place; else mmdebstrap needs user namespaces with a range
 * of sub-ids. When it fails, what the tools said stays in a file that the hint names. */
MUST_CHECK int build_image(const struct image_store *store, const struct build_request *request,
                           uint8_t digest[SHA256_BYTES], struct error *err);
