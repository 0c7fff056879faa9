/* download.h - a file of a session, or a directory as a tar stream, on its way to a peer
 *
 * Never more than a few buffers of it are in memory: who takes slowly makes the porter wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"

enum download_form {
    DOWNLOAD_FILE, /* with Range, ETag and the like, as the request has them */
    DOWNLOAD_TAR,  /* `path` is a directory; "": the workspace */
};

/* Answers the call. `who` is not always the caller: an address may speak for itself. `session` and
 * `path` are borrowed for the call. */
void download_begin(struct api_call *call, const struct plane_caller *who, const char *session,
                    const char *path, enum download_form form);
