/* api_table.c - the rows of every group as the server's table of routes */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/api_inside.h"
#include "api/openapi.h"
#include "base/memory.h"

struct api_table {
    struct route *routes;
    const struct api_route **rows; /* of each route */
    char **patterns;
    size_t count;
    struct openapi *openapi; /* NULL: nobody has asked for it yet */
};

static void add(struct api_table *t, const struct api_route *row, const char *prefix,
                uint64_t upload_max)
{
    char *pattern = xasprintf("%s%s", prefix, row->pattern);
    t->patterns[t->count] = pattern;
    t->rows[t->count] = row;
    t->routes[t->count++] = (struct route){
        .method = row->method,
        .pattern = pattern,
        .scope = row->scope,
        .body_max = row->body_max + (row->flags & API_UPLOADS ? upload_max : 0),
        .flags = row->flags & API_STREAMS ? ROUTE_BODY_STREAMED : 0,
        .handler = api_handle,
    };
}

struct api_table *api_table_new(uint64_t upload_max)
{
    size_t most = 0;
    for (size_t g = 0; api_groups[g]; g++)
        most += 2 * api_groups[g]->count;
    struct api_table *t = xcalloc(1, sizeof(*t));
    t->routes = xcalloc(most, sizeof(*t->routes));
    t->rows = xcalloc(most, sizeof(struct api_route *));
    t->patterns = xcalloc(most, sizeof(*t->patterns));
    for (size_t g = 0; api_groups[g]; g++) {
        for (size_t i = 0; i < api_groups[g]->count; i++) {
            const struct api_route *row = &api_groups[g]->rows[i];
            if (!(row->flags & API_ONLY_ROOT))
                add(t, row, API_PREFIX, upload_max);
            if (row->flags & (API_AT_ROOT | API_ONLY_ROOT))
                add(t, row, "", upload_max);
        }
    }
    return t;
}

void api_table_free(struct api_table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        free(t->patterns[i]);
    openapi_free(t->openapi);
    free(t->patterns);
    free(t->rows);
    free(t->routes);
    free(t);
}

const struct route *api_table_routes(const struct api_table *t, size_t *count)
{
    *count = t->count;
    return t->routes;
}

const struct api_route *api_table_row(const struct api_table *t, const struct route *route)
{
    return t->rows[route - t->routes];
}

const struct openapi *api_table_openapi(struct api_table *t)
{
    if (!t->openapi)
        t->openapi = openapi_new(api_groups);
    return t->openapi;
}
