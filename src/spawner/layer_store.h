/* layer_store.h - the package layers of this machine, named by digest and mounted read-only
 *
 *   <layers>/<digest>/tree   what sandboxes find at /packages
 *   <layers>/<digest>/note   what the client had kept beside it; nobody here reads it
 *   <layers>/<digest>/size   bytes and entries, for people
 *   <layers>/.new-<pid>      one that is being written
 *
 * The time of a directory's last change is that of its last use. A layer that a sandbox mounts is
 * locked (flock, shared), in every spawner that has one; who removes one locks it alone, and while
 * he waits for that he has a lock on its tree. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "wire/spawn.h"

struct package_layer;

struct layer_store {
    int fd; /* -1: there is none */
    struct package_layer *layers;
    size_t count;
};

/* `path` may be NULL, or name what is not there yet; then it is made. One that others may write to
 * is not taken, and where there can be none, there are no packages. */
MUST_CHECK int layer_store_open(struct layer_store *store, const char *path, struct error *err);
void layer_store_close(struct layer_store *store);

/* For as long as a sandbox needs it. ERROR_NOT_FOUND: there is none. *out is shared: each taking
 * has its giving back. */
MUST_CHECK int layer_store_take(struct layer_store *store, const uint8_t digest[SPAWN_DIGEST_BYTES],
                                struct package_layer **out, struct error *err);
void layer_store_give(struct layer_store *store, struct package_layer *layer); /* NULL is fine */

/* Whether somebody waits for its last user, to remove it. */
bool layer_store_is_unwanted(const struct package_layer *layer);

/* A mount of it that nobody else has; owned by the caller. */
MUST_CHECK int layer_store_mount(const struct package_layer *layer, int *out, struct error *err);

/* A finished draft gets its name. One that is there already stays as it is, and the draft is left
 * to the next helper. */
MUST_CHECK int layer_store_add(struct layer_store *store, const char *draft,
                               const uint8_t digest[SPAWN_DIGEST_BYTES], struct error *err);
