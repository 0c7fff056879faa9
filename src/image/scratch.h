/* scratch.h - a private folder for work in progress that never outlives its work for long
 *
 * A scratch folder is locked as long as its process lives. One that nobody holds was left by a
 * crash and is removed when the next is opened beside it. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "base/scoped.h"

struct scratch; /* opaque */

/* Makes a folder "<prefix><random>" with that mode in `parent_dir`, after removing abandoned ones
 * of the same prefix and owner. */
MUST_CHECK int scratch_open(struct scratch **out, const char *parent_dir, const char *prefix,
                            unsigned mode, struct error *err);
void scratch_free(struct scratch *scratch); /* removes the folder, unless it has been moved away */
SCOPED_DEFINE(scratch)

int scratch_fd(const struct scratch *scratch);           /* of the folder; borrowed */
int scratch_parent_fd(const struct scratch *scratch);    /* borrowed */
const char *scratch_path(const struct scratch *scratch); /* borrowed */
const char *scratch_name(const struct scratch *scratch); /* the last part of the path; borrowed */
