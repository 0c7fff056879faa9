/* storage.h - where blobs are kept: a folder of the server's own, or a bucket
 *
 * With a bucket, artifacts are kept in the folder first, and go on to the bucket from there: an
 * execution that ends while the bucket is dead loses nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/log.h"
#include "blob/blob.h"
#include "core/server_config.h"
#include "event/loop.h"

struct storage;

/* Loads what cannot be loaded by a process that is confined. `config` is borrowed for its life. */
MUST_CHECK int storage_prepare(struct storage **out, const struct config *config,
                               struct error *err);
void storage_free(struct storage *storage); /* NULL is fine */
SCOPED_DEFINE(storage)

/* What the confinement has to leave open: a port (0: none), and files to read, NULL-terminated. */
unsigned storage_port(const struct storage *storage);
const char *const *storage_files(const struct storage *storage);

struct storage_order {
    struct loop *loop;
    const struct log *log;
    const char *dir; /* of the server */
};

/* Opens it. A bucket that does not answer is no reason not to start: it is asked again and again,
 * and /health tells. */
MUST_CHECK int storage_open(struct storage *storage, const struct storage_order *order,
                            struct error *err);
/* Borrowed; NULL before it was opened. */
struct blob *storage_blob(struct storage *storage);
struct blob *storage_artifacts(struct storage *storage);
