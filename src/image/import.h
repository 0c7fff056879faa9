/* import.h - makes an image from a container image on disk
 *
 * Taken are OCI archives, OCI layout folders and docker archives (`docker save`), through skopeo
 * and umoci. Without a runner.conf of its own, a stateless runner is made from the container's
 * configuration: its command gets the code on standard input. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "codec/sha256.h"
#include "image/progress.h"

struct image_store;

struct import_request {
    const char *name;
    const char *source;     /* archive or folder */
    const char *runner_dir; /* folder with a runner.conf; NULL: derive one */
    struct progress progress;
};

MUST_CHECK int import_image(const struct image_store *store, const struct import_request *request,
                            uint8_t digest[SHA256_BYTES], struct error *err);
