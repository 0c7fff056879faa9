/* multipart.h - reads multipart/form-data as it comes: bytes in, parts out
 *
 * RFC 7578 and RFC 2046, read strictly: what readers take apart differently is refused. Nothing of
 * a part's body is kept, so memory is bounded whatever is sent: the headers of one part, and 32
 * bytes for each part that was.
 *
 * Refused with ERROR_INVALID and the word "multipart_invalid": no boundary or a bad one, anything
 * before the first boundary or behind the last, a part without a name, a field's name or a file's
 * name twice, a form within the form, a transfer encoding, a file name that is no plain relative
 * path. Refused with ERROR_TOO_LARGE: too many parts, too large headers. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "base/scoped.h"

#define MULTIPART_BOUNDARY_MAX      70 /* RFC 2046 */
#define MULTIPART_PARTS_MAX         1000
#define MULTIPART_HEADERS_MAX_BYTES (8 * 1024) /* of one part */
#define MULTIPART_NAME_MAX_BYTES    255        /* of a field */
#define MULTIPART_PATH_MAX_BYTES    4095       /* of a file */

/* Borrowed for the call. All text is UTF-8 without control characters. */
struct multipart_part {
    const char *name;     /* of the field; never NULL */
    const char *filename; /* NULL: a plain field. Else relative, without "", "." and ".." segments,
                           * without a backslash */
    const char *type;     /* "text/csv": lower case, no parameters; NULL: none was sent */
};

/* Each answers 0, or -1 with *err: the form is then refused with it. Of every part: begin, any
 * number of data, end. */
struct multipart_events {
    int (*begin)(void *ctx, const struct multipart_part *part, struct error *err);
    int (*data)(void *ctx, const void *data, size_t len, struct error *err); /* never empty */
    int (*end)(void *ctx, struct error *err);
};

struct multipart;

/* `type` is the Content-Type of the request (NULL: it had none). `events` is borrowed as long as
 * the reader lives; *out is owned by the caller. */
MUST_CHECK int multipart_open(struct multipart **out, const char *type,
                              const struct multipart_events *events, void *ctx, struct error *err);
void multipart_free(struct multipart *form);
SCOPED_DEFINE(multipart)

/* The next bytes, cut anywhere. After a failure nothing more may be added. */
MUST_CHECK int multipart_add(struct multipart *form, const void *bytes, size_t len,
                             struct error *err);
/* There are no more: fails when the last boundary did not come. */
MUST_CHECK int multipart_end(struct multipart *form, struct error *err);
