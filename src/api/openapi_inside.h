/* openapi_inside.h - what the files that make the document share */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/openapi.h"

/* openapi_path.c: new: what is known of one row at one path. `suffix` tells its id from those of
 * its other paths. */
json_t *openapi_operation(const struct api_route *row, const char *suffix);
char *openapi_path(const char *prefix, const char *pattern); /* owned: {path*} is {path} there */

/* Names in components. */
#define OPENAPI_BEARER          "bearer"
#define OPENAPI_API_KEY         "apiKey"
#define OPENAPI_INTERNAL        "internal"
#define OPENAPI_IDEMPOTENCY_KEY "IdempotencyKey"
#define OPENAPI_LAST_EVENT_ID   "LastEventId"

/* Statuses that are told in the shape of errors: "Error404" in components. */
struct openapi_status {
    int status;
    const char *help;
};
extern const struct openapi_status openapi_statuses[]; /* up to 0 */
char *openapi_status_name(int status);                 /* owned */
json_t *openapi_headers(int status);                   /* new: those of any answer with it */
