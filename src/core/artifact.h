/* artifact.h - files that a run made or changed */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARTIFACTS_MAX 1000

struct artifact {
    char *path; /* relative to the workspace; owned by the list */
    uint64_t size;
    uint32_t mode;
    int64_t mtime_ns;
    bool is_left;     /* nobody tried: it is larger than what was to be read */
    bool has_content; /* it could be read, and hashed */
    uint8_t sha256[32];
};

struct artifact_list {
    struct artifact *items; /* sorted by path */
    size_t count;
    bool is_cut; /* there were more, or not all could be read */
};

void artifact_list_release(struct artifact_list *list); /* a zeroed one is fine */

/* Room for one more at the end; the caller fills it. */
struct artifact *artifact_list_add(struct artifact_list *list);
void artifact_list_sort(struct artifact_list *list);
