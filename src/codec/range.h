/* range.h - which bytes of a file somebody asks for (RFC 9110 section 14)
 *
 * One range is served. What asks for several, for another unit, or makes no sense is passed over,
 * as the RFC permits: the answer is then the whole file. No number is too large to be read. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum range_kind {
    RANGE_WHOLE,         /* 200 */
    RANGE_PART,          /* 206, with Content-Range */
    RANGE_UNSATISFIABLE, /* 416, with Content-Range */
};

struct range {
    enum range_kind kind;
    uint64_t first;
    uint64_t length; /* RANGE_PART: at least 1; RANGE_UNSATISFIABLE: 0 */
};

/* What the header Range (NULL: there is none) asks of `size` bytes. Always within them. */
struct range range_of(const char *header, uint64_t size);

/* Whether Range counts at all beside If-Range (NULL: there is none): an entity tag is compared
 * strongly with `etag` (NULL: there is none), a date with `modified`, to the letter. `modified` is
 * the Last-Modified that is told, or NULL where it is no strong validator: the file may change
 * again within its second. */
bool range_counts(const char *if_range, const char *etag, const char *modified);

#define RANGE_TEXT_BYTES 72

/* The value of Content-Range: "bytes 0-9/100", or "bytes" with a star for what cannot be served. */
void range_format(struct range range, uint64_t size, char out[RANGE_TEXT_BYTES]);
