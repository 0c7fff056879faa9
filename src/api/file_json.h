/* file_json.h - what several routes say about a file of a session */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/id.h"
#include "codec/json.h"
#include "core/errand.h"

/* New: the shape "File". `session` is the id or name by which it is asked for; `path` is relative
 * to the workspace, of any bytes. */
json_t *file_json(const char *session, const char *path, const struct errand_entry *entry);

/* Adds: /api/v1/sessions/SESSION/files/PATH, escaped. False, and nothing is added: the path has
 * bytes that no address has here (control characters, what is no UTF-8). */
bool file_json_add_url(struct strbuf *out, const char *session, const char *path);

/* Owned: both with a slash between, unless the first is empty. */
char *file_join(const char *directory, const char *name);

/* Quotes included; what If-None-Match and If-Range are compared with. */
#define FILE_ETAG_BYTES (ERRAND_TAG_BYTES + 2)
void file_etag(const struct errand_entry *entry, char out[FILE_ETAG_BYTES]);

/* Permissions in octal digits. */
bool file_mode_is_valid(const char *text);
unsigned file_mode_parse(const char *text);
