/* openapi.h - the whole OpenAPI 3.1 document, made of the tables of routes, requests and answers */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"

struct openapi {
    char *text;
    size_t len;
    char *etag; /* with its quotes */
};

/* `groups` up to NULL. The same tables give the same text, byte by byte. */
struct openapi *openapi_new(const struct api_group *const *groups);
void openapi_free(struct openapi *o);
SCOPED_DEFINE(openapi)

json_t *openapi_json(const struct api_group *const *groups); /* new: the same as a value */

/* New: a good request by the examples of a table: what is required, and what has an example. */
json_t *openapi_example(const struct param_table *table);

/* Owned, with its quotes: names these very bytes. */
char *openapi_etag(const void *data, size_t len);
