/* range.c - numbers are read with a ceiling, so that none of them can wrap */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/range.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct range whole = {RANGE_WHOLE, 0, 0};
static const struct range unsatisfiable = {RANGE_UNSATISFIABLE, 0, 0};

/* Reads digits; more than fits is UINT64_MAX, which is beyond every file. False: there are none. */
static bool take_number(const char **at, uint64_t *out)
{
    const char *begin = *at;
    uint64_t value = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        uint64_t digit = (uint64_t)(**at - '0');
        value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
    }
    *out = value;
    return *at != begin;
}

static struct range last_bytes(uint64_t count, uint64_t size)
{
    if (count == 0)
        return unsatisfiable;
    if (size == 0) /* no Content-Range can say "none of none" */
        return whole;
    uint64_t length = count < size ? count : size;
    return (struct range){RANGE_PART, size - length, length};
}

static struct range from_to(uint64_t first, uint64_t last, uint64_t size)
{
    if (last < first)
        return whole;
    if (first >= size)
        return unsatisfiable;
    uint64_t end = last < size ? last : size - 1; /* included */
    return (struct range){RANGE_PART, first, end - first + 1};
}

struct range range_of(const char *header, uint64_t size)
{
    static const char unit[] = "bytes=";
    uint64_t first, last = UINT64_MAX;
    if (!header || strncasecmp(header, unit, strlen(unit)) != 0)
        return whole;
    const char *at = header + strlen(unit);
    at += strspn(at, " \t");
    bool has_first = take_number(&at, &first);
    if (*at++ != '-')
        return whole;
    bool has_last = take_number(&at, &last);
    at += strspn(at, " \t");
    if (*at || (!has_first && !has_last))
        return whole;
    if (!has_first)
        return last_bytes(last, size);
    return from_to(first, has_last ? last : UINT64_MAX, size);
}

bool range_counts(const char *if_range, const char *etag, const char *modified)
{
    if (!if_range)
        return true;
    /* A weak tag begins with W, so it equals no strong one, and no date. */
    if (etag && etag[0] == '"' && strcmp(if_range, etag) == 0)
        return true;
    return modified && strcmp(if_range, modified) == 0;
}

void range_format(struct range range, uint64_t size, char out[RANGE_TEXT_BYTES])
{
    if (range.kind == RANGE_PART)
        snprintf(out, RANGE_TEXT_BYTES, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range.first,
                 range.first + range.length - 1, size);
    else
        snprintf(out, RANGE_TEXT_BYTES, "bytes */%" PRIu64, size);
}
