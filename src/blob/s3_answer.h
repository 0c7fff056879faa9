/* s3_answer.h - the XML that S3 answers with: bytes in, the few values that matter out (expat)
 *
 * It comes from outside: no document type, bounded depth, lengths and number; what is not known is
 * passed over. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3_TEXT_BYTES   2048 /* longest value, NUL included; a longer one makes the document bad */
#define S3_ITEMS_MAX    1000
#define S3_ANSWER_BYTES ((size_t)4 << 20) /* largest document */

struct s3_item { /* an object, or an upload that is not complete */
    char *key;
    char *etag; /* without quotes; or the upload's id */
    uint64_t size;
    int64_t modified_ns; /* or when it was begun */
};

struct s3_answer {
    char root[64]; /* name of the outermost element */
    char code[64]; /* of an error: letters and digits only */
    char region[64];
    char upload_id[S3_TEXT_BYTES];
    char etag[128];
    bool is_truncated;
    struct s3_item *items; /* owned */
    size_t count;
};

/* False: it is no such document. To be released in either case. */
bool s3_answer_parse(struct s3_answer *out, const char *data, size_t len);
void s3_answer_release(struct s3_answer *answer);
#define scoped_s3_answer __attribute__((cleanup(s3_answer_release)))

/* "2009-10-12T17:50:30.000Z", or "Mon, 12 Oct 2009 17:50:30 GMT" as in headers; 0: neither. */
int64_t s3_time_ns(const char *text);
