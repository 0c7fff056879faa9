/* method.h - the request methods that Cove knows; all others are answered with 501 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

enum method {
    METHOD_GET,
    METHOD_HEAD,
    METHOD_POST,
    METHOD_PUT,
    METHOD_DELETE,
    METHOD_PATCH,
    METHOD_OPTIONS,
    METHOD_COUNT
};

const char *method_name(enum method method);

/* Methods are case-sensitive. METHOD_COUNT: not one of ours. */
enum method method_find(const char *name, size_t len);
