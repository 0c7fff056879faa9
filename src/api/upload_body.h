/* upload_body.h - the body of a request becomes one file, or what is in an archive
 *
 * Bytes go through as they come: while the porter takes none, the peer is not read. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"

struct errand_order;

/* Answers the call, at whose head it is: 201 for a new file, 200 for one that was replaced, with
 * its "File"; 204 for an archive. The order has all but events and ctx, and is borrowed for the
 * call. */
void upload_body_begin(struct api_call *call, const char *session,
                       const struct errand_order *order);
