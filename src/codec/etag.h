/* etag.h - entity tags in If-None-Match and If-Match (RFC 9110 sections 8.8.3 and 13.1) */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* Whether `list` ("*", or tags with commas between) names `etag`, compared weakly: W/"a" is "a".
 * What is no such list names nothing from where it goes wrong. Neither may be NULL. */
bool etag_is_listed(const char *list, const char *etag);
