/* uploads.h - files on their way into sessions by way of the storage
 *
 * Who has a large file puts it into the bucket by a presigned address, past this server, and then
 * has it put into the workspace. What is never asked for goes after a day.
 *
 *   uploads/<session>/<upload>   the bytes; a session's own, so nobody else can ask for them */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/log.h"
#include "blob/blob.h"
#include "event/loop.h"

#define UPLOAD_KEY_BYTES 96

/* Both ids were checked. */
void upload_key(const char *session, const char *upload, char out[UPLOAD_KEY_BYTES]);

struct uploads;

/* Removes what is old, from time to time; nothing where a storage has no addresses. All is borrowed
 * as long as it lives. */
struct uploads *uploads_new(struct loop *loop, struct blob *blob, const struct log *log);
void uploads_free(struct uploads *uploads); /* right before the blobs go; NULL is fine */
