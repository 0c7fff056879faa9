/* multipart_head.h - the headers of one part of a form, and the boundary: for multipart.c */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct multipart_head {           /* zeroed: nothing was seen yet */
    char *name, *filename, *type; /* as in multipart.h; owned */
    unsigned seen;                /* bits of the rows of headers[] */
};

void multipart_head_release(struct multipart_head *head); /* and zeroes it */

/* One line without its end; `line` is overwritten, and a NUL follows. */
MUST_CHECK int multipart_head_add(struct multipart_head *head, char *line, size_t len,
                                  struct error *err);
/* All lines are there. */
MUST_CHECK int multipart_head_check(const struct multipart_head *head, struct error *err);

/* The boundary that a Content-Type names (NULL: there was no such header); owned by the caller. */
MUST_CHECK int multipart_boundary(char **out, const char *type, struct error *err);

int multipart_refuse(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3); /* -1 */
