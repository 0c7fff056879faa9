/* method.c - one table, read both ways */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/method.h"

#include <string.h>

static const char *const names[METHOD_COUNT] = {
    [METHOD_GET] = "GET",         [METHOD_HEAD] = "HEAD",     [METHOD_POST] = "POST",
    [METHOD_PUT] = "PUT",         [METHOD_DELETE] = "DELETE", [METHOD_PATCH] = "PATCH",
    [METHOD_OPTIONS] = "OPTIONS",
};

const char *method_name(enum method method)
{
    return names[method];
}

enum method method_find(const char *name, size_t len)
{
    for (int i = 0; i < METHOD_COUNT; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return (enum method)i;
    }
    return METHOD_COUNT;
}
